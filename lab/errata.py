"""Show the entries of docs/errata.md by numbers: each printed formula beside what holds.

`python lab/errata.py` takes seconds and needs no data. Each line ends with whether the numbers bear
the entry out; the exit code is 1 if one does not. Two entries need data, and name the command that
shows them.
"""

import sys
from math import exp, log, sqrt

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from scipy.stats import beta, binom, gamma

from suffice.learner.intervals import noise_norm
from suffice.models.problem import LOSSES
from suffice.models.simplex import nearest_proportions
from suffice.papers.barber import reconstruction_limit
from suffice.privacy.binomial import edge_mass, shift_epsilon, truncation
from suffice.privacy.dirichlet import exact_delta, largest_sigma
from suffice.privacy.events import gaussian_delta, gaussian_multiplier
from suffice.releases.release import Covariance

_NODES, _WEIGHTS = hermegauss(120)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_FLIPS = 0.8, 0.2  # p(1 -> 1) and p(0 -> 1)


Shown = tuple[str, bool]  # the numbers, and whether they bear the entry out


def patrini_9() -> Shown:
    """Take a row of 2-norm one, and the loss of one flipped label in units of alpha."""
    d, m, alpha = 20, 100, 0.5
    row = np.ones(d) / sqrt(d)
    loss = np.abs(2 * row / m).sum() / (2 / (m * alpha))  # Algorithm 2 has the scale 2/(m alpha)
    text = f"d = {d}, alpha = {alpha}: a flipped label has a loss of {loss:.3f}"
    return text, abs(loss - sqrt(d) * alpha) < 1e-12


def patrini_10() -> Shown:
    """Count how often the norm of Laplace noise is below either bound at delta = .05."""
    held = {}
    for d in (5, 20, 100):
        noise = np.random.default_rng(d).laplace(size=(20_000, d))
        exact = noise_norm(Covariance("identity", 2.0), "laplace", (d,), 0.05)
        norms = np.linalg.norm(noise, axis=1)
        held[d] = tuple(float(np.mean(norms <= most)) for most in (log(d / 0.05), exact))
    text = ", ".join(f"d = {d}: {of[0]:.3f} and {of[1]:.3f}" for d, of in held.items())
    right = all(abs(exact - 0.95) < 0.01 for _, exact in held.values())
    return f"printed and exact bound hold with {text}", right and held[100][0] < 0.01


def patrini_6() -> Shown:
    """Minimise the linear loss with the paper's penalty under two operators, and five times it."""
    mu, moved, lam = np.array([0.3, -0.1]), np.array([0.2, 0.2]), 0.1

    def gap(times: float) -> float:
        found = [
            minimize(
                lambda theta, of=of: -times * theta @ of + lam * theta @ theta, mu, tol=1e-12
            ).x
            for of in (mu, moved)
        ]
        return float(lam * np.linalg.norm(found[0] - found[1]) / np.linalg.norm(mu - moved))

    once, five = gap(1), gap(5)
    text = (
        f"lambda ||dtheta|| / ||dmu|| is {once:.3f} for the linear loss, {five:.3f} for five of it"
    )
    return f"{text} (printed: at most 1)", abs(once - 0.5) < 1e-3 and abs(five - 2.5) < 1e-3


def patrini_rho() -> Shown:
    """Compare the rho-loss with its value at a margin of zero."""
    z = np.linspace(-20, 20, 4001)
    least = float((np.abs(z) - z + 1).min())  # rho = 1; labels only choose the sign of z
    return f"f(0) = 1, and the least f(z) of any margin is {least:g}", least == 1


def patrini_algorithm_1() -> Shown:
    """Follow the logistic risk without a penalty under an operator that no labels have."""
    rows, mu = np.array([1.0, -1.0]), 1.2  # |mu| <= 1 for any labels of these rows
    even = LOSSES["logistic"].even
    risks = [float(np.mean(even(theta * rows)) - theta * mu / 2) for theta in (1, 10, 100)]
    text = ", ".join(f"{risk:.2f}" for risk in risks)
    return f"risk at theta = 1, 10, 100: {text}", risks[0] > risks[1] > risks[2]


def barber_2() -> Shown:
    """Solve the expected frequency of a yes for its share, as printed and as corrected."""
    f, p = 0.3, 0.2
    seen = (1 - p) * f + p * (1 - f)
    printed, right = (seen + p) / (1 - 2 * p), (seen - p) / (1 - 2 * p)
    return f"f = {f}: printed {printed:.3f}, corrected {right:.3f}", abs(right - f) < 1e-12


def barber_43() -> Shown:
    """Compare J at the truth with J next to an end, over truths and flips."""
    pairs = [(true, p) for true in (0.1, 0.3, 0.5, 0.8) for p in (0.05, 0.2, 0.4)]
    gaps = []
    for true, p in pairs:
        at_truth, at_ends = (
            reconstruction_limit(np.array(thetas), true, p).max()
            for thetas in ([true], [1e-9, 1 - 1e-9])
        )
        gaps.append(float(at_ends - at_truth))
    text = (
        f"J next to an end exceeds J at the truth by {min(gaps):.3f} or more in {len(gaps)} cases"
    )
    return text, min(gaps) > 0


def barber_appendix_b() -> Shown:
    """Train on flipped labels of Gaussian inputs that are correlated, in the limit of many."""
    truth, covariance = np.array([1.0, -0.5]), np.array([[1.0, 0.8], [0.8, 2.0]])
    one, two = (axis.ravel() for axis in np.meshgrid(_NODES, _NODES, indexing="ij"))
    weights = np.outer(_WEIGHTS, _WEIGHTS).ravel()
    rows = np.column_stack([one, two]) @ np.linalg.cholesky(covariance).T
    yes = _FLIPS[0] * expit(rows @ truth) + _FLIPS[1] * expit(-(rows @ truth))

    def loss(theta: np.ndarray) -> float:
        z = rows @ theta
        return -float(weights @ (yes * log_expit(z) + (1 - yes) * log_expit(-z)))

    found = minimize(loss, np.zeros(2), tol=1e-12).x
    length = float(np.linalg.norm(found) / np.linalg.norm(truth))
    cosine = float(found @ truth / np.linalg.norm(found) / np.linalg.norm(truth))
    text = f"cosine with the truth {cosine:.6f}, length {length:.3f} of the true one"
    return text, cosine > 1 - 1e-6 and length < 1


def barber_107() -> Shown:
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


def barber_12() -> Shown:
    """Compare KL / N with the mean log likelihood of equation 13 at two values of theta."""
    votes, thetas = np.array([1, 1, 1, 0]), (0.6, 0.7)

    def likelihood(theta: float) -> float:
        return float(np.mean(votes * np.log(theta) + (1 - votes) * np.log(1 - theta)))

    def divergence(theta: float) -> float:  # the empirical distribution has mass on one state
        return -float(np.sum(np.log(np.where(votes == 1, theta, 1 - theta)))) / len(votes)

    rise, fall = (f(thetas[1]) - f(thetas[0]) for f in (likelihood, divergence))
    text = f"from theta .6 to .7 L_N changes by {rise:+.4f}, KL/N by {fall:+.4f}"
    return text, abs(rise + fall) < 1e-12 < rise


def barber_majority() -> Shown:
    """Count the triples of labels whose majority the printed threshold takes for 0."""
    triples = [(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]
    wrong = [t for t in triples if (sum(t) > 2) != (sum(t) >= 2)]
    right = all((sum(t) > 1) == (sum(t) >= 2) for t in triples)
    return f"'> 2' takes {len(wrong)} of 4 majorities of 1 for 0; '> 1' none", len(
        wrong
    ) == 3 and right


def patrini_homogeneity() -> Shown:
    """Build bags that satisfy E[x|y,j] = E[x|y], and compare the printed E[x|y,j] = E[x|j]."""
    means, shares = np.array([-1.0, 1.0]), np.array([0.9, 0.2])  # of classes; of class 1 in bags
    of_bags = shares * means[1] + (1 - shares) * means[0]
    gap = float(np.abs(means[:, None] - of_bags).max())
    return (
        f"class means {means}, bag means {of_bags.round(2)}: they differ by up to {gap:.1f}",
        gap > 1,
    )


def hamm_1_and_3() -> Shown:
    """Measure |l'(z) + l'(-z)| of the logistic loss, which the proofs bound by two."""
    z = np.linspace(-30, 30, 601)
    moved = np.abs(-expit(-z) - expit(z))
    text = f"|l'(z) + l'(-z)| is from {moved.min():.6f} to {moved.max():.6f}; the proofs take 2"
    return text, bool(np.abs(moved - 1).max() < 1e-12)


def hamm_45() -> Shown:
    """Change one party and one auxiliary row, and compare the gradient's move with both factors."""
    n, parties, steep = 10, 5, 1e4
    w, up = np.array([steep, 0.0]), np.array([0.0, 1.0])
    pair = [np.array([0.01, side]) / sqrt(1.0001) for side in (1.0, -1.0)]
    row = (pair[0] * (expit(w @ pair[0]) - 0)) - (pair[1] * (expit(w @ pair[1]) - 0))
    moved = float(np.linalg.norm(row + (n - 1) * up / parties) / n)
    halved = (n + parties - 1) / n / parties
    right = (n + 2 * parties - 1) / n / parties
    text = f"gradient moves by {moved:.4f}; halved base and printed factor {halved:.4f}"
    return f"{text}, corrected factor {right:.4f}", halved < moved <= right


def hamm_4() -> Shown:
    """Compare the tail bound with the quantile, and the second term with one, in its settings."""
    d, delta = 50, 0.05
    bound, exact = d * log(d / delta), float(gamma.ppf(1 - delta, d))
    least = 16 * (32 + log(1 / delta)) / (1e-4 * 43_000)
    text = f"d = {d}: norm of the noise at most {bound:.0f} theta as printed, {exact:.0f} exactly"
    return f"{text}; second term at least {least:.0f}", exact < bound and least > 1


def nock_52() -> Shown:
    """Take one step of kappa = 1 at r = 1/2, as printed and with the 2 of equation 10."""
    r = 0.5
    printed, right = (
        ((1 + r) * exp(-step) + (1 - r) * exp(step)) / 2
        for step in (log((1 + r) / (1 - r)), log((1 + r) / (1 - r)) / 2)
    )
    stated = exp(-(r**2) / 2)
    text = f"exponential risk {printed:.3f} as printed, {right:.3f} corrected; stated {stated:.3f}"
    return text, printed > stated > right


def nock_prudential() -> Shown:
    """Boost with an oracle that takes features of |r_t| <= .3 only: one of eleven decides."""
    rng = np.random.default_rng(0)
    edges = rng.normal(size=(1000, 11))
    edges[:, 0] = 1 + edges[:, 0] / 2  # y x of the feature that decides
    rados = (rng.random((200, 1000)) < 0.5) @ edges
    largest, weights, theta, strongest = (
        np.abs(rados).max(axis=0),
        np.ones(200) / 200,
        np.zeros(11),
        1.0,
    )
    for _ in range(100):
        r = weights @ rados / largest
        strongest = min(strongest, abs(r[0]))
        k = int(np.argmax(np.where(np.abs(r) <= 0.3, np.abs(r), -1)))
        theta[k] += log((1 + r[k]) / (1 - r[k])) / 2 / largest[k]
        weights *= (1 - r[k] * rados[:, k] / largest[k]) / (1 - r[k] ** 2)
    wrong, alone = float(np.mean(edges @ theta <= 0)), float(np.mean(edges[:, 0] <= 0))
    text = f"|r_t| of the feature that decides is {strongest:.2f} or more"
    return f"{text}; error {wrong:.2f}, of that feature alone {alone:.3f}", wrong > 0.4 > alone


def nock_6() -> Shown:
    """Compute the chance of the edge of the truncation, and the cost without truncation."""
    low = truncation(1000, 0.1)
    edge, kept = edge_mass(1000, low), 1 - 2 * binom.cdf(low - 1, 1000, 0.5)
    whole, near = shift_epsilon(1000, 20, 1e-3), 2 * sqrt(20 / 1000)
    away = gaussian_delta(whole, 1 / near)
    text = (
        f"edge {edge * kept:.4f} before and {edge:.4f} after the truncation, which keeps {kept:.2f}"
    )
    untruncated = (
        f"20 rados without it: epsilon {whole:.2f} at 1e-3, where the Gaussian has {away:.1e}"
    )
    return f"{text}; {untruncated}", abs(edge - 0.033) < 5e-4 and abs(away - 1e-3) < 1e-4


def nock_51() -> Shown:
    """Read a protected column off rados, from one other column and the labels."""
    rng = np.random.default_rng(0)
    known, secret = rng.normal(size=12), rng.choice([-1.0, 1.0], 12)  # edges y x of two columns
    subsets = rng.random((40, 12)) < 0.5
    rados = subsets @ np.column_stack([known, secret])
    every = (np.arange(2**12)[:, None] >> np.arange(12)) & 1 == 1
    solved = every[[int(np.abs(every @ known - rado[0]).argmin()) for rado in rados]]
    read = np.sign(np.linalg.lstsq(solved.astype(float), rados[:, 1])[0])
    right = int((read == secret).sum())
    return f"{right} of 12 protected cells are read from 40 rados", right == 12


def nock_support() -> Shown:
    """Subtract two rados of support one with shared noise, for equal and for different labels."""
    noise = np.random.default_rng(0).normal(scale=100, size=2)
    shown = []
    for labels in ((1, 1), (1, -1)):
        edges = np.array([[1.0, 0.0], [0.0, 1.0]]) * np.array(labels)[:, None]
        shown.append(((edges[0] + noise) - (edges[1] + noise)).round(6).tolist())
    text = (
        f"noise of deviation 100; the difference is {shown[0]} if labels are equal, else {shown[1]}"
    )
    return text, shown[0] != shown[1]


def iyer_scaled_dirichlet() -> Shown:
    """Integrate the divergence of two neighbours that each take sigma from their own counts."""
    epsilon, delta = 1.0, 1e-5
    counts = [np.array([k, 1000 - k]) for k in (10, 11)]
    sigmas = [largest_sigma(of, epsilon, delta) for of in counts]
    own = [exact_delta(of, sigma, epsilon) for of, sigma in zip(counts, sigmas, strict=True)]
    cuts = np.exp(np.linspace(-30, 0, 2_000_001)[:-1])
    masses = [np.diff(beta.cdf(cuts, *(s * of))) for of, s in zip(counts, sigmas, strict=True)]
    apart = max(float(np.maximum(a - exp(epsilon) * b, 0).sum()) for a, b in (masses, masses[::-1]))
    text = f"sigma {sigmas[0]:.3f} and {sigmas[1]:.3f}, each with delta {max(own):.0e} at its own"
    return f"{text}; between the two releases delta is {apart:.3f}", apart > 100 * delta


def iyer_distortion() -> Shown:
    """Measure Equation 9's distortion in the paper's setting, as a sum and as a mean."""
    counts = np.array([50, 50, 50, 50, 800])
    sigmas = [largest_sigma(counts, 0.05, 0.05, rule) for rule in ("tail", "exact", "chebyshev")]
    rng = np.random.default_rng(0)
    drawn = [rng.dirichlet(sigma * counts, 20_000) for sigma in sigmas[:2]]
    tail, exact = (float(np.abs(of - counts / 1000).sum(axis=1).mean()) for of in drawn)
    laplace = _distortion(counts, rng.laplace(scale=2 / 0.05, size=(20_000, 5)))
    text = (
        f"L1 {tail:.3f} by eq. 9, {exact:.3f} by the exact delta, {laplace:.3f} of Laplace noise"
        f" (printed .06, .15); over 5 classes {tail / 5:.3f}, {exact / 5:.3f}, {laplace / 5:.3f};"
        f" eq. 10 finds {'no sigma' if sigmas[2] is None else sigmas[2]}"
    )
    return text, abs(tail / 5 - 0.06) < 0.005 and laplace / 5 < 0.05 and sigmas[2] is None


def iyer_gaussian() -> Shown:
    """Compare the distortion of Gaussian noise with either constant and of Laplace noise."""
    counts, draws = np.array([50, 50, 50, 50, 800]), 20_000
    rng = np.random.default_rng(0)
    scales = sqrt(2 * log(1.25 / 0.05)) / 0.05, gaussian_multiplier(0.05, 0.05)
    classical, analytic = (rng.normal(scale=sqrt(2) * s, size=(draws, 5)) for s in scales)
    laplace = rng.laplace(scale=2 / 0.05, size=(draws, 5))
    values = [_distortion(counts, noise) for noise in (classical, analytic, laplace)]
    text = "classical {:.3f}, analytic {:.3f}, Laplace {:.3f}".format(*values)
    return text, values[1] < 0.03 and values[0] > values[2] > values[1]


def _distortion(counts: np.ndarray, noise: np.ndarray) -> float:
    """Return the mean L1 distance of noisy proportions, the nearest that are proportions."""
    near = nearest_proportions((counts + noise) / counts.sum())
    return float(np.abs(near - counts / counts.sum()).sum(axis=1).mean())


def iyer_lemma_2() -> Shown:
    """Take A = diag(1, .1) and compare the distance with both bounds."""
    A, optimum, other = np.diag([1.0, 0.1]), np.zeros(2), np.array([0.0, 1.0])
    difference = np.linalg.norm(A @ other) ** 2 - np.linalg.norm(A @ optimum) ** 2
    distance = float(np.linalg.norm(optimum - other))
    printed, right = sqrt(difference / 0.1), sqrt(difference) / 0.1
    text = f"distance {distance:.3f}; printed bound {printed:.3f}, corrected {right:.3f}"
    return text, printed < distance <= right * (1 + 1e-12)


def iyer_theorem_1() -> Shown:
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


def iyer_31() -> Shown:
    """Guess labels from bags formed by class, and the epsilon of bags formed by response."""
    skew, classes = 0.9, 2
    labels = np.repeat([0, 1], [90, 10]), np.repeat([0, 1], [10, 90])
    right = float(np.mean(np.concatenate([labels[0] == 0, labels[1] == 1])))
    epsilon = log(skew * (classes - 1) / (1 - skew))
    text = f"a guess from the bag is right in {right:.0%}; by response epsilon is {epsilon:.2f}"
    return text, right == skew


ENTRIES = {  # by the paper's first author and the words in bold on the page
    "Patrini": {
        "Theorem 9": patrini_9,
        "Theorem 10": patrini_10,
        "Theorem 6": patrini_6,
        "The rho-loss": patrini_rho,
        "Homogeneity": patrini_homogeneity,
        "Meta-Algorithm 1": patrini_algorithm_1,
    },
    "Barber": {
        "Equations 2 and 24": barber_2,
        "Section 1": barber_majority,
        "Equation 12": barber_12,
        "Section 4.3": barber_43,
        "Equation 107": barber_107,
        "Appendix B": barber_appendix_b,
    },
    "Hamm": {
        "Theorems 1 and 3": hamm_1_and_3,
        "Section 4.5": hamm_45,
        "Theorem 4": hamm_4,
    },
    "Nock": {
        "Section 5.2": nock_52,
        "The prudential oracle": nock_prudential,
        "Theorem 6": nock_6,
        "Section 5.1": nock_51,
        "A fixed support": nock_support,
    },
    "Iyer": {
        "Scaled Dirichlet (Section 3)": iyer_scaled_dirichlet,
        "Equation 9": iyer_distortion,
        "Gaussian provides no advantage over Laplace": iyer_gaussian,
        "Lemma 2": iyer_lemma_2,
        "Theorem 1": iyer_theorem_1,
        "Section 3.1": iyer_31,
    },
}


def main() -> int:
    """Print a line per entry; return 1 if the numbers contradict one."""
    wrong = 0
    for paper, entries in ENTRIES.items():
        for name, show in entries.items():
            text, holds = show()
            print(f"{paper}, {name}: {text}: {'holds' if holds else 'DOES NOT HOLD'}")
            wrong += not holds
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
