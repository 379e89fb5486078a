"""The two-agent protocol of Patrini et al. 2016, Algorithm 3: propose, grant, check.

The paper's agents "establish the privacy level alpha" and then exchange one statistic. Here the
learner proposes terms and names the public rows by their hash; the owner grants, counters or
refuses; the learner checks that what came back is what was asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from suffice.errors import (
    BudgetError,
    BurntRequestError,
    ForeignAnswerError,
    ForeignRowsError,
    LedgerError,
    ParameterError,
    TableError,
    UnitError,
)
from suffice.owner.classes import same_classes
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.policy import Decision, Policy, Terms, Verdict, Wanted, decide, too_wide
from suffice.owner.operator.mechanism import MeanOperator
from suffice.owner.scaling import scaling_trouble
from suffice.privacy.guarantee import Budget, Unit
from suffice.release.artifact import Release, RowSet
from suffice.release.codec import MOST_BYTES, decode, encode
from suffice.release.files import read_bounded
from suffice.release.signing import sign
from suffice.tables.columns import is_categorical, resolve_roles
from suffice.tables.labels import canonical_class, check_classes
from suffice.tables.maps import most_outputs
from suffice.tables.missing_rule import Missing
from suffice.tables.pipeline import Pipeline
from suffice.tables.rowhash import hash_rows
from suffice.tables.sources import open_columns, open_table
from suffice.transport.messages import Answer, Countered, Granted, Proposal, Refused, digest_of

__all__ = ["check_answer", "grant", "propose"]

_NEARLY = 0.95  # of the epsilon that was asked for: what a mechanism may leave over


def propose(
    X: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    mechanism: str = "auto",
    features: Sequence[str] | None = None,
    classes: Sequence[Any] = (0, 1),
    map: str | None = None,  # noqa: A002  # the word of `MeanOperator`
    missing: Missing = "error",
    pipeline: Pipeline | None = None,
    purpose: str = "",
) -> Proposal:
    """Return what a learner asks for: the mean operator of its public rows, at these terms.

    The rows are named by number, columns and hash; they do not travel. What could never be granted
    (a mechanism without its delta, a map that does not exist) is an error here already.
    ``pipeline``, of an earlier release, is named by its digest; its owner has it.
    """
    table = open_table(X)
    if pipeline is not None and features is None:
        features = [column.name for column in pipeline.columns]
    names = resolve_roles(table.schema, features=features).features
    proposal = Proposal(
        kind="mean-operator",
        terms=Terms(float(epsilon), float(delta), mechanism),
        rows=_row_set(X, names, None),
        features=names,
        classes=check_classes(classes),
        map=map,
        missing=missing,
        pipeline=None if pipeline is None else pipeline.digest(),
        purpose=purpose,
    )
    _operator(proposal, pipeline).forecast(table, features=names)  # raises what grant would raise
    return proposal


def grant(
    proposal: Proposal,
    X: Any,
    y: Any = None,
    *,
    policy: Policy,
    ledger: Ledger,
    dataset: str,
    label: str | None = None,
    pipeline: Pipeline | None = None,
    key: str | Path | None = None,
    tell: Callable[[str], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Answer, Release | None]:
    """Protects each label: answers a proposal, with a release only if policy and ledger allow it.

    Whether it is granted depends on the proposal, the policy, the ledger's balance and the hash of
    the public rows, never on a label: those are read once it is decided, for the release, and
    whatever they are, there is one. The data set's classes must be declared, by ledger or policy;
    labels outside them count as none. What the owner should know of the labels (how many are
    outside, that they were changed) is said to ``tell`` alone. Nothing is spent unless it is
    granted. The same proposal again gets the same bytes and costs nothing, whatever the policy has
    become: those bytes have left already. Rows that are not the proposed ones are a
    `ForeignRowsError`. ``key`` signs the release; ``pipeline`` is the one that the proposal names,
    if it names one; one whose numbers come from private rows, or nobody knows from where, is
    refused.
    """
    _check_pipeline(proposal, pipeline)
    if reason := _not_public(proposal, pipeline, ledger, label):
        return Refused(proposal.digest, (reason,)), None
    policy = _with_classes(policy, ledger, dataset, label)
    decision = _decision(proposal, policy, ledger, dataset, pipeline)
    if decision.terms is None:  # before any column is read: a policy may keep some of them private
        return Refused(proposal.digest, decision.reasons), None
    _check_rows(proposal, X, label)
    if not _paid(proposal, ledger, dataset):
        width = _coordinates(proposal, pipeline, _encoded_width(proposal, X, label))
        if width > policy.most_coordinates:
            return Refused(proposal.digest, (too_wide(policy),)), None
    if decision.verdict is Verdict.COUNTERED:
        return Countered(proposal.digest, decision.terms, decision.reasons), None
    try:
        release = _operator(proposal, pipeline).release_whatever_labels(
            X,
            y,
            tell=tell or (lambda _: None),
            ledger=ledger,
            dataset=dataset,
            label=label,
            features=proposal.features,
            request=proposal.request,
            progress=progress,
        )
    except BudgetError:  # composition, or somebody else was faster; nothing was spent
        reason = "the data set's budget does not allow it on top of what is spent"
        return Refused(proposal.digest, (reason,)), None
    except BurntRequestError:
        raise BurntRequestError(
            "this proposal was paid for but its release was lost; it stays spent. Ask the learner"
            " for a new proposal (another purpose is enough) to pay and draw again."
        ) from None
    if key is not None:
        release = sign(release, key)
    answer = Granted(proposal.digest, digest_of(encode(release)))
    _check_subject(proposal, release)
    return answer, release


def _not_public(
    proposal: Proposal, pipeline: Pipeline | None, ledger: Ledger, label: str | None
) -> str | None:
    """Return why what a proposal names is not public, whatever the policy offers, or None."""
    if pipeline is not None and not pipeline.origin.is_public:
        return f"the pipeline that it names is not public: {scaling_trouble(pipeline.origin)}"
    private = sorted({*proposal.features} & {*ledger.label_columns(), label})
    shown = ", ".join(ascii(name)[:60] for name in private[:4])
    return f"these features are private labels: {shown}" if private else None


def check_answer(proposal: Proposal, answer: Answer, release: str | Path | bytes) -> Release:
    """Return the release that ``answer`` grants to ``proposal``, or raise if it is another one.

    Computed from the files alone: the answer names the proposal, the release's bytes are those that
    the answer names, and the release is about the proposed rows, features and classes. Who signed
    it is for `suffice.verify` to say.
    """
    if answer.proposal != proposal.digest:
        raise ForeignAnswerError("the answer is to another proposal.")
    if not isinstance(answer, Granted):
        raise ParameterError(f"the proposal was {answer.name}; there is no release to check.")
    data = release if isinstance(release, bytes) else read_bounded(Path(release), MOST_BYTES)
    if digest_of(data) != answer.release:
        raise ForeignAnswerError("the release is not the file that the answer names.")
    decoded = decode(data)
    _check_subject(proposal, decoded)
    return decoded


def _operator(proposal: Proposal, pipeline: Pipeline | None) -> MeanOperator:
    return MeanOperator(
        epsilon=proposal.terms.epsilon,
        delta=proposal.terms.delta,
        mechanism="sums" if proposal.terms.mechanism == "auto" else proposal.terms.mechanism,
        classes=proposal.classes,
        missing=proposal.missing,  # type: ignore[arg-type]  # checked by the proposal
        map=proposal.map,
        pipeline=pipeline,
    )


def _decision(
    proposal: Proposal, policy: Policy, ledger: Ledger, dataset: str, pipeline: Pipeline | None
) -> Decision:
    """Return the verdict, from public things only; what was paid for before is granted again."""
    left = _left(ledger, dataset)
    if _paid(proposal, ledger, dataset):
        return Decision(Verdict.GRANTED, proposal.terms)
    mapped = proposal.map is not None or (pipeline is not None and pipeline.map is not None)
    wanted = Wanted(
        proposal.kind,
        proposal.terms,
        proposal.rows.count,
        proposal.features,
        mapped=mapped,
        coordinates=_coordinates(proposal, pipeline, len(proposal.features)),
        classes=tuple(map(canonical_class, proposal.classes)),
    )
    return decide(wanted, policy, left)


def _paid(proposal: Proposal, ledger: Ledger, dataset: str) -> bool:
    """Say whether the ledger has paid for this proposal before."""
    return any(e.dataset == dataset and e.request == proposal.request for e in ledger.history())


def _encoded_width(proposal: Proposal, X: Any, label: str | None) -> int:
    """Return how many numbers the proposed columns become: one each, texts one per category."""
    table = open_columns(X, proposal.features, label=label)
    texts = [n for n in proposal.features if is_categorical(table.schema.field(n).type)]
    found: dict[str, set[Any]] = {name: set() for name in texts}
    for batch in table.batches(texts) if texts else ():
        for name, values in found.items():
            values.update(batch.column(name).unique().to_pylist())
    numbers = len(proposal.features) - len(texts)
    return numbers + sum(len(values - {None}) for values in found.values())


def _coordinates(proposal: Proposal, pipeline: Pipeline | None, width: int) -> int:
    """Return how many coordinates rows of ``width`` encoded columns would have, by arithmetic."""
    if pipeline is not None:
        return len(pipeline.outputs)
    if proposal.map is None:
        return width
    try:
        return most_outputs(proposal.map, width)
    except ParameterError:  # what is no map is refused where maps are made
        return width


def _with_classes(policy: Policy, ledger: Ledger, dataset: str, label: str | None) -> Policy:
    """Return the policy with the declared classes, in their canonical spelling, or raise."""
    declared = ledger.classes(dataset, label)
    if declared is None and policy.classes is None:
        raise ParameterError(
            f"data set {dataset!r} has no declared classes, so a proposal could choose them and"
            " find out which labels occur. Declare them: suffice ledger init --classes, or classes"
            " in the policy."
        )
    classes = check_classes(policy.classes or declared or ())
    if declared is not None and not same_classes(declared, classes):
        raise ParameterError(
            "the policy declares other classes than the ledger. Leave them out of the policy."
        )
    return replace(policy, classes=tuple(map(canonical_class, classes)))


def _left(ledger: Ledger, dataset: str) -> Budget | None:
    """Return what the data set's budget per label has left, None for nothing."""
    balances = {b.unit: b for b in ledger.balances() if b.dataset == dataset}
    if not balances:
        raise LedgerError(f"{ledger.path} has no data set {dataset!r}; see suffice ledger init.")
    if Unit.LABEL not in balances:
        raise UnitError(f"data set {dataset!r} has no budget per label, which this would cost.")
    balance = balances[Unit.LABEL]
    return Budget.stored(balance.left, balance.budget.delta) if balance.left > 0 else None


def _row_set(X: Any, features: Sequence[str], label: str | None) -> RowSet:
    """Return the name of the rows of ``X``: how many, and the hash over ``features``."""
    table = open_columns(X, features, label=label)
    names = resolve_roles(table.schema, label=label, features=features).features
    digest = hash_rows(table, names)
    if digest.count == 0:
        raise TableError("the table has no rows.")
    return RowSet(digest.count, digest.result())


def _check_rows(proposal: Proposal, X: Any, label: str | None) -> None:
    rows = _row_set(X, proposal.features, label)
    if rows.count != proposal.rows.count:
        raise ForeignRowsError(
            f"the proposal is about {proposal.rows.count} rows; the table has {rows.count}."
        )
    if rows != proposal.rows:
        raise ForeignRowsError(
            "the table's rows are not those of the proposal: their hash differs in some value of"
            " the columns that it names. Both sides must hold the same public rows."
        )


def _check_pipeline(proposal: Proposal, pipeline: Pipeline | None) -> None:
    given = None if pipeline is None else pipeline.digest()
    if given != proposal.pipeline:
        raise ParameterError(
            "the proposal names another pipeline than the one given: pass that of the release that"
            " the learner used (pipeline=..., --pipeline-from), or none if the proposal names none."
        )


def _check_subject(proposal: Proposal, release: Release) -> None:
    """Raise unless the release is about what was proposed, mapped so, at its price."""
    columns = tuple(column.name for column in release.pipeline.columns)
    asked = (proposal.kind, proposal.features, tuple(proposal.classes))
    rows = [(part.rows.count, part.rows.hash) for part in release.parts]
    same = (release.kind, columns, release.classes) == asked
    if not same or rows != [(proposal.rows.count, proposal.rows.hash)]:
        raise ForeignAnswerError(
            "the release is about other rows, features or classes than the proposal."
        )
    pipeline, spec = release.pipeline, proposal.map
    found = None if pipeline.map is None else f"{pipeline.map.kind}:{pipeline.map.size}"
    if proposal.pipeline not in {None, pipeline.digest()} or (
        proposal.pipeline is None and (found, pipeline.missing) != (spec, proposal.missing)
    ):
        raise ForeignAnswerError("the release maps its rows otherwise than was proposed.")
    terms, promise = proposal.terms, release.guarantee
    least = _NEARLY * terms.epsilon
    if not least <= (promise.epsilon or 0.0) <= terms.epsilon or promise.delta > terms.delta:
        raise ForeignAnswerError("the release has another price than was proposed.")
