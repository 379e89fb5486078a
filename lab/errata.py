"""Show entries of docs/errata.md by numbers: each printed formula beside what holds.

`python lab/errata.py` takes seconds and needs no data. Each line ends with whether the
numbers bear the entry out; the exit code is 1 if one does not. Theorem 10 of Patrini et al. has
bench/theorem10.py, and entries with a command of their own name it.
"""

import sys

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import expit, log_expit

from suffice.privacy.dirichlet import largest_sigma

_NODES, _WEIGHTS = hermegauss(120)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_FLIPS = 0.8, 0.2  # p(1 -> 1) and p(0 -> 1)


def barber_107() -> tuple[str, bool]:
    """Compare equation 107 with second differences of equation 104, at alpha = 0 and s = 1."""
    one, two = np.meshgrid(_NODES, _NODES, indexing="ij")
    weights = np.outer(_WEIGHTS, _WEIGHTS)

    def gamma(z: np.ndarray) -> np.ndarray:
        return _FLIPS[0] * expit(z) + _FLIPS[1] * (1 - expit(z))

    def likelihood(alpha: float) -> float:
        turned = one * np.cos(alpha) + two * np.sin(alpha)
        kept = gamma(one)
        return float((weights * (kept * log_expit(turned) + (1 - kept) * log_expit(-turned))).sum())

    step = 1e-3
    numeric = (likelihood(step) - 2 * likelihood(0.0) + likelihood(-step)) / step**2
    first = float(_WEIGHTS @ (-_NODES * gamma(_NODES)))
    printed = first - float(_WEIGHTS @ (expit(_NODES) * expit(-_NODES)))
    text = f"second derivative {numeric:.5f}; its first term {first:.5f}; as printed {printed:.5f}"
    return text, abs(numeric - first) < 1e-5 < abs(numeric - printed)


def barber_12() -> tuple[str, bool]:
    """Compare KL / N with the mean log likelihood of equation 13 at two values of theta."""
    votes, thetas = np.array([1, 1, 1, 0]), (0.6, 0.7)

    def likelihood(theta: float) -> float:
        return float(np.mean(votes * np.log(theta) + (1 - votes) * np.log(1 - theta)))

    def divergence(theta: float) -> float:  # the empirical distribution has mass on one state
        return -float(np.sum(np.log(np.where(votes == 1, theta, 1 - theta)))) / len(votes)

    rise, fall = (f(thetas[1]) - f(thetas[0]) for f in (likelihood, divergence))
    text = f"from theta .6 to .7 L_N changes by {rise:+.4f}, KL/N by {fall:+.4f}"
    return text, abs(rise + fall) < 1e-12 < rise


def barber_majority() -> tuple[str, bool]:
    """Count the triples of labels whose majority the printed threshold takes for 0."""
    triples = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    wrong = [t for t in triples if (sum(t) > 2) != (sum(t) >= 2)]
    right = all((sum(t) > 1) == (sum(t) >= 2) for t in triples)
    return f"'> 2' takes {len(wrong)} of 4 majorities of 1 for 0; '> 1' none", len(
        wrong
    ) == 3 and right


def patrini_homogeneity() -> tuple[str, bool]:
    """Build bags that satisfy E[x|y,j] = E[x|y], and compare the printed E[x|y,j] = E[x|j]."""
    means, shares = np.array([-1.0, 1.0]), np.array([0.9, 0.2])  # of classes; of class 1 in bags
    of_bags = shares * means[1] + (1 - shares) * means[0]
    gap = float(np.abs(means[:, None] - of_bags).max())
    return (
        f"class means {means}, bag means {of_bags.round(2)}: they differ by up to {gap:.1f}",
        gap > 1,
    )


def iyer_distortion() -> tuple[str, bool]:
    """Measure Equation 9's distortion in the paper's setting, as a sum and as a mean."""
    counts = np.array([50, 50, 50, 50, 800])
    sigma = largest_sigma(counts, 0.05, 0.05, "tail")
    rng = np.random.default_rng(0)
    drawn = rng.dirichlet(sigma * counts, 20_000)
    total = float(np.abs(drawn - counts / 1000).sum(axis=1).mean())
    noise = rng.laplace(scale=2 / 0.05, size=(20_000, 5))
    laplace = float(np.abs(noise).sum(axis=1).mean()) / 1000
    text = (
        f"eq. 9: L1 {total:.4f}, over 5 classes {total / 5:.4f} (printed .06);"
        f" Laplace before the projection: L1 {laplace:.3f}, over 5 {laplace / 5:.3f} (printed .15)"
    )
    return text, abs(total / 5 - 0.06) < 0.005 and laplace / 5 < 0.05


def iyer_theorem_1() -> tuple[str, bool]:
    """Compare singular values of empirical and true mean embeddings of bags of one distribution."""
    rng = np.random.default_rng(0)
    smallest = []
    for size in (100, 400, 1600):
        rows = rng.normal(size=(2, size))  # two bags that cannot be told apart: the true value is 0
        embedded = np.vstack([_embed(of) for of in rows]).T
        smallest.append(np.linalg.svd(embedded, compute_uv=False)[-1])
    text = ", ".join(f"{value:.3f}" for value in smallest)
    return f"true 0; from 100, 400 and 1,600 rows a bag: {text}", min(smallest) > 0.005


def _embed(rows: np.ndarray) -> np.ndarray:
    """Return the mean of random Fourier features of a Gaussian kernel of norm one."""
    rng = np.random.default_rng(1)
    frequencies, phases = rng.normal(size=500), rng.uniform(0, 2 * np.pi, 500)
    return np.sqrt(2 / 500) * np.cos(np.outer(rows, frequencies) + phases).mean(axis=0)


ENTRIES = {
    "Barber, equation 107": barber_107,
    "Barber, equation 12": barber_12,
    "Barber, section 1, majority": barber_majority,
    "Patrini, section 3, homogeneity": patrini_homogeneity,
    "Iyer, .06": iyer_distortion,
    "Iyer, Theorem 1": iyer_theorem_1,
}


def main() -> int:
    """Print a line per entry; return 1 if the numbers contradict one."""
    wrong = 0
    for name, show in ENTRIES.items():
        text, holds = show()
        print(f"{name}: {text}: {'holds' if holds else 'DOES NOT HOLD'}")
        wrong += not holds
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
