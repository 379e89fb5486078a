"""Our class ratios beside QuaPy's EMQ and KDEyML, which see the label of every row.

    OMP_NUM_THREADS=1 python lab/bench/peers/compare_quapy.py --data ../shared/data

ratios: the sets and tests of lab/bench/class_ratio.py on Adult. Ours learns from two proportions,
    theirs from 1200 labels, on rows in the usual form: columns standardised, categories one-hot as
    0 and 1 (on rows as our pipeline scales them both are worse).
speed: ten sets of 3000 MNIST rows, and of 300, and a test of 3000; processor seconds of one thread,
    one run. KDEyML on pixels between 0 and 1 and with scikit-learn's logistic regression as it
    comes, which stops at 100 iterations and is the faster for it.
adapter: QuaPyClassRatio in QuaPy's evaluation and model selection; our scores against QuaPy's.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULT = HERE.parent / "results" / "quapy.json"
sys.path[:0] = [str(HERE), str(HERE.parent)]

from class_ratio import METHODS, SHARES, Case, adult, mnist, recorded  # noqa: E402
from environments import asked  # noqa: E402
from harness import claim  # noqa: E402

from suffice.learner.problem import design_matrix  # noqa: E402
from suffice.learner.ratio.estimator import ClassRatio  # noqa: E402


def theirs(task: str, sets: dict[str, Any]) -> dict[str, Any]:
    """Return what the peer's process makes of a task; suffice is there for the adapter."""
    return asked("quapy", task, with_us=True, **sets)


def plain(rows: Any, model: ClassRatio) -> np.ndarray:
    """Return rows with standardised numbers, and categories as 0 and 1 up to a constant."""
    pipeline = model.pipeline_
    number = [c.categories is None for c in pipeline.columns for _ in c.categories or (None,)]
    mapped = design_matrix(rows, pipeline, new=True)
    return mapped * np.where(number, 1.0, pipeline.scale)


def ratios(folder: Path, repeats: int) -> tuple[dict, list[dict]]:
    """Return the mean error of every method at every share."""
    cases = list(adult(folder, repeats))
    errors: dict[str, list] = {}
    sets: dict[str, Any] = {"cases": len(cases)}
    for i, case in enumerate(cases):
        for method in METHODS:
            model = case.known(method)
            errors.setdefault(method, []).append(case.errors(model.quantify(case.tests)))
        tests = np.stack([plain(test, model) for test in case.tests])
        sets |= {f"rows{i}": plain(case.rows, model), f"labels{i}": case.labels}
        sets[f"tests{i}"] = tests
    for name, estimates in theirs("ratios", sets).items():
        errors[name] = [
            case.errors(np.array(ratios)) for case, ratios in zip(cases, estimates, strict=True)
        ]
    means = {name: np.mean(runs, axis=0) for name, runs in errors.items()}
    for name, values in means.items():
        cells = " ".join(f"{value:.4f}" for value in values)
        print(f"Adult, L1 at shares {SHARES}: {name:15s} {cells}  mean {values.mean():.4f}")
    over = {name: float(means["auto"].mean() / mean.mean()) for name, mean in means.items()}
    claims = [
        claim(f"Adult: auto / {name} with all labels", ratio, 1.2)
        for name, ratio in over.items()
        if name not in METHODS
    ]
    return {name: mean.tolist() for name, mean in means.items()}, claims


def speed(folder: Path) -> tuple[dict, list[dict]]:
    """Return processor seconds of fit and quantify."""
    warm = np.random.default_rng(0).random((200, 4)) + np.arange(200)[:, None] % 2
    ClassRatio(features=64).fit(warm, np.arange(200) % 2)  # compiles
    full_case = next(iter(mnist(folder, 1)))
    results, claims = {}, []
    for every in (10, 1):
        part = slice(None, None, every)
        case = replace(
            full_case,
            rows=full_case.rows[part],
            bags=full_case.bags[part],
            labels=full_case.labels[part],
        )
        results[len(case.rows)], ratio = timed(case)
        claims.append(claim(f"MNIST, {len(case.rows)} rows: our time / KDEyML's", ratio, 1.0))
    return results, claims


def timed(case: Case) -> tuple[dict, float]:
    """Return seconds and errors of either side, and the ratio of seconds."""
    start = time.process_time()
    model = case.known()
    fitted = time.process_time()
    answer = model.quantify(case.tests[0])
    ours = {"fit": fitted - start, "quantify": time.process_time() - fitted}
    sets = {"rows": case.rows / 255, "labels": case.labels, "test": case.tests[0] / 255}
    peer = theirs("speed", sets)
    answers = {"ours": answer, "KDEyML": np.array(peer.pop("ratios"))}
    errors = {name: float(np.abs(ratios - case.truth[0]).sum()) for name, ratios in answers.items()}
    results = {"ours": ours, "KDEyML": peer, "L1": errors}
    print(f"MNIST, {len(case.rows)} rows, seconds:", json.dumps(results))
    return results, sum(ours.values()) / sum(peer.values())


def adapter(folder: Path) -> tuple[dict, list[dict]]:
    """Return what QuaPy says of our quantifier."""
    case = next(iter(adult(folder, 1)))
    model = case.known("mmd")
    tests = np.vstack([plain(test, model) for test in case.tests])
    labels = np.concatenate(
        [np.repeat([0, 1], np.rint(600 * ratios).astype(int)) for ratios in case.truth]
    )
    sets = {"rows": plain(case.rows, model), "labels": case.labels}
    results = theirs("adapter", {**sets, "test": tests, "test_labels": labels})
    print("adapter in QuaPy's evaluation:", results)
    claims = [
        claim("our scores less QuaPy's", results["scores differ by"], 1e-12),
        claim(
            "ours / KDEyML in QuaPy's evaluation, all labels",
            results["ours"] / results["KDEyML"],
            1.2,
        ),
    ]
    return results, claims


def main(arguments: Sequence[str] = ()) -> list[dict]:
    """Print every claim and write lab/bench/results/quapy.json."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--parts", default="ratios,speed,adapter")
    wanted = parser.parse_args(arguments)
    parts = {
        "ratios": lambda: ratios(wanted.data, wanted.repeats),
        "speed": lambda: speed(wanted.data),
        "adapter": lambda: adapter(wanted.data),
    }
    return [
        claim for part in wanted.parts.split(",") for claim in recorded(part, parts[part], RESULT)
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
