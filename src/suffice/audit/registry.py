"""The registry of audit cases: families of mechanisms, each read when somebody asks for cases.

`register_cases` adds a family while a program runs; command line and auditor find it here.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from suffice.audit.case import Case
from suffice.errors import ParameterError
from suffice.privacy.calibrate import check_epsilon

__all__ = [
    "Family",
    "all_cases",
    "case_named",
    "cases_at",
    "in_this_process_only",
    "read_again",
    "register_cases",
    "selected",
]


@dataclass(frozen=True)
class Family:
    """The cases of one family of mechanisms, each broken copy after what it is a copy of.

    ``at(epsilon)`` yields the mechanisms at another epsilon, without broken copies; a family whose
    noise has no such parameter leaves it out.
    """

    cases: Callable[[], Iterable[Case]]
    at: Callable[[float], Iterable[Case]] | None = None


def _mean_operator() -> Family:
    from suffice.audit.cases_mean_operator import at, cases

    return Family(cases, at)


def _responses() -> Family:
    from suffice.audit.cases_responses import cases

    return Family(cases)


def _rados() -> Family:
    from suffice.audit.cases_rados import cases

    return Family(cases)


def _moments() -> Family:
    from suffice.audit.cases_moments import cases

    return Family(cases)


def _proportions() -> Family:
    from suffice.audit.cases_proportions import at, cases

    return Family(cases, at)


def _parties() -> Family:
    from suffice.audit.cases_parties import at, cases

    return Family(cases, at)


def _records() -> Family:
    from suffice.audit.cases_records import cases

    return Family(cases)


def _whole() -> Family:
    from suffice.audit.cases_whole import cases

    return Family(cases)


# Each is imported, with the mechanisms it attacks, when its cases are asked for.
_BUILT_IN: dict[str, Callable[[], Family]] = {
    "mean-operator": _mean_operator,
    "responses": _responses,
    "rados": _rados,
    "moments": _moments,
    "proportions": _proportions,
    "parties": _parties,
    "records": _records,
    "whole releases": _whole,
}
_REGISTERED: dict[str, Family] = {}


def register_cases(
    kind: str,
    cases_function: Callable[[], Iterable[Case]],
    at_function: Callable[[float], Iterable[Case]] | None = None,
) -> None:
    """Add the cases of a family called ``kind``: `suffice audit` has them from now on.

    The functions are called when somebody asks for cases. The names of their cases must be new.
    """
    if kind in _BUILT_IN or kind in _REGISTERED:
        raise ParameterError(f"there are audit cases of {kind!r} already; choose another name.")
    _REGISTERED[kind] = Family(cases_function, at_function)
    read_again()


def read_again() -> None:
    """Forget the cases that were read; they are asked for again, once somebody needs them."""
    all_cases.cache_clear()
    _names_here.cache_clear()


def _families() -> list[Family]:
    return [*(read() for read in _BUILT_IN.values()), *_REGISTERED.values()]


@lru_cache(maxsize=1)
def all_cases() -> dict[str, Case]:
    """Return every case by its name, a broken copy after what it is a copy of."""
    cases: dict[str, Case] = {}
    for family in _families():
        for case in family.cases():
            if case.name in cases:
                raise ParameterError(f"two audit cases are called {case.name!r}; rename one.")
            cases[case.name] = case
    return cases


@lru_cache(maxsize=1)
def _names_here() -> frozenset[str]:
    return frozenset(case.name for family in _REGISTERED.values() for case in family.cases())


def in_this_process_only(name: str) -> bool:
    """Say whether a case was registered while this program ran: other processes lack it."""
    return name in _names_here()


def cases_at(epsilon: float, kinds: tuple[str, ...]) -> list[Case]:
    """Return mechanisms of these kinds at an epsilon of one's own, without broken copies."""
    epsilon = check_epsilon(epsilon)
    readers = [family.at for family in _families() if family.at is not None]
    cases = [case for at in readers for case in at(epsilon)]
    known = {case.kind for case in cases}
    strange = [kind for kind in kinds if kind not in known]
    if strange:
        raise ParameterError(
            f"--epsilon is for kinds {', '.join(sorted(known))}; not for {strange[0]!r}."
        )
    return [case for case in cases if not kinds or case.kind in kinds]


def case_named(name: str) -> Case:
    """Return one case."""
    return all_cases()[name]


def selected(kinds: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of the cases of some kinds of release, of all kinds if none are given."""
    known = {case.kind for case in all_cases().values()}
    strange = [kind for kind in kinds if kind not in known]
    if strange:
        raise ParameterError(f"there is no kind {strange[0]!r}; kinds: {', '.join(sorted(known))}.")
    for name, case in all_cases().items():
        if not kinds or case.kind in kinds:
            yield name
