"""Everything that a new mechanism brings, registered with one call.

Command line, planner, auditor and learner look a mechanism up where it was registered, and hold no
list of their own. What ships with the package is registered in the same tables.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from suffice.audit.case import Case
from suffice.audit.exercises import Exercise, register_exercises
from suffice.audit.registry import register_cases
from suffice.learner.fit import Learning, register_learner
from suffice.owner.mechanism import Mechanism, register_mechanism
from suffice.releases.kinds import Kind, register_kind


def register(
    mechanism: type[Mechanism[Any]],
    kind: Kind,
    audit_cases: Callable[[], Iterable[Case]],
    learner: Learning,
    exercises: Sequence[Exercise] = (),
) -> None:
    """Add a mechanism, the kind of its releases, its audit cases and what learns from it.

    From then on ``suffice release``, ``plan``, ``inspect``, ``audit`` and ``fit`` know it, ledgers
    charge it, and its releases merge as the kind says.

    Parameters
    ----------
    mechanism : type of Mechanism
        How a release is made.
    kind : Kind
        What such a release holds, and how two of them merge.
    audit_cases : callable
        Returns the cases that the auditor runs.
    learner : Learning
        How a model is fitted to such releases.
    exercises : sequence of Exercise
        Releases that ``suffice audit --compare releases`` makes, to check that nothing but the
        noise depends on a secret. Without them that command refuses the mechanism.
    """
    register_kind(kind)
    register_mechanism(mechanism)
    register_cases(kind.name, audit_cases)
    register_learner(kind.name, learner)
    if exercises:
        register_exercises(mechanism.name, exercises)
