"""What an owner grants to those who ask: a policy, as data, and the decision under it.

A decision is a function of what was asked, of the policy and of what the ledger has left. It never
sees the owner's table, so no answer can tell anything about a label.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any

from suffice import strict_json
from suffice.errors import CorruptFileError, ParameterError
from suffice.privacy.calibrate import check_delta, check_epsilon
from suffice.privacy.guarantee import Budget
from suffice.privacy.noise import NOISES, needs_delta
from suffice.release.files import read_bounded

__all__ = [
    "Decision",
    "Policy",
    "Terms",
    "Verdict",
    "Wanted",
    "decide",
    "grantable_mechanisms",
    "too_wide",
]

_MOST_BYTES = 2**20
_GRANTABLE = ("mean-operator",)
_STEPS = 10**6  # per unit of epsilon: a counter is readable, and never more than is left


def grantable_mechanisms() -> tuple[str, ...]:
    """Return every mechanism that a policy can grant; "auto" lets public rows choose.

    "response" is not among them: it speaks of rows one by one, and a proposal names them without
    their order.
    """
    return ("auto", *NOISES)


@dataclass(frozen=True)
class Terms:
    """The price that two agents negotiate: alpha of Patrini et al. 2016, Algorithm 3.

    There it is one number; here ``epsilon``, ``delta`` and the ``mechanism`` that keeps them.
    """

    epsilon: float
    delta: float = 0.0
    mechanism: str = "auto"

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        if not self.mechanism:
            raise ParameterError("the mechanism must have a name; auto leaves the choice open.")


@dataclass(frozen=True)
class Wanted:
    """What somebody asks for, as far as a policy has a say in it: all of it public.

    ``classes`` are in their canonical spelling; ``coordinates`` are those that rows would have at
    least, by arithmetic.
    """

    kind: str
    terms: Terms
    rows: int
    features: tuple[str, ...]
    mapped: bool = False
    coordinates: int = 0
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Policy:
    """Limits what is granted, request by request; the ledger limits the sum.

    ``mechanisms`` are those accepted; "auto" among them accepts every one. ``features`` are the
    columns that may be asked for (None: all but the label); name them whenever the table has
    columns that are not public. ``maps`` says whether rows may be mapped; ``most_coordinates`` how
    many coordinates rows may have, mapped or not: work and memory grow with their square.
    ``classes`` are those of the label column, where the ledger does not declare them.
    """

    largest_epsilon: float
    largest_delta: float = 0.0
    mechanisms: tuple[str, ...] = ("auto",)
    kinds: tuple[str, ...] = _GRANTABLE
    features: tuple[str, ...] | None = None
    least_rows: int = 1
    maps: bool = False
    most_coordinates: int = 2000
    classes: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.largest_epsilon)
        check_delta(self.largest_delta)
        _check_names("mechanisms", self.mechanisms, grantable_mechanisms())
        _check_names("kinds", self.kinds, _GRANTABLE)
        if self.features is not None:
            _check_names("features", self.features, self.features)
        for field in ("least_rows", "most_coordinates"):
            number = getattr(self, field)
            if type(number) is not int or number < 1:
                raise ParameterError(f"the policy's {field} must be a positive integer.")
        if not isinstance(self.maps, bool):
            raise ParameterError("the policy's maps must be true or false.")
        if self.classes is not None:
            _check_classes(self.classes)

    @classmethod
    def load(cls, path: str | Path) -> "Policy":
        """Return the policy in a JSON file."""
        return cls.from_json(strict_json.parse(read_bounded(Path(path), _MOST_BYTES)))

    @classmethod
    def from_json(cls, data: object) -> "Policy":
        """Return the policy of plain JSON values; a field that is left out has its default.

        An unknown field is an error: misspelt, it would otherwise loosen the policy in silence.
        """
        if not isinstance(data, dict):
            raise ParameterError("a policy must be a JSON object.")
        known = [field.name for field in fields(cls)]
        strange = sorted(set(data) - set(known))
        if strange:
            raise ParameterError(
                f"a policy has no field {strange[0]!r}; it has {', '.join(known)}."
            )
        if "largest_epsilon" not in data:
            raise ParameterError("a policy must say its largest_epsilon.")
        return cls(**{name: _value(name, value) for name, value in data.items()})

    def to_json(self) -> dict[str, Any]:
        """Return the policy as plain JSON values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}


def _value(name: str, value: Any) -> Any:
    """Return one field of a policy file as the type that the policy holds."""
    try:
        if name in {"largest_epsilon", "largest_delta"}:
            return strict_json.number(value)
    except CorruptFileError:
        raise ParameterError(f"the policy's {name} must be a number.") from None
    if name in {"features", "classes"} and value is None:
        return None
    if name in {"mechanisms", "kinds", "features", "classes"}:
        return tuple(value) if isinstance(value, list) else value
    return value


def _check_names(field: str, names: Any, known: Sequence[str]) -> None:
    good = isinstance(names, tuple) and names and all(isinstance(n, str) and n for n in names)
    if not good or len(set(names)) < len(names) or not set(names) <= set(known):
        choice = f", of {', '.join(known)}" if field != "features" else ""
        raise ParameterError(f"the policy's {field} must be a list of different names{choice}.")


def _check_classes(classes: Any) -> None:
    plain = isinstance(classes, tuple) and len(set(map(str, classes))) == len(classes) > 1
    if not plain or not all(isinstance(c, str | int) for c in classes):
        raise ParameterError("the policy's classes must be a list of two or more different labels.")


class Verdict(StrEnum):
    """What becomes of a request."""

    GRANTED = "granted"
    COUNTERED = "countered"
    REFUSED = "refused"


@dataclass(frozen=True)
class Decision:
    """A verdict with the ``terms`` that would be granted (None if none) and its ``reasons``."""

    verdict: Verdict
    terms: Terms | None
    reasons: tuple[str, ...] = ()


def decide(wanted: Wanted, policy: Policy, left: Budget | None) -> Decision:
    """Return what an owner answers: reads public things only, never a label or a row.

    ``left`` is what the ledger still allows per label, None for nothing. Epsilon, delta and
    mechanism are negotiable: too much of them is countered with the nearest terms that would be
    granted. Everything else (kind, features, classes, maps, too few rows) is refused, with what to
    change. Classes are compared as they are spelt here, in any order.
    """
    refusals = _refusals(wanted, policy)
    if left is None or _rounded_down(left.epsilon) == 0:
        refusals.append("nothing is left of the data set's budget")
    if refusals or left is None:
        return Decision(Verdict.REFUSED, None, tuple(refusals))
    terms = _nearest(wanted.terms, policy, left)
    if terms is None:
        reason = f"no mechanism of {', '.join(policy.mechanisms)} works without delta"
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
        reasons.append(f"these features are not granted: {_some(private)}")
    if policy.classes is not None and {*wanted.classes} != {*policy.classes}:
        reasons.append(f"the classes are {_some(policy.classes, 12)}; propose these")
    if wanted.rows < policy.least_rows:
        reasons.append(f"nothing is granted about fewer than {policy.least_rows} rows")
    if wanted.mapped and not policy.maps:
        reasons.append("no feature maps are granted; propose the rows as they are")
    if wanted.coordinates > policy.most_coordinates:
        reasons.append(too_wide(policy))
    return reasons


def too_wide(policy: Policy) -> str:
    """Return the reason why rows of more coordinates are not granted."""
    return f"rows may have at most {policy.most_coordinates} coordinates, mapped or not"


def _nearest(asked: Terms, policy: Policy, left: Budget) -> Terms | None:
    """Return the terms nearest to those asked that policy and ledger allow, or None."""
    epsilon = min(asked.epsilon, policy.largest_epsilon)
    if epsilon > left.epsilon:
        epsilon = _rounded_down(left.epsilon)
    delta = min(asked.delta, policy.largest_delta, left.delta)
    accepted = grantable_mechanisms() if "auto" in policy.mechanisms else policy.mechanisms
    usable = [name for name in accepted if delta > 0 or not needs_delta(name)]
    if not usable:
        return None
    return Terms(epsilon, delta, asked.mechanism if asked.mechanism in usable else usable[0])


def _differences(asked: Terms, nearest: Terms, policy: Policy) -> list[str]:
    """Return a reason for each term that was moved."""
    reasons = []
    if nearest.epsilon != asked.epsilon:
        own = nearest.epsilon == policy.largest_epsilon
        why = "per request" if own else "which is what the budget has left"
        reasons.append(f"epsilon: at most {nearest.epsilon}, {why}")
    if nearest.delta != asked.delta:
        own = nearest.delta == policy.largest_delta
        why = "per request" if own else "at which the budget is counted"
        reasons.append(f"delta: at most {nearest.delta}, {why}")
    if nearest.mechanism != asked.mechanism:
        reasons.append(f"mechanism: {nearest.mechanism} is granted, the one asked for is not")
    return reasons


def _some(names: Sequence[str], most: int = 4) -> str:
    """Return a few names, as short and as plain as an answer can hold them."""
    shown = ", ".join(ascii(name)[:60] for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")


def _rounded_down(epsilon: float) -> float:
    return math.floor(Decimal(repr(float(epsilon))) * _STEPS) / _STEPS
