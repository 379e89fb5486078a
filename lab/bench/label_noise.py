"""Label noise at the limit: the evidence's penalty against naive training, in pairs.

    python lab/bench/label_noise.py --data DIR [--seeds 20] [--flips 0.4]

Barber 2020, Figure 3: 250 sevens and 250 nines of MNIST, labels and pixels flipped with the same
probability, tested on 900 clean ones of each. Every method learns from the same flipped digits and
chooses its penalty on them alone. Cross-validation chooses it for "naive", the rival of the
paper; "naive, evidence" has our rule. Claim: at p_f = .4 we are no worse than either, on average.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from harness import claim

from suffice.learner.problem import design_matrix
from suffice.learner.spread import SpreadClassifier
from suffice.learner.spread_likelihood import (
    Corrupted,
    SpreadLikelihood,
    choose_lam,
    maximise,
    most_evident_lam,
)
from suffice.papers.barber import Digits, flip_pixels, read_digits
from suffice.papers.spread import as_observed
from suffice.releases.columns import declared_pipeline

TRAIN, TEST, STEPS = 250, 900, 2000


def accuracies(digits: Digits, flip: float, seed: int) -> dict[str, float]:
    """Return the accuracy on clean digits of every method, for one draw of digits and flips."""
    rng = np.random.default_rng(seed)
    sample = digits.sample(rng, TRAIN, TEST)
    corruption = flip_pixels(sample, flip, rng)
    columns = corruption.mechanism.columns(digits.names)
    records = Corrupted(columns, tuple(corruption.cells.T))
    ours = SpreadClassifier().fit_corrupted(records, corruption.codes, corruption.channel, (0, 1))
    as_clean = SpreadLikelihood(as_observed(records), corruption.codes, np.eye(2))
    lams = {
        "naive": choose_lam(as_clean, max_iter=STEPS),
        "naive, evidence": most_evident_lam(as_clean, STEPS),
    }
    models = {"ours": ours.theta_}
    for name, lam in lams.items():
        models[name] = maximise(as_clean, lam, tol=1e-5, max_iter=STEPS)[0]
    rows = design_matrix(digits.table(corruption.test_rows), declared_pipeline(columns))
    truth = sample.test_labels == 1
    return {name: float(np.mean((rows @ coef > 0) == truth)) for name, coef in models.items()}


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print mean accuracies and paired differences, and return the claims."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--flips", default="0.4")
    options = parser.parse_args(arguments)
    digits, claims = read_digits(options.data), []
    for flip in map(float, options.flips.split(",")):
        runs = [accuracies(digits, flip, seed) for seed in range(options.seeds)]
        table = {name: 100 * np.array([run[name] for run in runs]) for name in runs[0]}
        print(f"p_f = {flip:g}, {options.seeds} repetitions, per cent right on clean digits")
        for name, values in table.items():
            gaps = table["ours"] - values
            error = gaps.std(ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.nan
            compared = f"ours less it {gaps.mean():+.2f}, standard error {error:.2f}"
            print(f"  {name:16} {values.mean():6.2f}  {compared}")
            if name != "ours" and flip == 0.4:
                claims.append(claim(f"p_f = 0.4: {name} less ours", float(-gaps.mean()), 0.0))
    return claims


if __name__ == "__main__":
    main(sys.argv[1:])
