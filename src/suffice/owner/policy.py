"""What an owner grants to those who propose: a policy, as data, and the decision under it.

A decision is a function of the proposal, of the policy and of what remains of the budget. It never
sees the owner's table, so no answer can tell anything about a label.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from suffice import strict_json
from suffice.errors import ParameterError
from suffice.owner.mechanism import mechanism_of, same_classes
from suffice.plain_text import listed
from suffice.privacy.events import check_delta, check_epsilon
from suffice.privacy.guarantee import Budget
from suffice.releases.file import read_bounded
from suffice.tables.columns import Classes, canonical_class, check_classes

_MOST_BYTES = 2**20
_STEPS = 10**6  # per unit of epsilon: a counter is readable, and never more than is left


@dataclass(frozen=True)
class Terms:
    """The terms that two agents negotiate: alpha of Patrini et al. 2016, Algorithm 3."""

    epsilon: float  # of each label
    delta: float = 0.0  # Gaussian noise needs a value above 0
    mechanism: str = "auto"  # that keeps them; auto leaves the choice open

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if not self.mechanism:
            raise ParameterError("The mechanism must have a name; auto leaves the choice open.")


@dataclass(frozen=True)
class Wanted:
    """What somebody proposes, as far as a policy has a say in it: all of it public."""

    kind: str  # of release, as `suffice release` calls it
    terms: Terms
    rows: int  # how many; where they are private, about how many, by the data sheet
    features: tuple[str, ...]
    mapped: bool = False  # whether rows would go through a feature map
    coordinates: int = 0  # that rows would have at least, by arithmetic
    work: int = 0  # products that the release would take, about, by arithmetic
    size: int = 0  # bytes of the release, about, by arithmetic
    classes: tuple[str, ...] = ()  # in their canonical spelling
    purpose: str = ""


@dataclass(frozen=True)
class Policy:
    """Limits what is granted, request by request; the ledger limits the total.

    Parameters
    ----------
    largest_epsilon : float
        The largest epsilon of one request.
    largest_delta : float
        The largest delta of one request.
    mechanisms : tuple of str
        The accepted noise types; "auto" among them accepts every one.
    kinds : tuple of str
        The kinds of release that are granted, as `suffice release` calls them.
    features : tuple of str, optional
        The columns that may be proposed. Default: all but the label. Name them whenever the table
        has columns that are not public, or give it a data sheet.
    least_rows : int
        The least number of rows that something is granted about.
    maps : bool
        Whether rows may go through a feature map.
    most_coordinates : int
        How many coordinates rows may have, mapped or not: work and memory grow with their square.
    least_epsilon : float
        The least epsilon of one request: whoever asks for less costs work, and learns nothing.
    most_work : int
        How many products of numbers the rows may take, as estimated from public numbers. The
        default takes about a minute on one core.
    most_bytes : int
        How many bytes a release may have, as estimated from public numbers.
    purposes : tuple of str, optional
        The purposes that something is granted for, word by word. Default: all.
    classes : tuple, optional
        The classes of the label column, where the ledger does not declare them.
    person : str, optional
        The column of ids. Whatever is granted then protects each person: all labels of public rows
        (budget per person-labels, public ids), or all records (budget per person, private ids).
        Default: each label or record is protected.

    Raises
    ------
    ParameterError
        If a field is outside its domain.

    Examples
    --------
    >>> from suffice.owner.policy import Policy
    >>> policy = Policy.from_json({"largest_epsilon": 1, "features": ["age"]})
    >>> policy.largest_epsilon, policy.features, policy.maps
    (1.0, ('age',), False)
    """

    largest_epsilon: float
    largest_delta: float = 0.0
    mechanisms: tuple[str, ...] = ("auto",)
    kinds: tuple[str, ...] = ("mean-operator",)
    features: tuple[str, ...] | None = None
    least_rows: int = 1
    maps: bool = False
    most_coordinates: int = 2000
    least_epsilon: float = 0.0
    most_work: int = 2 * 10**10
    most_bytes: int = 2**23
    classes: tuple[str | int | bool, ...] | None = None
    person: str | None = None
    purposes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.largest_epsilon)
        check_delta(self.largest_delta)
        _check_names("kinds", self.kinds, self.kinds)
        granted = {"auto": False}
        for kind in self.kinds:
            try:
                noises = mechanism_of(kind).noises
            except ParameterError as error:
                raise ParameterError(f"The policy's kinds are not valid. {error}") from None
            if not noises:
                raise ParameterError(f"A release of kind {kind} cannot be proposed.")
            granted |= noises
        _check_names("mechanisms", self.mechanisms, [*granted])
        for field in ("features", "purposes"):
            if getattr(self, field) is not None:
                _check_names(field, getattr(self, field), getattr(self, field))
        if not 0 <= self.least_epsilon <= self.largest_epsilon:
            raise ParameterError("The policy's least_epsilon must be 0, or up to largest_epsilon.")
        for field in ("least_rows", "most_coordinates", "most_work", "most_bytes"):
            number = getattr(self, field)
            if type(number) is not int or number < 1:
                raise ParameterError(f"The policy's {field} must be a positive integer.")
        if not isinstance(self.maps, bool):
            raise ParameterError("The policy's maps must be true or false.")
        classes: Any = self.classes
        if classes is None:
            return
        different = isinstance(classes, tuple) and len(set(map(str, classes))) == len(classes) > 1
        if not different or not all(isinstance(c, str | int) for c in classes):
            raise ParameterError(
                "The policy's classes must be a list of two or more different labels."
            )

    def of_classes(self, declared: Classes | None, dataset: str) -> "Policy":
        """Return the same with the classes of a data set as they are spelt here.

        ``declared`` are those of the ledger or the data sheet. Raises if nobody declared any, or
        the policy declares others.
        """
        if declared is None and self.classes is None:
            raise ParameterError(
                f"Data set {dataset!r} has no declared classes, so a proposal could reveal which"
                " labels occur. Declare them with suffice ledger init --classes, or in the policy."
            )
        classes = check_classes(self.classes or declared or ())
        if declared is not None and not same_classes(declared, classes):
            raise ParameterError(
                "The policy declares other classes than the ledger. Remove them from the policy."
            )
        return replace(self, classes=tuple(map(canonical_class, classes)))

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        """Return the policy in a JSON file."""
        return cls.from_json(strict_json.parse(read_bounded(Path(path), _MOST_BYTES)))

    @classmethod
    def from_json(cls, data: object) -> "Policy":
        """Return the policy of plain JSON values; a field that is missing has its default.

        Raises
        ------
        ParameterError
            If a field is unknown (misspelt, it would otherwise loosen the policy in silence), or
            is not what it must be.
        """
        return strict_json.read(cls, data, "policy", defaults=True, error=ParameterError)


def _check_names(field: str, names: Any, allowed: Sequence[str]) -> None:
    good = isinstance(names, tuple) and names and all(isinstance(n, str) and n for n in names)
    if not good or len(set(names)) < len(names) or not set(names) <= set(allowed):
        choice = "" if field != "mechanisms" else f", of {', '.join(allowed)}"
        raise ParameterError(f"The policy's {field} must be a list of different names{choice}.")


class Verdict(StrEnum):
    """What becomes of a request."""

    GRANTED = "granted"
    COUNTERED = "countered"
    REFUSED = "refused"


@dataclass(frozen=True)
class Decision:
    """The answer to a proposal."""

    verdict: Verdict
    terms: Terms | None  # that would be granted; None if none would
    reasons: tuple[str, ...] = ()  # why, and what to change


def decide(wanted: Wanted, policy: Policy, remaining: Budget | None) -> Decision:
    """Return what an owner answers: reads public things only, never a label or a row.

    Epsilon, delta and mechanism are negotiable: too much of them is countered with the nearest
    terms that would be granted. Everything else (kind, features, classes, maps, too few rows) is
    refused, with what to change. Classes are compared as they are spelt here, in any order.
    ``remaining`` is what remains of the budget per unit of this kind, None for nothing.
    """
    refusals = _refusals(wanted, policy)
    if remaining is None or _rounded_down(remaining.epsilon) == 0:
        refusals.append("the data set's budget is spent")
    if refusals or remaining is None:
        return Decision(Verdict.REFUSED, None, tuple(refusals))
    noises = mechanism_of(wanted.kind).noises
    terms = _nearest(wanted.terms, policy, remaining, noises)
    if terms is None:
        granted = noises if "auto" in policy.mechanisms else policy.mechanisms
        reason = f"all of {', '.join(granted)} need a delta above 0, or are none of this kind"
        return Decision(Verdict.REFUSED, None, (reason,))
    if terms == wanted.terms:
        return Decision(Verdict.GRANTED, terms)
    return Decision(Verdict.COUNTERED, terms, tuple(_differences(wanted.terms, terms, policy)))


def _refusals(wanted: Wanted, policy: Policy) -> list[str]:
    reasons = []
    if wanted.kind not in policy.kinds:
        reasons.append(f"only these kinds are granted: {', '.join(policy.kinds)}")
    offered = set(wanted.features if policy.features is None else policy.features)
    private = [name for name in wanted.features if name not in offered]
    if private:
        reasons.append(not_granted(private))
    if policy.purposes is not None and wanted.purpose not in policy.purposes:
        reasons.append(f"these purposes are granted, word by word: {_some(policy.purposes)}")
    if policy.classes is not None and {*wanted.classes} != {*policy.classes}:
        reasons.append(f"the classes are {_some(policy.classes, 12)}; propose these")
    if wanted.rows < policy.least_rows:
        reasons.append(f"nothing is granted about fewer than {policy.least_rows} rows")
    if wanted.mapped and not policy.maps:
        reasons.append("no feature maps are granted; propose the rows as they are")
    if wanted.coordinates > policy.most_coordinates:
        reasons.append(too_wide(policy))
    if wanted.work > policy.most_work or wanted.size > policy.most_bytes:
        reasons.append("this is too much work, or too large a release; propose a smaller one")
    if wanted.terms.epsilon < policy.least_epsilon:
        reasons.append(f"nothing is granted below epsilon {policy.least_epsilon}")
    return reasons


def not_granted(features: Sequence[str]) -> str:
    """Return the reason why columns are not granted, whether or not there are such columns."""
    return f"these features are not granted: {_some(features)}"


def too_wide(policy: Policy) -> str:
    """Return the reason why rows of more coordinates are not granted."""
    return f"rows may have at most {policy.most_coordinates} coordinates, mapped or not"


def _nearest(
    proposed: Terms, policy: Policy, remaining: Budget, noises: Mapping[str, bool]
) -> Terms | None:
    """Return the terms nearest to those proposed that policy and ledger allow, or None."""
    epsilon = min(proposed.epsilon, policy.largest_epsilon)
    if epsilon > remaining.epsilon:
        epsilon = _rounded_down(remaining.epsilon)
    delta = min(proposed.delta, policy.largest_delta, remaining.delta)
    usable = [
        name
        for name in (noises if "auto" in policy.mechanisms else policy.mechanisms)
        if name in noises and (delta > 0 or not noises[name])
    ]
    if not usable:
        return None
    if "auto" in policy.mechanisms:
        usable.insert(0, "auto")
    return Terms(epsilon, delta, proposed.mechanism if proposed.mechanism in usable else usable[0])


def _differences(proposed: Terms, nearest: Terms, policy: Policy) -> list[str]:
    """Return a reason for each term that was moved."""
    reasons = []
    if nearest.epsilon != proposed.epsilon:
        limited_by_policy = nearest.epsilon == policy.largest_epsilon
        why = "per request" if limited_by_policy else "which is what remains of the budget"
        reasons.append(f"epsilon: at most {nearest.epsilon}, {why}")
    if nearest.delta != proposed.delta:
        limited_by_policy = nearest.delta == policy.largest_delta
        why = "per request" if limited_by_policy else "which is the delta of the budget"
        reasons.append(f"delta: at most {nearest.delta}, {why}")
    if nearest.mechanism != proposed.mechanism:
        reasons.append(f"mechanism: {nearest.mechanism} is granted, the proposed one is not")
    return reasons


def _some(names: Sequence[object], most: int = 4) -> str:
    """Return a few names, short and in ASCII, as an answer can hold them."""
    text = ", ".join(ascii(name)[:60] for name in names[:most])
    return text + (f" and {len(names) - most} more" if len(names) > most else "")


def _rounded_down(epsilon: float) -> float:
    return math.floor(Decimal(repr(float(epsilon))) * _STEPS) / _STEPS


def policy_lines(policy: Policy) -> list[tuple[str, str]]:
    """Return what a policy allows, each with its heading.

    Examples
    --------
    >>> policy_lines(Policy(1.0, features=("age",)))[0]
    ('one request', 'epsilon 1, delta 0')
    """
    features = "all but the label" if policy.features is None else listed(policy.features)
    least = f"{policy.least_epsilon:g} to " if policy.least_epsilon else ""
    classes = "those of the ledger" if policy.classes is None else listed(policy.classes)
    return [
        (
            "one request",
            f"epsilon {least}{policy.largest_epsilon:g}, delta {policy.largest_delta:g}",
        ),
        ("mechanisms", listed(policy.mechanisms)),
        ("kinds", listed(policy.kinds)),
        ("columns", features),
        ("classes", classes),
        *(
            []
            if policy.person is None
            else [("protects", f"each person of {listed([policy.person])}")]
        ),
        ("rows", f"{policy.least_rows:,} or more"),
        ("feature maps", "allowed" if policy.maps else "not allowed"),
        ("coordinates", f"at most {policy.most_coordinates:,}"),
        ("work and size", f"at most {policy.most_work:,} products and {policy.most_bytes:,} bytes"),
        *([] if policy.purposes is None else [("purposes", listed(policy.purposes))]),
    ]
