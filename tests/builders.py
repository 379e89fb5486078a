"""What several tests are given: a small table, releases of every kind, parties and their votes.

And one check that they share: whether noise has the law, and all of the scale, that is stated.

A module of its own, not ``conftest``: several folders have one of those, and an import would
find whichever of them was loaded first.
"""

import hashlib

import numpy as np
import pyarrow as pa
from scipy import stats

from suffice.engines.engine import fold
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.parties.contribution import AuxiliaryRows, PartyContribution
from suffice.owner.source import Source, labelled_batches
from suffice.releases.release import Release

_ALARM = 1e-7  # how often correct noise fails `assert_noise`
_MISSED = 1e-3  # how often noise that is 10 % off may pass it


def assert_noise(noise: np.ndarray, scale: float, law: str) -> None:
    """Assert that independent draws of noise, one vector a row, have this law and this scale.

    With z = noise / scale: z is normal ("gaussian"), z is Laplace ("laplace"), or ||z||_2 of a row
    is Gamma(D) ("knorm"). Compared are the shape, by Kolmogorov's test, and the sum of z^2 / 2, |z|
    or ||z||_2, which is Gamma with no approximation. False alarms: one in 10^7 calls, half of them
    by either. As many draws are demanded as it takes to reject 0.9 and 1.1 times the scale in all
    but one of 1,000 calls: about 4,000 numbers that are Gaussian, 8,000 of the other laws.
    """
    z = np.asarray(noise, dtype=np.float64) / scale
    if law == "knorm":
        values, shape = np.linalg.norm(z, axis=1), stats.gamma(z.shape[1])
        total, law_of_total, power = values.sum(), stats.gamma(z.size), 1
    elif law == "laplace":
        values, shape = z.ravel(), stats.laplace()
        total, law_of_total, power = np.abs(z).sum(), stats.gamma(z.size), 1
    else:
        assert law == "gaussian", f"no law is called {law}"
        values, shape = z.ravel(), stats.norm()
        total, law_of_total, power = (z**2).sum() / 2, stats.gamma(z.size / 2), 2
    least, most = law_of_total.ppf(_ALARM / 4), law_of_total.isf(_ALARM / 4)
    missed = max(law_of_total.sf(least / 0.9**power), law_of_total.cdf(most / 1.1**power))
    assert missed < _MISSED, f"{z.size} numbers are too few to notice noise that is 10 % off"
    found = (total / law_of_total.mean()) ** (1 / power)
    assert least < total < most, f"the noise has {found:.3f} times the scale that is stated"
    p_value = stats.kstest(values, shape.cdf).pvalue
    assert p_value > _ALARM / 2, f"the noise does not have its {law} law: p = {p_value:.2g}"


def clinic_table(rows: int = 120, seed: int = 0) -> pa.Table:
    """Return public measurements and a private diagnosis that depends on them."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 80, rows)
    dose = rng.normal(3.0, 1.0, rows).astype(np.float32)
    ward = rng.choice(["north", "south", "west"], rows)
    sick = (age + 10 * dose + rng.normal(0, 5, rows) > 80).astype(np.int64)
    return pa.table({"age": age, "dose": dose, "ward": ward, "sick": sick})


def make_release(classes: int = 2, rows: int = 60, seed: int = 0, **options) -> Release:
    """Return a fresh release of random rows: a mean operator, or as ``mechanism`` says."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    y = rng.integers(0, classes, rows)
    options = {"epsilon": 1.0, "mechanism": "laplace", "map": None, **options}
    mechanism = MeanOperator(classes=tuple(range(classes)), **options)
    return mechanism.release(X, y, ledger=None)


def labelled_examples(rows: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and labels -1, +1 that a linear classifier gets right nine times in ten."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 4))
    noisy = X @ [2.0, -1.0, 0.5, 0.0] + 0.4 + 0.6 * rng.normal(size=rows)
    return X, np.where(noisy > 0, 1.0, -1.0)


def slow_rados(X: np.ndarray, y: np.ndarray, signatures: np.ndarray) -> np.ndarray:
    """Return pi = (1/2) sum_i (sigma_i + y_i) x_i, one for each signature sigma."""
    return np.array([((sigma + y) / 2) @ X for sigma in signatures])


def rado_release(rados: np.ndarray, rows: int, variance: float = 0.0, **details) -> Release:
    """Return a release of rados in plain coordinates, the last of which is an intercept of one."""
    from suffice.privacy.events import Unbounded
    from suffice.privacy.guarantee import Guarantee, Protection, Unit
    from suffice.releases.release import Covariance, Part, RowSet
    from suffice.tables.pipeline import Column, Pipeline

    width = rados.shape[1] - 1
    columns = tuple(Column(f"x{k}") for k in range(width))
    content = hashlib.sha256(rados.tobytes()).hexdigest()
    nothing = Guarantee(Unit.RECORD, Unbounded(), kind=Protection.NONE)
    given = {"classes": ["no", "yes"], "mechanism": "plain", "count": len(rados), "signs": "iid"}
    return Release(
        kind="rados",
        arrays={"rados": np.ascontiguousarray(rados)},
        details={**given, "support": None, "protect": [], "step": 1.0, **details},
        parts=(Part(RowSet(rows, f"sha256:{content}"), (nothing,)),),
        pipeline=Pipeline(columns, "error", np.zeros(width), np.ones(width), 2.0**100, 1.0),
        noise=Covariance("identity", variance) if variance else Covariance("none"),
    )


def auxiliary_rows(rows: int = 30) -> AuxiliaryRows:
    """Return public rows on which parties vote; two of their columns nearly agree."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, 3)) * [5.0, 1.0, 0.1] + [0.0, 1.0, 2.0]
    X[:, 1] += X[:, 0]
    return AuxiliaryRows.read(X)


def contributions(
    count: int, auxiliary: AuxiliaryRows, classes: int = 3, **options
) -> list[PartyContribution]:
    """Return the contributions of parties p0, p1, ... that vote at random."""
    votes = np.random.default_rng(count).integers(0, classes, (count, auxiliary.count))
    options["classes"] = tuple(range(classes))
    return [PartyContribution.of(f"p{i}", v, auxiliary, **options) for i, v in enumerate(votes)]


def random_shares(rng: np.random.Generator, classes: int, form: str, rows: int = 30) -> np.ndarray:
    """Return one party's votes: shares of one vote per row, all of it on one class if "hard"."""
    if form == "hard":
        return np.eye(classes)[rng.integers(0, classes, rows)]
    return rng.dirichlet(np.full(classes, 0.3), rows)


def read_labels(exact, public, labels, classes):
    """Return an accumulator that has taken in public rows under these labels."""
    source = Source(None, np.asarray(labels))
    return fold(labelled_batches(public.table, public.roles, classes, source), exact)
