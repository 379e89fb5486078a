"""The command that shows what a file holds, of every kind that suffice writes: inspect."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import building
from suffice.cli.auditing import ARCHIVE_HEAD, CHECKPOINT_HEAD, EXPORT_HEAD, file_head
from suffice.cli.building import check_outputs, refuse_unused
from suffice.cli.ledgers import archive_json, balance_json, balance_table, checkpoint_json
from suffice.cli.output import Pair, say, show_json, show_pairs, show_table
from suffice.cli.protocol import describe_message
from suffice.errors import CorruptFileError, ParameterError, SufficeError, UnsupportedFileError
from suffice.plain_text import listed, name, phrase, quoted
from suffice.privacy.guarantee import explain as explain_guarantee
from suffice.privacy.guarantee import round_up
from suffice.strict_json import parse, plain

_SHOWN_COLUMNS = 6  # shown of many
_SHOWN_DATASETS = 20  # shown of many
_GUARANTEES = 100  # shown of those in one file; --json has all of them
_COEFFICIENTS = 50  # shown of many
_NO_CLIP = 1e30  # a bound that no row of numbers reaches
_MOST_JSON_BYTES = 2**20
_MOST_KEY_BYTES = 2**16


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            help="A release, model, survey, answer, proposal, policy, contribution (*.part),"
            " ledger, checkpoint, archive, export of a service, or key."
        ),
    ],
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Also show how sure a reader of a release may become, or the coefficients of a"
            " linear model.",
        ),
    ] = False,
    json: building.Json = False,
) -> None:
    """Show what a file holds, what it protects, and how strongly."""
    file = _describe(path)
    if explain and file.release is None:
        refuse_unused("with this file, which is no release", {"--explain": explain})
    odds: list[Any] = []  # what each guarantee means for a belief; the same numbers once
    for guarantee in file.release.guarantees[:_GUARANTEES] if explain else ():
        odd = explain_guarantee(guarantee)
        if odd not in odds:
            odds.append(odd)
    lines: list[Any] = []
    if explain and file.release.kind in {"model", "regression-model"}:
        from suffice.learner.base import model_coefficients

        lines = list(model_coefficients(file.release))  # the largest first
    if json:
        more = {"odds": [odd.to_json() for odd in odds]} if explain else {}
        if lines:
            more["coefficients"] = [line.to_json() for line in lines]
        show_json(file.content() | more)
        return
    file.show()
    if lines:
        _show_coefficients(lines, file.release)
    for odd in odds:
        if odd.rows:
            show_table(odd.title, ("belief before", "after, at most"), odd.rows)
        say(*([] if odd.rows else [f"{odd.title}:"]), *odd.notes)


def card(
    path: Annotated[Path, typer.Argument(help="A release or a model.")],
    curator: Annotated[str | None, typer.Option(help="Who publishes it.")] = None,
    purpose: Annotated[str | None, typer.Option(help="What it is for, in a sentence.")] = None,
    audience: Annotated[str | None, typer.Option(help="Who gets it. Default: everybody.")] = None,
    quality: Annotated[
        Path | None,
        typer.Option(help="What suffice score --json printed for rows of a learner's own."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="The card to write: .html, .md or .json. Default: print it."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output.")] = False,
) -> None:
    """Describe a release on one page, for those who decide about it.

    The page says what is published and for whom, what it guarantees and assumes, what it is good
    for, what a lawyer asks, and a paragraph for the impact assessment. It reads the release alone.
    """
    import suffice
    from suffice.releases.file import read_bounded

    check_outputs(output, reads=(path, quality), force=force)
    measured = None if quality is None else parse(read_bounded(quality, _MOST_JSON_BYTES))
    if measured is not None and not isinstance(measured, dict):
        raise ParameterError(f"{quality} is not what suffice score --json prints.")
    made = suffice.card(path, curator=curator, purpose=purpose, audience=audience, quality=measured)
    if output is None:
        say(*made.to_markdown().splitlines())
        return
    made.save(output, overwrite=force)
    say(f"{output}: a card for {path}.")


def _show_coefficients(lines: Sequence[Any], model: Any) -> None:
    """Print the largest coefficients, with their intervals if the file states their noise."""
    from suffice.learner.base import HIDDEN

    regression, clipped = "target" in model.details, model.pipeline.bound < _NO_CLIP
    counted = "noise and sampling" if regression else "noise of the release"
    several = len({line.class_name for line in lines}) > 1
    stated = any(line.low is not None for line in lines)
    heads = ["feature", *(["class"] if several else []), "coefficient"]
    cells = []
    for line in lines[:_COEFFICIENTS]:
        words = [name(line.feature), *([name(line.class_name)] if several else [])]
        interval = f"{line.low:.4g} to {line.high:.4g}" if line.low is not None else "-"
        if regression and line.low == line.high == 0:
            interval = "the category that others are compared with"
        cells.append((*words, f"{line.value:.4g}", *([interval] if stated else [])))
    show_table(
        "Coefficients in the units of the columns, by size times the scale of the feature",
        [*heads, *([f"95 % interval ({counted})"] if stated else [])],
        cells,
    )
    if regression:
        say("They are of plain least squares. Predictions use a ridge regression.")
        say("They hold for rows as the release shortens them, and the target cut to its range.")
    elif clipped:
        say(f"They give the scores of rows that are not clipped. {model.pipeline.clipping}")
    if len(lines) > _COEFFICIENTS:
        say(f"{len(lines) - _COEFFICIENTS:,} more are in the file. Read all with --json.")
    if not stated:
        absent = "Intervals are absent: the file does not state how noise moved the coefficients."
        say(HIDDEN if regression else absent)


@dataclass(frozen=True)
class _File:
    """A file that was read: what it holds, for people and for programs."""

    show: Callable[[], None]
    content: Callable[[], Any]
    release: Any = None  # if the file holds one


def _describe(path: Path) -> _File:
    """Return the description of a file, told by how its contents begin."""
    from suffice.releases.file import PART_MAGIC, read_bounded

    head = file_head(path)
    readers: dict[bytes, Callable[[Path], _File]] = {
        b"SQLite format 3\0": _ledger,
        PART_MAGIC: _contribution,
        b"-----BEGIN ": _key,
        CHECKPOINT_HEAD: _checkpoint,
        EXPORT_HEAD: _export,
        ARCHIVE_HEAD: _archive,
    }
    for start, reader in readers.items():
        if head.startswith(start):
            return reader(path)
    if head.lstrip()[:1] in {b"{", b"["}:
        return _json_file(path, read_bounded(path, _MOST_JSON_BYTES))
    return _release(path)


def _signer(key: str) -> str:
    return f"by key {key}; check whose it is with suffice verify"


def _release(path: Path) -> _File:
    from suffice.releases.codec import load
    from suffice.releases.release import manifest_of

    release = load(path)

    def show() -> None:
        import numpy as np

        with np.errstate(all="ignore"):  # numbers as large as a stranger likes
            lines = list(_release_lines(release))
        show_pairs(lines)

    def content() -> Any:
        sentences = [str(guarantee) for guarantee in release.guarantees]
        signer = None if release.signature is None else release.signature.key.hex()
        return {**manifest_of(release), "sentences": sentences, "signed_by": signer}

    return _File(show, content, release)


def _release_lines(release: Any) -> Iterator[Pair]:
    """Yield what a release holds: guarantees and rows owner by owner, then what all share."""
    from suffice.releases.kinds import kind_named
    from suffice.releases.signing import fingerprint

    kind = kind_named(release.kind)
    yield "holds", kind.title
    shown = printed = 0
    for number, part in enumerate(release.parts, 1):
        owner = f"owner {number}: " if len(release.parts) > 1 else ""
        stated = part.guarantees[:_GUARANTEES]
        for guarantee in stated:
            yield f"{owner}per {guarantee.unit}", str(guarantee)
        where = f", to be found at {phrase(part.rows.found_at)}" if part.rows.found_at else ""
        labelled = part.rows.labelled
        among = "" if labelled is None else f" of {labelled.rows:,}, those that have a label"
        yield (
            f"{owner}{part.counted}",
            f"{part.rows.count:,}{among} ({part.rows.hash[:23]}...){where}",
        )
        printed += len(stated)
        shown += len(stated) + 1
        if shown > _GUARANTEES:
            break
    if missing := len(release.guarantees) - printed:
        yield (
            "warning",
            f"{missing:,} more guarantees are in the file. Read all of them with --json.",
        )
    if release.classes:
        yield "classes", listed(release.classes)
    yield from kind.words(release)
    names = release.pipeline.outputs
    first = ", ".join(map(name, names[:_SHOWN_COLUMNS]))
    more = ", ..." if len(names) > _SHOWN_COLUMNS else ""
    yield "coordinates", f"{len(names)}: {first}{more}"
    temporal = [column for column in release.pipeline.columns if column.unit]
    if temporal:
        yield "dates", listed(temporal, each=lambda column: f"{name(column.name)} in {column.unit}")
    yield "scaling from", str(release.pipeline.origin)
    if release.noise.form != "none":
        yield "noise", kind.noise_words(release)
    if release.pipeline.norm_bound < _NO_CLIP:
        yield "clipped", release.pipeline.clipping
    yield "written by", name(release.library)
    signature = release.signature
    yield "signed", "no" if signature is None else _signer(fingerprint(signature))


def _ledger(path: Path) -> _File:
    from suffice.owner.ledger import Ledger

    ledger = Ledger(path)
    balances, charges = ledger.balances(), len(ledger.history())

    def show() -> None:
        show_pairs([("holds", "a ledger: budgets, and the charges of all releases")])
        balance_table(str(path), balances)
        show_pairs([("charges", f"{charges:,}; suffice ledger history {path} lists them")])

    return _File(
        show,
        lambda: {"ledger": str(path), "budgets": balance_json(balances), "charges": charges},
    )


def _contribution(path: Path) -> _File:
    from suffice.owner.parties.contribution import PartyContribution

    part = PartyContribution.load(path)
    statistics = {
        "operator": "the mean operator of the party's votes on the public rows",
        "votes": "the party's votes on the public rows",
        "parameters": "the parameters of the party's classifier",
        "class-sums": "sums of the party's records by class",
    }
    shape = " x ".join(f"{size:,}" for size in part.array.shape)
    warning = "not private. Only the aggregator, whom the party trusts, may read it."
    lines = [
        ("holds", "a party's contribution, for the aggregator"),
        ("warning", warning),
        ("party", name(part.party)),
        ("statistic", f"{statistics[part.statistic]} ({shape} numbers, not shown)"),
        ("classes", listed(part.classes)),
        ("public rows", f"{part.rows[:23]}..."),
        ("pipeline", f"{part.pipeline[:23]}..."),
        ("numbers are", phrase(part.grid)),
    ]
    fields = ("party", "statistic", "rows", "pipeline", "grid")
    content = {field: getattr(part, field) for field in fields}
    content |= {"classes": list(part.classes), "shape": list(part.array.shape), "warning": warning}
    return _File(partial(show_pairs, lines), lambda: {"contribution": content})


def _key(path: Path) -> _File:
    """Return the description of a key; of a private one, nothing but its public half is shown."""
    from suffice.releases.file import read_bounded
    from suffice.releases.signing import key_fingerprint

    fingerprint, is_private = key_fingerprint(read_bounded(path, _MOST_KEY_BYTES))
    title = "a public key, which verifies signatures"
    if is_private:
        title = "a private key, which signs releases. Keep it secret."
    lines = [("holds", title), ("fingerprint", fingerprint)]
    content = {"key": "private" if is_private else "public", "fingerprint": fingerprint}
    return _File(partial(show_pairs, lines), lambda: content)


def _checkpoint(path: Path) -> _File:
    from suffice.owner.ledger.log import Checkpoint

    checkpoint = Checkpoint.load(path)
    lines = [
        ("holds", "a signed checkpoint of a ledger, for somebody else to keep"),
        ("ledger", checkpoint.ledger),
        ("entries", f"{checkpoint.entries:,}"),
        ("hash of the last", checkpoint.head),
        ("signed at", f"{checkpoint.time} (UTC)"),
        ("signed", _signer(checkpoint.key_id)),
    ]
    content = {"checkpoint": checkpoint_json(checkpoint)}
    return _File(partial(show_pairs, lines), lambda: content)


def _archive(path: Path) -> _File:
    from suffice.owner.ledger.archive import Archive

    archive = Archive.load(path)
    lines = [
        ("holds", "old releases and proposals of a ledger, signed"),
        ("ledger", archive.manifest.ledger),
        ("releases", f"{archive.releases:,}, of charges up to {archive.manifest.charges:,}"),
        ("proposals", f"{archive.proposals:,}"),
        ("SHA-256", archive.digest),
        ("signed", _signer(archive.key_id)),
    ]
    content = {"archive": archive_json(archive)}
    return _File(partial(show_pairs, lines), lambda: content)


def _export(source: Path | bytes) -> _File:
    from suffice.protocol.export import Export

    export = Export.load(source)
    content = plain(export.content)
    lines = _export_lines(export, content)
    signer = {"signed_by": export.signature.key.hex()}
    return _File(partial(show_pairs, lines), lambda: {**content, **signer})


def _export_lines(export: Any, content: Any) -> Iterator[Pair]:
    """Yield what an export says, in short; --json has everything."""
    yield "holds", "a signed export of a service: requests, grants, charges, tokens and log"
    yield "organisation", phrase(content["organisation"])
    yield "made at", f"{name(content['time'])} (UTC)"
    yield "ledger", name(content["ledger"])
    if content["frozen"]:
        yield "warning", f"the ledger was frozen: {quoted(content['frozen'])}"
    if content["anchor"] == "none":
        yield "warning", "the ledger has no anchor: only checkpoints notice that it was put back"
    if export.is_complete:
        yield "log", f"{content['entries']:,} entries, one unbroken chain"
        yield "hash of the last", name(content["head"])
    else:
        shown = f"{len(content['log']):,} of {content['entries']:,} entries, without hashes"
        yield "log", f"{shown}, because the export is about some data sets only"
    for dataset in content["datasets"][:_SHOWN_DATASETS]:
        budgets = [
            f"epsilon {budget['left']:.4g} of {budget['epsilon']:g} left per {name(budget['unit'])}"
            f" at delta {round_up(budget['delta'])}"
            for budget in dataset["budgets"]
        ]
        states = Counter(proposal["state"] for proposal in dataset["proposals"])
        proposals = ", ".join(f"{number:,} {name(state)}" for state, number in states.items())
        charges = f"{len(dataset['charges']):,} charges"
        yield (
            f"data set {name(dataset['name'])}",
            "; ".join([*budgets, f"proposals: {proposals or 'none'}", charges]),
        )
    if len(content["datasets"]) > _SHOWN_DATASETS:
        yield "", f"{len(content['datasets']) - _SHOWN_DATASETS:,} more data sets; see --json"
    yield "tokens", f"{len(content['tokens']):,}"
    yield "signed", _signer(export.key_id)


def _json_file(path: Path, data: bytes) -> _File:
    """Return the description of a message, a survey, an answer, a policy or a memory."""
    try:
        content = parse(data)
    except SufficeError:
        return _memory(path)
    if not isinstance(content, dict):
        return _memory(path)
    if "message" in content:
        from suffice.protocol.messages import Message

        message = Message.load(data)
        return _File(partial(show_pairs, describe_message(message)), message.to_json)
    match content.get("suffice"):
        case "survey":
            return _survey(data)
        case "answer":
            return _answer(content)
        case "export":
            return _export(data)
    if "largest_epsilon" in content:
        from suffice.owner.policy import Policy, policy_lines

        title = ("holds", "an owner's policy: what `suffice grant` may grant")
        lines = [title, *policy_lines(Policy.load(path))]
        return _File(partial(show_pairs, lines), lambda: {"policy": dict(content)})
    if {"version", "kind", "value"} <= content.keys():
        return _memory(path)
    raise UnsupportedFileError(f"{path} is JSON, but not of a kind that suffice writes.")


def _survey(data: bytes) -> _File:
    from suffice.owner.survey import load_survey

    survey = load_survey(data)

    def lines() -> Iterator[Pair]:
        yield "holds", "a survey"
        yield "title", phrase(survey.content["title"])
        yield "survey", survey.id
        for question in survey.content["questions"]:
            yield f"question {name(question['name'])}", phrase(question["text"])
            if "states" in question:
                answers = listed(question["states"])
            else:
                low, high = question["range"]
                answers = f"a number from {low:g} to {high:g}"
            yield "possible answers", answers
            yield "protection", question["guarantee"]
        yield "all answers", survey.content["guarantee"]
        yield "to predict", name(survey.content["label"])

    return _File(lambda: show_pairs(lines()), lambda: dict(survey.content))


def _answer(content: Mapping[str, Any]) -> _File:
    """Return the description of an answer; it was changed at random before it was written."""
    answers = content.get("answers")
    if not isinstance(answers, dict) or not isinstance(content.get("survey"), str):
        raise CorruptFileError("This is not a valid answer to a survey.")
    lines = [
        ("holds", "a participant's answers, changed at random; true ones are not in the file"),
        ("to survey", phrase(content["survey"])),
        *((f"answer to {name(key)}", quoted(str(value), 60)) for key, value in answers.items()),
    ]
    return _File(partial(show_pairs, lines), lambda: dict(content))


def _memory(path: Path) -> _File:
    """Return the description of a participant's memory; no answer in it is shown."""
    from suffice.participant import Memory

    try:
        costs = Memory(path).costs()
    except ValueError:
        message = f"{path} begins like JSON, but suffice cannot read it."
        raise UnsupportedFileError(message) from None
    lines = [
        ("holds", "a participant's memory of answers. Keep it, and do not send it."),
        ("surveys", f"{len(costs):,} answered"),
        *(
            (f"survey {number}", f"epsilon {epsilon:.4g}, delta {delta:g}, for all its answers")
            for number, (epsilon, delta) in enumerate(costs, 1)
        ),
    ]
    content = {"memory": {"costs": [list(cost) for cost in costs]}}
    return _File(partial(show_pairs, lines), lambda: content)
