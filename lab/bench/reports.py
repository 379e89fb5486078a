"""Whole-record reports beside answers question by question, at one epsilon per record, on adult.

    python lab/bench/reports.py --data DIR [--draws 5] [--sex]

Five columns of adult in steps, and the label: age (4), education (4), married (2), capital gain
above 5,000 (2), more than 40 hours (2), so 256 combinations. ``--sex`` takes sex in the place of
capital gain. The people of the training part report; a model is scored on the test part. Question
by question, every answer has a sixth of epsilon. The columns were chosen here: with others the
figures differ. Reports are simulated, all people at once, by the law of `Report.draw`.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from suffice.learner.frequencies import release_frequencies
from suffice.learner.spread import SpreadClassifier
from suffice.owner.responses import RandomizedResponse
from suffice.owner.survey import _DeclaredReports, new_survey
from suffice.participant import Report


def answers(folder: Path, *, sex: bool) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the codes of every column, and which rows are for training."""
    table = pq.read_table(folder / "adult.parquet")

    def column(name: str) -> np.ndarray:
        return np.array(table[name].to_pylist())

    codes = {
        "label": column("label").astype(int),
        "age": np.digitize(column("age"), [28, 38, 48]),
        "education": np.digitize(column("education_num"), [9, 10, 13]),
        "married": np.char.startswith(column("marital_status").astype(str), "Married") * 1,
        "fourth": (column("sex") == "Male") * 1 if sex else (column("capital_gain") > 5000) * 1,
        "hours": (column("hours_per_week") > 40) * 1,
    }
    return codes, column("split") == "train"


def counts_of(report: Report, people: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return how many simulated reports of people with these combinations hold each."""
    counts = np.zeros(report.count, dtype=np.int64)
    for block in np.array_split(people, 8):
        keys = rng.random((len(block), report.count))
        kept = rng.random(len(block)) < report.keep
        keys[np.arange(len(block)), block] = np.where(kept, -1, 2)  # first or last of all
        last = np.partition(keys, report.size - 1, axis=1)[:, report.size - 1]
        counts += (keys <= last[:, None]).sum(axis=0)
    return counts


def main(words: list[str] | None = None) -> None:
    """Print accuracies and how often intervals of proportions hold the exact one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sex", action="store_true")
    options = parser.parse_args(words)
    codes, train = answers(options.data, sex=options.sex)
    states = {name: [f"s{k}" for k in range(max(cells) + 1)] for name, cells in codes.items()}
    texts = {name: np.array(states[name])[cells] for name, cells in codes.items()}
    features = [name for name in codes if name != "label"]
    test = pa.table({name: texts[name][~train] for name in features})
    exact = texts["label"][~train]
    sizes = [len(names) for names in states.values()]
    people = np.ravel_multi_index([cells[train] for cells in codes.values()], sizes)
    rng = np.random.default_rng(34)
    for epsilon in (1.0, 2.0):
        survey = new_survey("Adult", states=states, label="label", epsilon=epsilon, report="whole")
        declared = _DeclaredReports(survey)
        found, held = {"whole": [], "per question": []}, []
        for _ in range(options.draws):
            counts = counts_of(survey.report, people, rng)
            guarantees = declared.guarantees(0.0)
            release = declared.release({"counts": counts}, states["label"], guarantees)
            model = SpreadClassifier().fit_release(release)
            found["whole"].append(np.mean(model.predict(test) == exact))
            inside = []
            for one, cells in zip(release_frequencies(release), codes.values(), strict=False):
                shares = np.bincount(cells[train], minlength=len(one.shares)) / train.sum()
                inside.append((one.low <= shares) & (shares <= one.high))
            held.append(np.mean(np.concatenate(inside)))
            flips = {name: 1 - _keep(len(states[name]), epsilon / 6) for name in codes}
            mechanism = RandomizedResponse(
                classes=states["label"],
                label_flip=flips["label"],
                states={name: states[name] for name in features},
                feature_flip={name: flips[name] for name in features},
            )
            table = pa.table({name: texts[name][train] for name in features})
            single = mechanism.release(table, texts["label"][train], ledger=None)
            model = SpreadClassifier().fit_release(single)
            found["per question"].append(np.mean(model.predict(test) == exact))
        shown = [
            f"{name} {np.mean(a):.3f} (s.e. {np.std(a) / (len(a) - 1) ** 0.5:.3f})"
            for name, a in found.items()
        ]
        print(
            f"epsilon {epsilon:g}: {', '.join(shown)}; intervals held {np.mean(held):.3f}"
            f" (s.e. {np.std(held) / (len(held) - 1) ** 0.5:.3f})"
        )


def _keep(states: int, epsilon: float) -> float:
    return float(np.exp(epsilon) / (np.exp(epsilon) + states - 1))


if __name__ == "__main__":
    main()
