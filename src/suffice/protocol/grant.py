"""The two-agent protocol of Patrini et al. 2016, Algorithm 3: propose, grant, check.

The paper's agents "establish the privacy level alpha" and then exchange one statistic. Here the
learner proposes terms and identifies the public rows by their hash. The owner grants, counters or
refuses. The learner checks that the release is the one that it requested.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
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
from suffice.owner.mechanism import (
    Asked,
    Mechanism,
    mechanism_of,
    scaling_trouble,
)
from suffice.owner.policy import (
    Decision,
    Policy,
    Terms,
    Verdict,
    Wanted,
    decide,
    not_granted,
    too_wide,
)
from suffice.privacy.guarantee import Budget, Unit
from suffice.protocol.messages import Answer, Countered, Granted, Proposal, Refused, digest_of
from suffice.releases.codec import decode
from suffice.releases.file import MOST_BYTES, read_bounded
from suffice.releases.release import HashedRows, Release, encode
from suffice.releases.signing import sign
from suffice.tables.bags import BagDigest, read_bags
from suffice.tables.columns import canonical_class, check_classes, is_categorical, resolve_roles
from suffice.tables.data_sheet import DataSheet
from suffice.tables.pipeline import Pipeline, most_outputs
from suffice.tables.sources import open_columns, open_table
from suffice.tables.table import hash_rows

_LEAST_USE = 0.95  # of the requested epsilon: a mechanism may use a little less


def propose(
    X: Any,
    *,
    epsilon: float,
    delta: float = 0.0,
    mechanism: str = "auto",
    kind: str = "mean-operator",
    features: Sequence[str] | None = None,
    classes: Sequence[Any] | None = None,
    map: str | None = None,  # noqa: A002  # the word of `MeanOperator`
    missing: Missing | None = None,
    pipeline: Pipeline | None = None,
    purpose: str = "",
    **options: Any,
) -> Proposal:
    """Return a learner's request for a release of an owner's table.

    The proposal identifies public rows by their number, columns and hash; it contains none of them.
    Of private records it names the columns that the owner's data sheet lists.

    Parameters
    ----------
    X
        The public rows; where records are private, the owner's `DataSheet`, or its file.
    epsilon, delta
        The requested guarantee: per label, or per record where records are private.
    mechanism
        "auto", or the name of a noise type.
    kind
        The kind of release: "mean-operator", "proportions" or "bags" of public rows; "moments",
        "rados" or "responses" of private records.
    features
        The columns to use; None for all.
    classes
        The classes of the labels. Default: those of the data sheet, or 0 and 1.
    map
        A feature map of public rows, such as "rff:512".
    missing
        What to do about missing values. Default: "error", of private records "mean".
    pipeline
        The pipeline of an earlier release, to be used again. Its owner has it, so the proposal
        states only its digest.
    purpose
        What the release is for, in words for the owner.
    **options
        Further options of the kind: ``bags``, the columns that form bags, of proportions;
        ``bound``, the length at which rows are shortened, of moments and rados; ``target``, the
        column of a number to predict in place of classes, of moments; ``count`` of rados.

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
    wanted = mechanism_of(kind)
    is_public, sheet = wanted.has_public_rows, None
    if not is_public:
        if not isinstance(X, DataSheet | str | Path):
            raise ParameterError(
                "Records of this kind are private. Give the owner's data sheet (columns.json) in"
                " place of rows."
            )
        sheet = X if isinstance(X, DataSheet) else DataSheet.load(X)
    table = open_table(X) if is_public else None
    options = checked_options(kind, options)
    if features is None and pipeline is not None:
        features = [column.name for column in pipeline.columns]
    if features is None and sheet is not None:
        features = [name for name in sheet.features if name not in options.get("target", ())]
    if table is not None:
        bags = options.get("bags", ())
        others = [name for name in table.schema.names if name not in bags]
        features = resolve_roles(table.schema, features=features or others).features
        rows = hashed_rows(X, features, None, bags, ordered=wanted.ordered_rows)
    declared = None if sheet is None else sheet.classes
    proposal = Proposal(
        kind=kind,
        terms=Terms(float(epsilon), float(delta), mechanism),
        rows=None if table is None else rows,
        features=tuple(features or ()),
        classes=check_classes(classes or declared or (0, 1)),
        map=map,
        missing=missing or ("error" if is_public else "mean"),
        pipeline=None if pipeline is None else pipeline.digest(),
        purpose=purpose,
        options=options,
    )
    procedure_of(proposal, X if sheet is None else sheet, pipeline)  # raises what grant would raise
    return proposal


def checked_options(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the further options of a kind, each of its type, or raise where it has others.

    Nothing that needs ``--unprotected`` is among them.
    """
    offered = mechanism_of(kind).offered
    if not options.keys() <= offered.keys():
        has = f"has the options {', '.join(offered)}" if offered else "has no further options"
        raise ParameterError(f"a proposal of kind {kind} {has}")
    checked = {}
    for name, value in options.items():
        several, given = offered[name] is tuple, (value,) if isinstance(value, str) else value
        if name == "target" and isinstance(given, tuple | list) and len(given) != 1:
            raise ParameterError("a proposal predicts one number: name one target")
        fits = isinstance(given, tuple | list) if several else isinstance(given, int | float)
        if not fits or isinstance(given, bool):
            raise ParameterError(f"the option {name} of a proposal has another type")
        checked[name] = offered[name](given)
        if not several and checked[name] != given:
            raise ParameterError(f"the option {name} of a proposal must be a whole number")
    return checked


def mechanism_for(
    proposal: Proposal, sheet: DataSheet | None, pipeline: Pipeline | None
) -> tuple[Mechanism[Any], dict[str, Any]]:
    """Return the mechanism that a proposal asks for, and inputs of its source beside the table."""
    wanted, options = mechanism_of(proposal.kind), checked_options(proposal.kind, proposal.options)
    inputs: dict[str, Any] = {"bags": options.pop("bags")} if "bags" in options else {}
    target = options.pop("target", ())
    if target:
        inputs["target"] = target[0]
    asked = Asked(
        epsilon=proposal.terms.epsilon,
        delta=proposal.terms.delta,
        noise=proposal.terms.mechanism,
        classes=tuple(proposal.classes),
        features=(*proposal.features, *target),
        map=proposal.map,
        missing=proposal.missing,
        pipeline=pipeline,
        options=options,
        sheet=sheet,
    )
    return wanted.as_asked(asked), inputs


def procedure_of(
    proposal: Proposal,
    X: Any,
    pipeline: Pipeline | None = None,
    *,
    label: str | None = None,
    person: str | None = None,
) -> tuple[Any, Any]:
    """Return the mechanism of a proposal and its source: no private cell is read.

    ``X`` are public rows, or the data sheet of private records. Raises what a grant would raise.
    Of an owner's own table, ``label`` is the column that is not read, and ``person`` that of ids.
    """
    sheet = X if isinstance(X, DataSheet) else None
    mechanism, inputs = mechanism_for(proposal, sheet, pipeline)
    target = inputs.get("target")
    columns = proposal.features if target is None else (*proposal.features, target)
    data = X if sheet is None else sheet.blank(columns)
    if target is not None:  # it takes the place of a label
        label = None
    elif sheet is not None:
        label = sheet.label
    inputs = {**inputs, "label": label, "person": person}
    source = mechanism.source(data, features=proposal.features, **inputs)
    mechanism.choose(mechanism.public(source))
    return mechanism, source


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
    sheet: DataSheet | None = None,
    key: str | Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Answer, Release | None]:
    """Protects each label or record: answers a proposal, with a release only if policy allows it.

    The decision depends on the proposal, the policy, the data sheet, the ledger's balance and the
    hash of the public rows. It never depends on a label, nor on a private record: those are read
    after the decision, for the release, and no cell can prevent it. Notes (`suffice.plain_text`)
    tell the owner alone what depends on them. The ledger is charged only if the proposal is
    granted. The same proposal gets the same file again at no charge, even if the policy has
    changed.

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
    sheet
        The data sheet of the table. Kinds of private records need one, and with one a proposal may
        name no other column.
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
    asked: dict[str, Any] = {"policy": policy, "ledger": ledger, "dataset": dataset, "label": label}
    declined = review(proposal, X, **asked, pipeline=pipeline, sheet=sheet)
    if declined is not None:
        log_answer(proposal, ledger, dataset, declined)
        return declined, None
    try:
        mechanism, inputs = mechanism_for(proposal, sheet, pipeline)
        labels = (y, label) if "target" not in inputs else (None, None)
        release = mechanism.release_whatever_labels(
            X,
            labels[0],
            ledger=ledger,
            dataset=dataset,
            label=labels[1],
            features=proposal.features,
            person=policy.person,
            request=proposal.request,
            progress=progress,
            **inputs,
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
        "kind": proposal.kind,
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
    sheet: DataSheet | None = None,
    policy: Policy,
    ledger: Ledger,
    dataset: str,
    label: str | None = None,
    pipeline: Pipeline | None = None,
) -> Countered | Refused | None:
    """Return why `grant` would not grant a proposal, or None if it would.

    No label is read, and no private record. Nothing is charged or written. The parameters are those
    of `grant`, and so are the errors.
    """
    if proposal.pipeline != (None if pipeline is None else pipeline.digest()):
        raise ParameterError(
            "The proposal names another pipeline. Use that of the learner's earlier release"
            " (--pipeline-from, Python: pipeline=...), or none if the proposal names none."
        )
    charged = ledger.was_charged(dataset, proposal.request)  # then it is granted again
    if not charged and proposal.kind not in policy.kinds:
        reason = f"only these kinds are granted: {', '.join(policy.kinds)}"
        return Refused(proposal.digest, (reason,))
    labels = {*ledger.label_columns(), *([] if label is None else [label])}
    refusal = _form_refusal(proposal, policy, sheet, pipeline, labels)
    if refusal is not None:
        return Refused(proposal.digest, (refusal,))

    options = checked_options(proposal.kind, proposal.options)
    bags, target = options.get("bags", ()), options.get("target", ())
    declared = ledger.classes(dataset, label) or (None if sheet is None else sheet.classes)
    policy = replace(policy, classes=None) if target else policy.of_classes(declared, dataset)

    unit = protected_unit(proposal.kind, policy)
    remaining = _remaining_budget(ledger, dataset, proposal.terms.delta, unit)
    if charged:
        decision = Decision(Verdict.GRANTED, proposal.terms)
    else:  # from public inputs only
        count, width, work, size = 0, len(proposal.features), 0, 0
        if proposal.rows is not None:
            count = proposal.rows.count
        elif sheet is not None and sheet.rows is not None:
            count, width = sheet.rows, sheet.width(proposal.features)
        with suppress(ParameterError):  # an unknown map is refused where maps are made
            work, size = mechanism_for(proposal, sheet, pipeline)[0].cost(width, count)
        wanted = Wanted(
            proposal.kind,
            proposal.terms,
            count,
            (*proposal.features, *bags, *target),
            mapped=proposal.map is not None or (pipeline is not None and pipeline.map is not None),
            coordinates=_coordinates(proposal, pipeline, width),
            work=work,
            size=size,
            classes=tuple(map(canonical_class, proposal.classes)),
            purpose=proposal.purpose,
        )
        decision = decide(wanted, policy, remaining)
    if decision.terms is None:  # before any column is read: a policy may keep some of them private
        return Refused(proposal.digest, decision.reasons)

    if proposal.rows is not None:
        ordered = mechanism_of(proposal.kind).ordered_rows
        rows = hashed_rows(X, proposal.features, label, bags, ordered=ordered)
        if rows.count != proposal.rows.count:
            raise ForeignRowsError(
                f"The proposal is about {proposal.rows.count} rows, but the table has {rows.count}."
                " Use the rows of the proposal."
            )
        if rows != proposal.rows:
            order = " or the order of rows" if ordered else ""
            raise ForeignRowsError(
                "The rows of the table are not those of the proposal: a value in one of the"
                f" proposed columns{order} differs. Both sides must hold the same public rows."
            )
        if not charged:
            width = _coordinates(proposal, pipeline, _encoded_width(proposal, X, label))
            if width > policy.most_coordinates:
                return Refused(proposal.digest, (too_wide(policy),))
    elif sheet is not None and not charged:
        try:
            procedure_of(proposal, sheet)  # what the data sheet does not allow, no record decides
        except ParameterError as error:
            return Refused(proposal.digest, (str(error),))
    if decision.verdict is Verdict.COUNTERED:
        return Countered(proposal.digest, decision.terms, decision.reasons)
    return None


def protected_unit(kind: str, policy: Policy) -> Unit:
    """Return whose budget a release of this kind is charged to."""
    if mechanism_of(kind).has_public_rows:
        return Unit.LABEL if policy.person is None else Unit.PERSON_LABELS
    return Unit.RECORD if policy.person is None else Unit.PERSON


def _form_refusal(
    proposal: Proposal,
    policy: Policy,
    sheet: DataSheet | None,
    pipeline: Pipeline | None,
    labels: set[str],
) -> str | None:
    """Return why nothing of this form can be granted, by public things alone; None if it can."""
    wanted = mechanism_of(proposal.kind)
    try:
        options = checked_options(proposal.kind, proposal.options)
    except ParameterError as error:
        return str(error)
    target = options.get("target", ())
    if pipeline is not None and not pipeline.origin.is_public:
        return f"the proposed pipeline is not public: {scaling_trouble(pipeline.origin)}"
    columns = dict.fromkeys((*proposal.features, *options.get("bags", ())))
    names = {**columns, **dict.fromkeys(target)}
    if sheet is not None:  # a column that it does not name is as one that does not exist
        offered = sheet.public if wanted.has_public_rows else sheet.features
        unnamed = [name for name in columns if name not in offered]
        unnamed += [name for name in target if name not in sheet]
        if unnamed:
            return not_granted(unnamed)
    private = sorted(columns.keys() & labels)
    if private:
        return f"these features are private labels: {', '.join(ascii(n)[:60] for n in private[:4])}"
    rules = {
        "the column of ids is no feature": policy.person not in names,
        "the number to predict is no feature": not columns.keys() & {*target},
        f"a release of kind {wanted.name} cannot protect all rows of a person": (
            policy.person is None or wanted.protects_people
        ),
    }
    if wanted.has_public_rows:
        ordered = f"a release of kind {wanted.name} speaks of rows one by one, and no data sheet"
        rules |= {
            "name the public rows": proposal.rows is not None,
            f"{ordered} says that their order is public; propose mean-operator": (
                not wanted.ordered_rows or (sheet is not None and sheet.ordered)
            ),
        }
    else:
        known = [] if sheet is None else [sheet[name].source for name in names]
        rules |= {
            "records are private; name no rows": proposal.rows is None,
            "records are private, and have no data sheet that says about how many there are": (
                sheet is not None and sheet.rows is not None
            ),
            "the data sheet leaves ranges or categories open, or has them from private cells": (
                not {None, "private cells"} & {*known}
            ),
            "private records have no map and no pipeline here, and missing is mean or zero": (
                proposal.map is None and proposal.pipeline is None and proposal.missing != "error"
            ),
        }
    return next((reason for reason, holds in rules.items() if not holds), None)


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
    """Return what the data set's budgets still allow a release about ``unit``, None for nothing.

    Its epsilon is the largest that fits, with noise at this delta or with noise that needs none.
    When a release is charged, the ledger has the last word.
    """
    budgets = ledger.budgets(dataset)
    if unit not in budgets:
        raise UnitError(
            f"Data set {dataset!r} has no budget per {unit}, and this release needs one. Add it"
            " with suffice ledger init."
        )
    largest = min(budget.delta for budget in budgets.values())
    deltas = {0.0, min(delta, largest)}
    epsilon = max(ledger.largest_epsilon(dataset, least, unit) for least in deltas)
    return Budget.stored(epsilon, largest) if epsilon > 0 else None


def hashed_rows(
    X: Any, features: Sequence[str], label: str | None, bags: tuple[str, ...], *, ordered: bool
) -> HashedRows:
    """Return how many rows ``X`` has, and their hash over ``features``, with their bags if any.

    Of an owner's table, the column ``label`` is not read.
    """
    table = open_columns(X, [*features, *bags], label=label)
    names = resolve_roles(table.schema, label=label, features=features).features
    digest: Any = None
    if bags:
        read = read_bags(table, bags)
        digest, start = BagDigest(table.schema, names, read.names), 0
        for batch in table.batches(names):
            digest.update(batch, read.codes[start : (start := start + batch.num_rows)])
    else:
        digest = hash_rows(table, names, ordered=ordered)
    if digest.count == 0:
        raise TableError("The table has no rows.")
    return HashedRows(digest.count, digest.result())


def _check_subject(proposal: Proposal, release: Release) -> None:
    """Raise unless the release has the proposed rows, features, classes, pipeline and terms."""
    wanted: Any = mechanism_of(proposal.kind)
    kind = wanted.releases or proposal.kind
    columns = tuple(column.name for column in release.pipeline.columns)
    target = proposal.options.get("target")
    classes = tuple(proposal.classes) if target is None else ()
    kind = kind if target is None else "target-moments"
    requested = (kind, proposal.features, classes)
    same = (release.kind, columns, release.classes) == requested and len(release.parts) == 1
    if same and proposal.rows is not None:  # of private records a release names no rows
        proposed, rows = proposal.rows, release.parts[0].rows
        if rows.labelled is not None and release.guarantee.unit is Unit.PERSON_LABELS:
            # One row of each person: all are as many as were proposed, and `fit` hashes those.
            same = rows.labelled.rows == proposed.count
        else:
            same = (rows.count, rows.hash) == (proposed.count, proposed.hash)
    if not same:
        raise ForeignAnswerError(
            "The release is about other rows, features or classes than the proposal."
        )
    if target is not None and (release.details["target"],) != target:
        raise ForeignAnswerError("The release predicts another number than the proposal.")
    pipeline, spec = release.pipeline, proposal.map
    used_map = None if pipeline.map is None else f"{pipeline.map.kind}:{pipeline.map.size}"
    bound = proposal.options.get("bound", pipeline.bound)
    has_rule = any(field.name == "missing" for field in fields(wanted))
    missing = proposal.missing if has_rule else pipeline.missing
    if proposal.pipeline not in {None, pipeline.digest()} or (
        proposal.pipeline is None
        and (used_map, pipeline.missing, pipeline.bound) != (spec, missing, bound)
    ):
        raise ForeignAnswerError("The release uses another pipeline than the proposal.")
    terms = proposal.terms
    guarantee = max(release.guarantees, key=lambda stated: stated.epsilon or 0.0)
    least = _LEAST_USE * terms.epsilon
    if not least <= (guarantee.epsilon or 0.0) <= terms.epsilon or guarantee.delta > terms.delta:
        raise ForeignAnswerError("The release has another epsilon or delta than the proposal.")
