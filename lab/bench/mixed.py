"""Some feature columns public, others private with the label: what a mixed release would gain.

    python lab/bench/mixed.py --data DIR [--splits 6]

A prototype, no mechanism: numpy noise, and no unit of a budget says "private part of a record". A
record is (u, v): u the public cells, v the private cells and the label, ||u|| <= 1, ||v|| <= 1, the
constant 1 among u. Released are u u^T as it is, and with Gaussian noise sqrt(2) u v^T and v v^T.
Other private cells move these by

    D^2 = 2 ||u||^2 ||v - v'||^2 + ||v v^T - v' v'^T||_F^2 <= 2 ||v - v'||^2 + 2 - 2 <v, v'>^2,

with t = <v, v'> at most 4 - 4 t + 2 - 2 t^2, which is 8 at t = -1: D = sqrt(8). The public block is
exact. Where all is private, the same blocks of (1, x, y) have D = sqrt(2) times the squared length.
Both feed ridge regressions of the label; the penalty is the best of a grid by new rows, for both.
Half of the columns public gained less than a point on magic, adult and spambase at epsilon .1 to 1.
"""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from suffice.papers.reproduction import split
from suffice.privacy.events import gaussian_multiplier

_DELTA = 1e-6
_PENALTIES = np.geomspace(1e-5, 10, 25)


def numbers(table: pa.Table) -> np.ndarray:
    """Return the columns of numbers."""
    columns = [c for c in table.columns if not pa.types.is_dictionary(c.type)]
    return np.column_stack([c.to_numpy(zero_copy_only=False) for c in columns]).astype(float)


def cut(rows: np.ndarray) -> np.ndarray:
    """Return rows, each no longer than 1."""
    return rows / np.maximum(np.linalg.norm(rows, axis=1), 1)[:, None]


def symmetric(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return noise of deviation 1 on squares and 1/sqrt(2) on products."""
    upper = np.triu(rng.normal(size=(size, size)) / math.sqrt(2), 1)
    return upper + upper.T + np.diag(rng.normal(size=size))


def best(a: np.ndarray, b: np.ndarray, new: np.ndarray, labels: np.ndarray) -> float:
    """Return the accuracy of the best penalty; the first coordinate is the constant."""
    values, vectors = np.linalg.eigh(a)
    values = np.maximum(values, 0)
    found = []
    for penalty in _PENALTIES:
        theta = vectors @ ((vectors.T @ b) / (values + penalty))
        found.append(np.mean(np.sign(new @ theta) == labels))
    return float(max(found))


def accuracies(name: str, seed: int, epsilon: float, folder: Path) -> tuple[float, float, float]:
    """Return the accuracy with all cells private, with half of them public, and without noise."""
    data, rng = split(name, seed, folder), np.random.default_rng(seed)
    rows, new = numbers(data.rows.slice(0, 20_000)), numbers(data.test_rows)
    second = np.unique(data.labels)[1]
    y, truth = (
        np.where(own == second, 1.0, -1.0) for own in (data.labels[:20_000], data.test_labels)
    )
    mean, scale = rows[:2000].mean(axis=0), rows[:2000].std(axis=0) + 1e-9
    rows, new = ((x - mean) / scale for x in (rows[2000:], new))
    y, count = y[2000:], len(rows)
    half = math.sqrt(np.quantile((rows**2).sum(axis=1), 0.5))
    deviation = gaussian_multiplier(epsilon, _DELTA) / count

    def constant(x: np.ndarray, length: float) -> np.ndarray:
        return np.column_stack([np.full(len(x), math.sqrt(1 - length)), math.sqrt(length) * x])

    # All private: z = (1, x, y) with squared lengths 1/4, 1/2 and 1/4.
    x, x_new = cut(rows / half), cut(new / half)
    z = np.column_stack([np.full(count, 0.5), math.sqrt(0.5) * x, 0.5 * y])
    moments = z.T @ z / count
    z_new = np.column_stack([np.full(len(new), 0.5), math.sqrt(0.5) * x_new])
    noisy = moments + math.sqrt(2) * deviation * symmetric(len(moments), rng)
    private = best(noisy[:-1, :-1], noisy[:-1, -1], z_new, truth)
    exact = best(moments[:-1, :-1], moments[:-1, -1], z_new, truth)

    # Mixed: every second column is public; v has the others and the label, half of the length each.
    own = math.sqrt(np.quantile((rows[:, 1::2] ** 2).sum(axis=1), 0.5))
    public = math.sqrt(np.quantile((rows[:, ::2] ** 2).sum(axis=1), 0.5))
    u, u_new = (constant(cut(r[:, ::2] / public), 0.5) for r in (rows, new))
    v, v_new = (math.sqrt(0.5) * cut(r[:, 1::2] / own) for r in (rows, new))
    v = np.column_stack([v, math.sqrt(0.5) * y])
    reach = math.sqrt(8) * deviation
    cross = u.T @ v / count + reach / math.sqrt(2) * rng.normal(size=(u.shape[1], v.shape[1]))
    inner = v.T @ v / count + reach * symmetric(v.shape[1], rng)
    a = np.block([[u.T @ u / count, cross[:, :-1]], [cross[:, :-1].T, inner[:-1, :-1]]])
    b = np.concatenate([cross[:, -1], inner[:-1, -1]])
    mixed = best(a, b, np.column_stack([u_new, v_new]), truth)
    return private, mixed, exact


def main(words: Sequence[str] | None = None) -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--sets", default="magic,adult,spambase")
    asked = parser.parse_args(words)
    print("| table | epsilon | all private | half public | gain | s.e. | without noise |")
    print("|---|---|---|---|---|---|---|")
    for name in asked.sets.split(","):
        for epsilon in (0.1, 0.3, 1.0):
            runs = [accuracies(name, seed, epsilon, asked.data) for seed in range(asked.splits)]
            found = np.array(runs)
            gain = found[:, 1] - found[:, 0]
            error = gain.std(ddof=1) / math.sqrt(len(gain))
            means = found.mean(axis=0)
            print(
                f"| {name} | {epsilon:g} | {means[0]:.3f} | {means[1]:.3f} | {gain.mean():+.3f} |"
                f" {error:.3f} | {means[2]:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
