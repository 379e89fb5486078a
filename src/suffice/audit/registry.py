"""The registry of audit cases: families of mechanisms, each loaded when its cases are needed.

`register_cases` adds a family while a program runs; the command line and the audit find it here.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from importlib import import_module

from suffice.audit.case import Case
from suffice.errors import ParameterError
from suffice.privacy.events import check_epsilon

# Yields every mechanism, followed by its broken copies; and yields the mechanisms at an epsilon,
# without broken copies, or None if they have no epsilon.
Family = tuple[Callable[[], Iterable[Case]], Callable[[float], Iterable[Case]] | None]
# Modules with the cases of the package; each is imported when its cases are asked for.
_BUILT_IN = (
    *("cases_mean_operator", "cases_responses", "cases_rados", "cases_moments"),
    *("cases_proportions", "cases_parties", "cases_whole"),
)
_REGISTERED: dict[str, Family] = {}


def register_cases(
    kind: str,
    cases_function: Callable[[], Iterable[Case]],
    at_function: Callable[[float], Iterable[Case]] | None = None,
) -> None:
    """Add a family of cases: `suffice audit` includes them from now on.

    ``cases_function`` yields every mechanism, followed by its broken copies, under new names.
    ``at_function`` yields the mechanisms at an epsilon; None if they have no epsilon.

    Raises
    ------
    ParameterError
        If there is such a family already.
    """
    if kind in _REGISTERED or f"cases_{kind.replace('-', '_')}" in _BUILT_IN:
        raise ParameterError(f"Audit cases called {kind!r} exist already. Choose another name.")
    _REGISTERED[kind] = cases_function, at_function
    read_again()


def read_again() -> None:
    """Forget the cases that were loaded; they are loaded again when they are needed."""
    all_cases.cache_clear()


def _families() -> list[Family]:
    modules = (import_module(f"suffice.audit.{name}") for name in _BUILT_IN)
    built_in = [(module.cases, getattr(module, "at", None)) for module in modules]
    return [*built_in, *_REGISTERED.values()]


@lru_cache(maxsize=1)
def all_cases() -> dict[str, Case]:
    """Return every case by its name, a broken copy after what it is a copy of."""
    found: dict[str, Case] = {}
    for cases, _ in _families():
        for case in cases():
            if case.name in found:
                raise ParameterError(
                    f"Two audit cases are called {case.name!r}. Rename one of them."
                )
            found[case.name] = case
    return found


def names_here() -> set[str]:
    """Return the cases that were registered while this program ran: other processes lack them."""
    return {case.name for cases, _ in _REGISTERED.values() for case in cases()}


def cases_at(epsilon: float, kinds: tuple[str, ...]) -> list[Case]:
    """Return the mechanisms of these kinds at an epsilon of your own, without broken copies.

    Raises
    ------
    ParameterError
        If a kind has no mechanism with an epsilon.
    """
    epsilon = check_epsilon(epsilon)
    cases = [case for _, at in _families() if at is not None for case in at(epsilon)]
    kinds_with_epsilon = {case.kind for case in cases}
    unknown_kinds = [kind for kind in kinds if kind not in kinds_with_epsilon]
    if unknown_kinds:
        raise ParameterError(
            f"--epsilon cannot be used with {unknown_kinds[0]!r}. Use it with"
            f" {', '.join(sorted(kinds_with_epsilon))}."
        )
    return [case for case in cases if not kinds or case.kind in kinds]


def case_named(name: str) -> Case:
    """Return one case."""
    return all_cases()[name]


def selected(kinds: tuple[str, ...]) -> Iterator[str]:
    """Yield the names of the cases of these kinds of release; of all kinds if there are none.

    Raises
    ------
    ParameterError
        If there is no such kind.
    """
    known_kinds = {case.kind for case in all_cases().values()}
    unknown_kinds = [kind for kind in kinds if kind not in known_kinds]
    if unknown_kinds:
        raise ParameterError(
            f"No kind of release is called {unknown_kinds[0]!r}. Use some of"
            f" {', '.join(sorted(known_kinds))}."
        )
    for name, case in all_cases().items():
        if not kinds or case.kind in kinds:
            yield name
