"""Publish statistics from private data with a guarantee, and train classifiers from them.

Owners: `Session` holds one data set with its budget. `advise` says which release to make, and
`release` makes it. `plan_mean_operator` predicts
how useful a release would be, and `MeanOperator` makes it.
`RandomizedResponse` publishes records that are changed at random, `Rados` sums over random subsets,
`Moments` noisy second moments of records, `LabelProportions` class proportions of bags. `Ledger`
and `Budget` limit all releases together. `grant` answers a learner's proposal under a `Policy`.
`new_survey` and `collect` run a survey.

Parties: `PartyContribution` votes on `AuxiliaryRows`, and `PrivateEnsemble` publishes the sum.

Participants: `respond` answers a survey, and `Randomizer` a single question; both change the answer
at random first.

Learners: `load` reads a release, and `verify` checks who signed it. `FactoredClassifier` learns
from mean operators and from weak supervision (`suffice.learner.weak`), `NoisyLabelClassifier` from
randomised labels, `SpreadClassifier` from randomised records, `MomentClassifier` and
`MomentRegressor` from moments, `RadoRidge` and `RadoBoost` from subset sums, `ClassRatio` from
proportions, and `VoteClassifier` from votes. `describe` states means, variances and correlations of
moments, and `sample` draws synthetic rows from them. `propose` asks an owner, and `check_answer`
checks the answer. `Remote` does both over the network.

Officers: `Remote` also reads the log of a service, a `Checkpoint` and an `Export` of all of it.

Everybody: `card` describes a release on one page. `TableFile` describes a file, `Query` a table in
a database, `Guarantee` what is protected. `errors` holds all errors.

Importing this package loads no heavy library. A name loads what it needs on first use.
"""

from importlib import import_module
from typing import Any

from suffice._version import __version__
from suffice.errors import missing_packages

_HOMES = {
    # owner
    "AuxiliaryRows": "suffice.owner.parties.contribution",
    "Checkpoint": "suffice.owner.ledger.log",
    "Ledger": "suffice.owner.ledger",
    "MeanOperator": "suffice.owner.mean_operator",
    "LabelProportions": "suffice.owner.proportions",
    "PartyContribution": "suffice.owner.parties.contribution",
    "Moments": "suffice.owner.moments",
    "Policy": "suffice.owner.policy",
    "PrivateEnsemble": "suffice.owner.parties.ensemble",
    "Rados": "suffice.owner.rados",
    "RandomizedResponse": "suffice.owner.responses",
    "collect": "suffice.owner.survey",
    "load_survey": "suffice.owner.survey",
    "new_survey": "suffice.owner.survey",
    "advise": "suffice.owner.advice",
    "release": "suffice.owner.advice",
    "Session": "suffice.cli.session",
    "assign_bags": "suffice.owner.proportions",
    "plan_mean_operator": "suffice.owner.mean_operator",
    "plan_moments": "suffice.owner.moments",
    "plan_rados": "suffice.owner.rados",
    "plan_parties": "suffice.owner.parties.ensemble",
    "plan_proportions": "suffice.owner.proportions",
    "plan_skew": "suffice.owner.proportions",
    # tables
    "TableFile": "suffice.tables.files",
    # participant
    "Randomizer": "suffice.participant",
    "respond": "suffice.participant",
    # releases
    "Release": "suffice.releases.release",
    "generate_keys": "suffice.releases.signing",
    "merge": "suffice.releases.merge",
    "sign": "suffice.releases.signing",
    "verify": "suffice.releases.signing",
    "load": "suffice.learner.model_file",  # a release; of a model file, one that predicts
    # learner
    "AdaBoostLinear": "suffice.papers.adaboost",
    "ClassRatio": "suffice.learner.ratio.estimator",
    "FactoredClassifier": "suffice.learner.operator",
    "MomentClassifier": "suffice.learner.moments",
    "MomentRegressor": "suffice.learner.moments",
    "NoisyLabelClassifier": "suffice.learner.noisy_labels",
    "RadoBoost": "suffice.learner.rados",
    "RadoRidge": "suffice.learner.rados",
    "SpreadClassifier": "suffice.learner.spread",
    "VoteClassifier": "suffice.learner.votes",
    "describe": "suffice.learner.moments",
    "sample": "suffice.learner.sampling",
    "estimate_frequencies": "suffice.learner.frequencies",
    "estimate_mean_operator": "suffice.learner.weak",
    "exponential_rado_risk": "suffice.learner.rados",
    "logistic_rado_risk": "suffice.learner.rados",
    # both sides of a grant
    "Answer": "suffice.protocol.messages",
    "Export": "suffice.protocol.export",
    "Proposal": "suffice.protocol.messages",
    "Remote": "suffice.protocol.remote",
    "check_answer": "suffice.protocol.grant",
    "grant": "suffice.protocol.grant",
    "propose": "suffice.protocol.grant",
    # tables
    "Query": "suffice.tables.databases",
    # everybody
    "card": "suffice.pages.card",
    # guarantees
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
    with missing_packages():
        value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next use finds it at once
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
