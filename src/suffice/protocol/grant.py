"""The two-agent protocol of Patrini et al. 2016, Algorithm 3: propose, grant, check.

The paper's agents "establish the privacy level alpha" and then exchange one statistic. Here the
learner proposes terms and identifies the public rows by their hash. The owner grants, counters or
refuses. The learner checks that the release is the one that it requested.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from suffice.errors import (
    BudgetError,
    BurntRequestError,
    ForeignAnswerError,
    ForeignRowsError,
    ParameterError,
    TableError,
    UnitError,
)
from suffice.options import Missing
from suffice.owner.ledger import Ledger
from suffice.owner.ledger.log import Kind
from suffice.owner.mean_operator import MeanOperator
from suffice.owner.mechanism import same_classes, scaling_trouble
from suffice.owner.policy import Decision, Policy, Terms, Verdict, Wanted, decide, too_wide
from suffice.privacy.guarantee import Budget, Unit
from suffice.protocol.messages import Answer, Countered, Granted, Proposal, Refused, digest_of
from suffice.releases.codec import decode
from suffice.releases.file import MOST_BYTES, read_bounded
from suffice.releases.release import HashedRows, Release, encode
from suffice.releases.signing import sign
from suffice.tables.columns import canonical_class, check_classes, is_categorical, resolve_roles
from suffice.tables.pipeline import Pipeline, cost_of_map, most_outputs
from suffice.tables.sources import open_columns, open_table
from suffice.tables.table import hash_rows

_LEAST_USE = 0.95  # of the requested epsilon: a mechanism may use a little less


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
    """Return a learner's request for the mean operator of its public rows.

    The proposal identifies the rows by their number, columns and hash; it contains none of them.

    Parameters
    ----------
    X
        The public rows.
    epsilon, delta
        The requested guarantee per label.
    mechanism
        "auto", or the name of a mechanism.
    features
        The columns to use; None for all.
    classes
        The classes of the labels.
    map
        A feature map, such as "rff:512".
    missing
        What to do about missing values.
    pipeline
        The pipeline of an earlier release, to be used again. Its owner has it, so the proposal
        states only its digest.
    purpose
        What the release is for, in words for the owner.

    Returns
    -------
    Proposal
        The request, ready to be saved and sent.

    Raises
    ------
    ParameterError
        If no owner could grant this, for example a mechanism without its delta.
    TableError
        If the rows cannot be used.
    """
    table = open_table(X)
    if pipeline is not None and features is None:
        features = [column.name for column in pipeline.columns]
    names = resolve_roles(table.schema, features=features).features
    proposal = Proposal(
        kind="mean-operator",
        terms=Terms(float(epsilon), float(delta), mechanism),
        rows=_hashed_rows(X, names, None),
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
    progress: Callable[[int], None] | None = None,
) -> tuple[Answer, Release | None]:
    """Protects each label: answers a proposal, with a release only if policy and ledger allow it.

    The decision depends on the proposal, the policy, the ledger's balance and the hash of the
    public rows. It never depends on a label: labels are read after the decision, for the release,
    and no label can prevent it. Notes (`suffice.plain_text`) tell the owner alone what depends on
    labels. The ledger is charged only if the proposal is granted. The same
    proposal gets the same file again at no charge, even if the policy has changed.

    Parameters
    ----------
    proposal
        The learner's request.
    X
        The owner's table.
    y
        The labels, unless they are a column of ``X``.
    policy
        What the owner grants.
    ledger, dataset
        The ledger, and the data set in it, that is charged.
    label
        The column of ``X`` that holds the labels.
    pipeline
        The pipeline that the proposal names, if it names one. It is refused if its numbers come
        from private rows or from an unknown source.
    key
        A private key that signs the release.
    progress
        Called with the number of rows done.

    Returns
    -------
    tuple of Answer and Release
        The answer, and the release if it is granted, else None.

    Raises
    ------
    ForeignRowsError
        If the owner's rows are not the proposed ones.
    ParameterError
        If neither ledger nor policy declares the classes, or the pipeline is another one.
    BurntRequestError
        If this proposal was charged before and its release was lost.
    """
    declined = review(
        proposal, X, policy=policy, ledger=ledger, dataset=dataset, label=label, pipeline=pipeline
    )
    if declined is not None:
        log_answer(proposal, ledger, dataset, declined)
        return declined, None
    try:
        release = _operator(proposal, pipeline).release_whatever_labels(
            X,
            y,
            ledger=ledger,
            dataset=dataset,
            label=label,
            features=proposal.features,
            person=policy.person,
            request=proposal.request,
            progress=progress,
        )
    except BudgetError:  # composition, or another request was faster; nothing was charged
        refused = Refused(proposal.digest, ("the release would exceed the budget of the data set",))
        log_answer(proposal, ledger, dataset, refused)
        return refused, None
    except BurntRequestError:
        raise BurntRequestError(
            "This proposal was charged, but its release was lost. The charge stays. Ask the learner"
            " for a new proposal (another purpose is enough). It will be charged too."
        ) from None
    if key is not None:
        release = sign(release, key)
    answer = Granted(proposal.digest, digest_of(encode(release)))
    _check_subject(proposal, release)
    log_answer(proposal, ledger, dataset, answer)
    return answer, release


def log_answer(
    proposal: Proposal, ledger: Ledger, dataset: str, answer: Granted | Countered | Refused
) -> None:
    """Write an answer into the ledger's audit log: who asked for what, and why; all of it public.

    The same answer to the same proposal is written once. `grant` does this by itself.
    """
    ledger.record_answer(dataset, *entry_about(proposal, answer))


def entry_about(
    proposal: Proposal, answer: Granted | Countered | Refused
) -> tuple[Kind, dict[str, Any]]:
    """Return kind and facts of the entry of an audit log about an answer; all of it is public."""
    terms = proposal.terms
    facts: dict[str, Any] = {
        "proposal": proposal.digest,
        "epsilon": terms.epsilon,
        "delta": terms.delta,
        "mechanism": terms.mechanism,
        "purpose": proposal.purpose,
        "answer": answer.name,
    }
    if isinstance(answer, Granted):
        return Kind.GRANT, {**facts, "release": answer.release}
    return Kind.REFUSAL, {**facts, "reasons": [*answer.reasons]}


def review(
    proposal: Proposal,
    X: Any,
    *,
    policy: Policy,
    ledger: Ledger,
    dataset: str,
    label: str | None = None,
    pipeline: Pipeline | None = None,
) -> Countered | Refused | None:
    """Return why `grant` would not grant a proposal, or None if it would. No label is read.

    Nothing is charged or written. The parameters are those of `grant`, and so are the errors.
    """
    if proposal.pipeline != (None if pipeline is None else pipeline.digest()):
        raise ParameterError(
            "The proposal names another pipeline. Use that of the learner's earlier release"
            " (--pipeline-from, Python: pipeline=...), or none if the proposal names none."
        )
    if pipeline is not None and not pipeline.origin.is_public:
        reason = f"the proposed pipeline is not public: {scaling_trouble(pipeline.origin)}"
        return Refused(proposal.digest, (reason,))
    private = sorted({*proposal.features} & {*ledger.label_columns(), label})
    if private:
        names = ", ".join(ascii(name)[:60] for name in private[:4])
        return Refused(proposal.digest, (f"these features are private labels: {names}",))
    if policy.person in proposal.features:
        return Refused(proposal.digest, ("the column of ids is no feature",))

    declared = ledger.classes(dataset, label)
    if declared is None and policy.classes is None:
        raise ParameterError(
            f"Data set {dataset!r} has no declared classes, so a proposal could reveal which labels"
            " occur. Declare them with suffice ledger init --classes, or in the policy."
        )
    classes = check_classes(policy.classes or declared or ())
    if declared is not None and not same_classes(declared, classes):
        raise ParameterError(
            "The policy declares other classes than the ledger. Remove them from the policy."
        )
    policy = replace(policy, classes=tuple(map(canonical_class, classes)))

    unit = Unit.LABEL if policy.person is None else Unit.PERSON_LABELS
    remaining, work, size = _remaining_budget(ledger, dataset, proposal.terms.delta, unit), 0, 0
    if ledger.was_charged(dataset, proposal.request):  # it is granted again
        decision = Decision(Verdict.GRANTED, proposal.terms)
    else:  # from public inputs only
        mapped = None if pipeline is None else pipeline.map
        spec = proposal.map if mapped is None else f"{mapped.kind}:{mapped.size}"
        with suppress(ParameterError):  # an unknown map is refused where maps are made
            work, size = cost_of_map(spec, len(proposal.features), proposal.rows.count)
        wanted = Wanted(
            proposal.kind,
            proposal.terms,
            proposal.rows.count,
            proposal.features,
            mapped=proposal.map is not None or (pipeline is not None and pipeline.map is not None),
            coordinates=_coordinates(proposal, pipeline, len(proposal.features)),
            work=work,
            size=size,
            classes=tuple(map(canonical_class, proposal.classes)),
        )
        decision = decide(wanted, policy, remaining)
    if decision.terms is None:  # before any column is read: a policy may keep some of them private
        return Refused(proposal.digest, decision.reasons)

    rows = _hashed_rows(X, proposal.features, label)
    if rows.count != proposal.rows.count:
        raise ForeignRowsError(
            f"The proposal is about {proposal.rows.count} rows, but the table has {rows.count}."
            " Use the rows of the proposal."
        )
    if rows != proposal.rows:
        raise ForeignRowsError(
            "The rows of the table are not those of the proposal: a value in one of the proposed"
            " columns differs. Both sides must hold the same public rows."
        )
    if not ledger.was_charged(dataset, proposal.request):
        width = _coordinates(proposal, pipeline, _encoded_width(proposal, X, label))
        if width > policy.most_coordinates:
            return Refused(proposal.digest, (too_wide(policy),))
    if decision.verdict is Verdict.COUNTERED:
        return Countered(proposal.digest, decision.terms, decision.reasons)
    return None


def check_answer(proposal: Proposal, answer: Answer, release: str | Path | bytes) -> Release:
    """Return the release that ``answer`` grants to ``proposal``, after checking that they match.

    The check uses the files alone. The answer must name the proposal and the bytes of the release,
    and the release must be about the proposed rows, features and classes. `suffice.verify` checks
    who signed it.

    Parameters
    ----------
    proposal
        What the learner requested.
    answer
        What the owner answered.
    release
        The release, as a path or as bytes.

    Raises
    ------
    ForeignAnswerError
        If one of the three does not belong to the others.
    ParameterError
        If the answer does not grant the proposal.
    """
    if answer.proposal != proposal.digest:
        raise ForeignAnswerError("This answer belongs to another proposal.")
    if not isinstance(answer, Granted):
        raise ParameterError(f"The proposal was {answer.name}, so there is no release to check.")
    data = release if isinstance(release, bytes) else read_bounded(Path(release), MOST_BYTES)
    if digest_of(data) != answer.release:
        raise ForeignAnswerError("The release is not the file that the answer names.")
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


def _encoded_width(proposal: Proposal, X: Any, label: str | None) -> int:
    """Return how many numbers the proposed columns become: one each, texts one per category."""
    table = open_columns(X, proposal.features, label=label)
    texts = [n for n in proposal.features if is_categorical(table.schema.field(n).type)]
    categories: dict[str, set[Any]] = {name: set() for name in texts}
    for batch in table.batches(texts) if texts else ():
        for name, values in categories.items():
            values.update(batch.column(name).unique().to_pylist())
    numbers = len(proposal.features) - len(texts)
    return numbers + sum(len(values - {None}) for values in categories.values())


def _coordinates(proposal: Proposal, pipeline: Pipeline | None, width: int) -> int:
    """Return how many coordinates rows of ``width`` encoded columns would have, by arithmetic."""
    if pipeline is not None:
        return len(pipeline.outputs)
    if proposal.map is None:
        return width
    try:
        return most_outputs(proposal.map, width)
    except ParameterError:  # an unknown map is refused where maps are made
        return width


def _remaining_budget(ledger: Ledger, dataset: str, delta: float, unit: Unit) -> Budget | None:
    """Return what the data set's budget per ``unit`` still allows, None for nothing.

    Its epsilon is the largest that fits, with noise at this delta or with noise that needs none.
    When a release is charged, the ledger has the last word.
    """
    budget = ledger.budgets(dataset).get(unit)
    if budget is None:
        raise UnitError(
            f"Data set {dataset!r} has no budget per {unit}, and this release needs one. Add it"
            " with suffice ledger init."
        )
    deltas = {0.0, min(delta, budget.delta)}
    epsilon = max(ledger.largest_epsilon(dataset, least, unit) for least in deltas)
    return Budget.stored(epsilon, budget.delta) if epsilon > 0 else None


def _hashed_rows(X: Any, features: Sequence[str], label: str | None) -> HashedRows:
    """Return how many rows ``X`` has, and their hash over ``features``."""
    table = open_columns(X, features, label=label)
    names = resolve_roles(table.schema, label=label, features=features).features
    digest = hash_rows(table, names)
    if digest.count == 0:
        raise TableError("The table has no rows.")
    return HashedRows(digest.count, digest.result())


def _check_subject(proposal: Proposal, release: Release) -> None:
    """Raise unless the release has the proposed rows, features, classes, pipeline and terms."""
    columns = tuple(column.name for column in release.pipeline.columns)
    requested = (proposal.kind, proposal.features, tuple(proposal.classes))
    same = (release.kind, columns, release.classes) == requested
    proposed, rows = proposal.rows, release.parts[0].rows
    if rows.labelled is not None and release.guarantee.unit is Unit.PERSON_LABELS:
        # One row of each person: all of them are as many as were proposed, and `fit` hashes those.
        same &= rows.labelled.rows == proposed.count
    else:
        same &= (rows.count, rows.hash) == (proposed.count, proposed.hash)
    if not same or len(release.parts) != 1:
        raise ForeignAnswerError(
            "The release is about other rows, features or classes than the proposal."
        )
    pipeline, spec = release.pipeline, proposal.map
    used_map = None if pipeline.map is None else f"{pipeline.map.kind}:{pipeline.map.size}"
    if proposal.pipeline not in {None, pipeline.digest()} or (
        proposal.pipeline is None and (used_map, pipeline.missing) != (spec, proposal.missing)
    ):
        raise ForeignAnswerError("The release uses another pipeline than the proposal.")
    terms, guarantee = proposal.terms, release.guarantee
    least = _LEAST_USE * terms.epsilon
    if not least <= (guarantee.epsilon or 0.0) <= terms.epsilon or guarantee.delta > terms.delta:
        raise ForeignAnswerError("The release has another epsilon or delta than the proposal.")
