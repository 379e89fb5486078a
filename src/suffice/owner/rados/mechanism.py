"""Rademacher observations: sums of private records over random subsets (Nock et al. 2015)."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any

from suffice.engines.rados import default_count
from suffice.errors import ParameterError
from suffice.options import data_option, names, option, privacy_option
from suffice.owner.mechanism import CLASSES, DELTA, EPSILON, Mechanism, Public
from suffice.owner.rados.pipeline import PrivateRows, PrivateScaling
from suffice.owner.rados.plan import RadoPlan, plan_private_rows
from suffice.owner.rados.procedures import RadoProcedure, procedure_for
from suffice.owner.rados.request import NoisePlace, RadoRequest, RadoUnit, Signs
from suffice.owner.source import LabelledPart, Source, labelled_parts
from suffice.privacy.calibrate import check_delta, check_promise
from suffice.privacy.guarantee import Unit
from suffice.tables.labels import Classes, check_classes
from suffice.tables.sources import row_count

__all__ = ["Rados", "plan_rados"]

_MOST_RADOS = 2**20  # beyond, a block of structured signs would not add exactly


@dataclass(frozen=True)
class _PrivateTable(Public):
    """A private table with its pipeline, and its number of rows, which is public."""

    rows: PrivateRows
    size: int
    classes: Classes
    source: Source

    def parts(self) -> Sequence[LabelledPart]:
        """Return the private rows with their labels, in parts."""
        return labelled_parts(self.rows.table, self.rows.roles, self.classes, self.source)


@dataclass(frozen=True)
class Rados(PrivateScaling, Mechanism[_PrivateTable]):
    """Publish subset sums (rados): sums of private records over secret random subsets.

    Protects what ``unit`` names: each label, each record or the values of some columns. Without
    ``epsilon`` it protects nothing. The number of rows, the class list and how columns are scaled
    are public; with unit label the feature columns are not protected.

    A rado is pi_s = (1/2) sum_i (sigma_si + y_i) x_i (Nock, Patrini & Friedman 2015, Definition 1):
    the sum of the edges y_i x_i over the records with sigma_si = y_i. ``count`` of them are
    published, and neither the rows nor their signs sigma are. y = -1 for the first of the two
    ``classes``. Guarantees, R the largest norm of a row and k how many rados one record is in at
    most (count/2 if that is a power of two and signs are structured, else up to count):

    - none of the below: no guarantee at all; needs ``unprotected``;
    - ``protect``, columns of two values (DP-Feat, Section 5.1): only what each such column *alone*
      reveals, at ``delta``; marginal. ``truncate``, the paper's epsilon per rado, truncates it
      (eq. 16), which costs more than it saves;
    - ``unit`` "label": one noise vector, shared by all rados, of sensitivity R;
    - ``unit`` "record": Gaussian noise on the matrix, 2 sqrt(k) R; with ``noise_on`` "records" on
      every edge instead (Section 5.2), 2 R each;
    - ``unit`` "attribute", of ``attributes``: Gaussian noise on their coordinates, sqrt(k) times
      the width of their range.

    Rows are private; `PrivateScaling` says how they become vectors. The release's noise is that on
    one rado: with mechanism "shared" all rados carry the same draw of it, with "matrix" each its
    own; with "edges" it is the expected one, and rados that share records share their noise.

    Parameters
    ----------
    count : int, optional
        Number of rados. Default: half the rows, at most 1000.
    signs : str
        "hadamard" (structured, uniform one by one, far faster; owner/rados/signs.py), "iid", or
        "auto".
    support : int, optional
        How many records each rado sums (eq. 18). Default: about half of them.
    protect : sequence of str, optional
        Two-valued columns that are protected when read alone.
    truncate : float, optional
        The paper's epsilon per rado, at which ``protect`` truncates.
    epsilon : float, optional
        Epsilon of each unit. Default: no noise, and no protection.
    delta : float
        Delta, for example 1e-6. Gaussian noise needs a value above 0.
    unit : Unit or str, optional
        What epsilon protects: label, record or attribute.
    attributes : sequence of str, optional
        The columns that unit attribute protects.
    noise_on : str
        "sums", or "records" before they are summed.
    classes : sequence
        The two labels that can occur; the last is positive.
    standardize, ranges, bound, clip, intercept, missing, categories, pipeline
        How rows become vectors; see `PrivateScaling`.

    Raises
    ------
    ParameterError
        If a field is outside its domain, or if fields cannot be combined.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> X, y = np.eye(4).repeat(25, axis=0), np.repeat([0, 1], 50)
    >>> rados = suffice.Rados(epsilon=1.0, unit="label", count=8, ranges=(0, 1))
    >>> release = rados.release(X, y, ledger=None)
    >>> release.kind, release.arrays["rados"].shape, str(release.guarantee.unit)
    ('rados', (8, 5), 'label')
    """

    name = "rados"

    count: int | None = data_option(
        None, "Number of sums (rados), for example 256. Default: half the rows, at most 1000."
    )
    signs: str = privacy_option(
        "auto",
        "Random signs: hadamard (structured, fast) or iid (independent). auto takes hadamard where"
        " it can.",
        choices=Signs,
        planned=False,
    )
    support: int | None = privacy_option(
        None,
        "Number of records in each sum, for example 500. Default: about half of them.",
        planned=False,
    )
    protect: Sequence[str] | None = privacy_option(
        None,
        "Limit what this two-valued column shows when read alone (repeatable). Readers who combine"
        " columns may still recover it, so this needs --unprotected.",
        parse=names,
        many=True,
        planned=False,
    )
    truncate: float | None = privacy_option(
        None, "Epsilon per sum at which --protect truncates, for example 0.9.", planned=False
    )
    epsilon: float | None = option(None, **EPSILON)
    delta: float = option(0.0, **DELTA)
    unit: Unit | str | None = privacy_option(
        None, "What epsilon protects: label, record or attribute.", choices=RadoUnit, planned=False
    )
    attributes: Sequence[str] | None = privacy_option(
        None,
        "Column that --unit attribute protects, for example hiv (repeatable).",
        name="--attribute",
        parse=names,
        many=True,
        planned=False,
    )
    noise_on: str = privacy_option(
        "sums",
        "Where noise is added: to the sums, or to every record before it is summed.",
        choices=NoisePlace,
        planned=False,
    )
    classes: Sequence[Any] = option((0, 1), **CLASSES, planned=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon is not None:
            check_promise(self)
        else:
            check_delta(self.delta)

    def declared_classes(self) -> Classes:
        """Return the two declared classes."""
        classes = check_classes(self.classes)
        if len(classes) != 2:
            raise ParameterError("Rados are for two classes. Merge or drop the others.")
        return classes

    def public(self, source: Source) -> _PrivateTable:
        """Return the table, its pipeline and its number of rows; tells the owner of shared rows."""
        rows = self._private_rows(source)
        rows.tell_overlap()
        size = _row_count(rows) if source.y is None else len(source.y)
        return _PrivateTable(rows, size, self.declared_classes(), source)

    def choose(self, public: _PrivateTable) -> RadoProcedure:
        """Return the procedure with its noise, calibrated by what was declared."""
        return procedure_for(self.request(public.rows, public.size))

    def plan(self, source: Source, epsilons: Sequence[float] = ()) -> RadoPlan:
        """Return whether rados stay useful after noise, from the number of rows and public tables.

        Raises
        ------
        ParameterError
            If scales would come from private rows, or if there is not exactly one epsilon.
        """
        if isinstance(self.standardize, str) and self.standardize == "rows":
            raise ParameterError(
                "A plan reads no private row. Declare --range or --bound, or give a public table"
                " with --standardize FILE."
            )
        if len(epsilons) > 1 or self.epsilon is None:
            raise ParameterError("A plan of rados is for one epsilon. Use --epsilon once.")
        rows = self.read_private(source, promised=True, protect=(), boxed=False)
        size = _row_count(rows)
        count = default_count(size) if self.count is None else self.count
        return plan_private_rows(rows, size, count, self.epsilon, self.delta or 1e-6)

    def private_rows(
        self,
        data: Any,
        label: str | None = None,
        features: Sequence[str] | None = None,
    ) -> PrivateRows:
        """Return the private table with its pipeline; reads it only with standardize="rows"."""
        return self._private_rows(Source(data, label=label, features=features))

    def _private_rows(self, source: Source) -> PrivateRows:
        return self.read_private(
            source,
            promised=self.epsilon is not None or bool(self.protect),
            protect=tuple(self.protect or ()),
            boxed=bool(self.attributes),
        )

    def request(self, rows: PrivateRows, size: int) -> RadoRequest:
        """Return the request, about ``size`` rows."""
        count = default_count(size) if self.count is None else _whole("count", self.count)
        if not 1 <= count <= _MOST_RADOS:
            raise ParameterError(f"--count must lie between 1 and {_MOST_RADOS}; got {count}.")
        free = self.support is None and not self.protect and count > 1
        signs = ("hadamard" if free else "iid") if self.signs == "auto" else self.signs
        return RadoRequest(
            rows=rows,
            size=size,
            count=count,
            signs=str(signs),
            classes=self.declared_classes(),
            support=None if self.support is None else _whole("support", self.support),
            protect=tuple(self.protect or ()),
            truncate=self.truncate,
            attributes=tuple(self.attributes or ()),
            epsilon=self.epsilon,
            delta=self.delta,
            unit=None if self.unit is None else Unit(self.unit),
            noise_on=self.noise_on,
        )


def plan_rados(
    X: Any,
    epsilon: float,
    delta: float,
    *,
    label: str | None = None,
    features: Sequence[str] | None = None,
    **settings: Any,
) -> RadoPlan:
    """Return whether rados of the table ``X`` stay useful after noise; reads no private row.

    Where ``standardize`` is a public table its rows say how long rows are; otherwise rows are taken
    to be as long as allowed.

    Parameters
    ----------
    X
        The private table. Only its number of rows is used.
    epsilon, delta : float
        What the noise may cost.
    label : str, optional
        The label column.
    features : sequence of str, optional
        The feature columns. Default: all but the label.
    **settings
        Fields of `Rados` that say how rows are scaled (``ranges``, ``standardize``, ``bound``,
        ``clip``, ``intercept``, ``pipeline``, ``categories``), and the ``count``.

    Returns
    -------
    RadoPlan
        A table of noise and spread, and what to do.

    Examples
    --------
    >>> import numpy as np, suffice
    >>> plan = suffice.plan_rados(np.zeros((1000, 4)), 8.0, 1e-5, ranges=(0, 1), count=4)
    >>> [option.verdict for option in plan.options]
    ['fine', 'fine', 'drowned']
    """
    mechanism = Rados(epsilon=epsilon, delta=delta, **settings)
    return mechanism.plan(Source(X, label=label, features=features))


def _row_count(rows: PrivateRows) -> int:
    """Return how many rows there are: a number that every guarantee takes as public."""
    return row_count(rows.table, rows.roles.label or rows.roles.features[0])


def _whole(name: str, value: Any) -> int:
    try:
        return index(value)
    except TypeError:
        raise ParameterError(f"--{name} must be an integer; got {value!r}.") from None
