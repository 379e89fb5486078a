"""Release just enough to learn.

For owners: `plan_mean_operator` says what a release would be good for, `MeanOperator` makes it,
`RandomizedResponse` lets records leave randomised, `Rados` sums over random subsets of them,
`Moments` their noisy second moments,
`LabelProportions` class counts of sets, `Ledger` and `Budget` guard how much is ever lost, `grant`
answers a learner under a `Policy`; `new_survey` asks people, `collect` gathers.
For parties: `PartyContribution` votes on `AuxiliaryRows`, `PrivateEnsemble` releases the sum.
For participants: `respond` answers a survey, `Randomizer` a question, randomised, once.
For learners: `load` reads a release, `verify` checks who signed it, `FactoredClassifier` learns,
also from weak supervision (`suffice.learner.weak`), `SpreadClassifier` from randomised records,
`RadoRidge` and `RadoBoost` from rados, `MomentClassifier` from moments, `ClassRatio` from
proportions, `VoteClassifier` from votes; `propose` asks an owner, `check_answer` checks.
For everybody: `TableFile` says how a file is written, `Query` is a table in a database, `Guarantee`
says what is protected; `errors` holds everything that is raised.

Importing this package loads none of the heavy libraries; a name loads what it needs on first use.
"""

from importlib import import_module
from typing import Any

from suffice._version import __version__

_HOMES = {
    # owner
    "AuxiliaryRows": "suffice.owner.parties.auxiliary",
    "Ledger": "suffice.owner.ledger",
    "MeanOperator": "suffice.owner.operator.mechanism",
    "LabelProportions": "suffice.owner.proportions.mechanism",
    "PartyContribution": "suffice.owner.parties.contribution",
    "Moments": "suffice.owner.moments.mechanism",
    "Policy": "suffice.owner.ledger.policy",
    "PrivateEnsemble": "suffice.owner.parties.mechanism",
    "Rados": "suffice.owner.rados.mechanism",
    "RandomizedResponse": "suffice.owner.responses.mechanism",
    "collect": "suffice.owner.responses.survey",
    "load_survey": "suffice.owner.responses.survey",
    "new_survey": "suffice.owner.responses.survey",
    "assign_bags": "suffice.owner.proportions.bags",
    "plan_mean_operator": "suffice.owner.operator.mechanism",
    "plan_moments": "suffice.owner.moments.mechanism",
    "plan_rados": "suffice.owner.rados.mechanism",
    "plan_parties": "suffice.owner.parties.plan",
    "plan_proportions": "suffice.owner.proportions.plan",
    "plan_skew": "suffice.owner.proportions.plan",
    # tables
    "TableFile": "suffice.tables.files",
    # participant
    "Randomizer": "suffice.participant",
    "respond": "suffice.participant",
    # what travels
    "Release": "suffice.release.artifact",
    "generate_keys": "suffice.release.signing",
    "load": "suffice.release.codec",
    "merge": "suffice.release.merge",
    "sign": "suffice.release.signing",
    "verify": "suffice.release.signing",
    # learner
    "AdaBoostLinear": "suffice.learner.rados.adaboost",
    "ClassRatio": "suffice.learner.ratio.estimator",
    "FactoredClassifier": "suffice.learner.operator.factored",
    "MomentClassifier": "suffice.learner.moments.classifier",
    "NoisyLabelClassifier": "suffice.learner.noisy_labels.classifier",
    "RadoBoost": "suffice.learner.rados.radoboost",
    "RadoRidge": "suffice.learner.rados.ridge",
    "SpreadClassifier": "suffice.learner.spread.classifier",
    "VoteClassifier": "suffice.learner.votes",
    "estimate_frequencies": "suffice.learner.spread.frequencies",
    "estimate_mean_operator": "suffice.learner.weak",
    "exponential_rado_risk": "suffice.learner.rados.risks",
    "logistic_rado_risk": "suffice.learner.rados.risks",
    # both sides of a grant
    "Answer": "suffice.transport.messages",
    "Proposal": "suffice.transport.messages",
    "check_answer": "suffice.transport.protocol",
    "grant": "suffice.transport.protocol",
    "propose": "suffice.transport.protocol",
    # tables
    "Query": "suffice.tables.databases",
    # promises
    "Budget": "suffice.privacy.guarantee",
    "Guarantee": "suffice.privacy.guarantee",
    "Unit": "suffice.privacy.guarantee",
    "compose": "suffice.privacy.guarantee",
}

__all__ = ["__version__", "errors", *_HOMES]  # noqa: PLE0604  # all strings


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("suffice.errors")
    if name not in _HOMES:
        raise AttributeError(f"module 'suffice' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # found once, found fast from now on
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
