"""The command that shows what a file holds, of every kind that suffice writes: inspect."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import building
from suffice.cli.auditing import (
    CHECKPOINT_HEAD,
    EXPORT_HEAD,
    checkpoint_lines,
    export_lines,
    file_head,
)
from suffice.cli.building import refuse_unused
from suffice.cli.help import HelpfulCommand
from suffice.cli.ledgers import balance_json, balance_table
from suffice.cli.output import say, show_json, show_pairs, show_table
from suffice.cli.protocol import describe_message
from suffice.errors import CorruptFileError, SufficeError, UnsupportedFileError
from suffice.plain_text import listed, name, phrase, quoted
from suffice.strict_json import plain

__all__ = ["register"]

Pair = tuple[str, str]

_SHOWN_COLUMNS = 6  # shown of many
_GUARANTEES = 100  # shown of those in one file; --json has all of them
_COEFFICIENTS = 50  # shown of many
_NO_CLIP = 1e30  # a bound that no row of numbers reaches
_MOST_JSON_BYTES = 2**20
_MOST_KEY_BYTES = 2**16


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=HelpfulCommand)(inspect)


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            help="A release, model, survey, answer, proposal, policy, contribution (*.part),"
            " ledger, checkpoint, export of a service, or key."
        ),
    ],
    explain: Annotated[
        bool, typer.Option("--explain", help="Also show how sure a reader of a release may become.")
    ] = False,
    coefficients: Annotated[
        bool,
        typer.Option("--coefficients", help="Also show the coefficients of a linear model."),
    ] = False,
    json: building.Json = False,
) -> None:
    """Show what a file holds, what it protects, and how strongly."""
    file = _describe(path)
    if explain and file.release is None:
        refuse_unused("with this file, which is no release", {"--explain": explain})
    odds = explanations(file.release) if explain else []
    lines = _model_coefficients(file.release) if coefficients else []
    if json:
        more = {"odds": [odd.to_json() for odd in odds]} if explain else {}
        if coefficients:
            more["coefficients"] = [line.to_json() for line in lines]
        show_json(file.content() | more)
        return
    file.show()
    if coefficients:
        _show_coefficients(lines, clipped=file.release.pipeline.bound < _NO_CLIP)
    for odd in odds:
        if odd.rows:
            show_table(odd.title, ("belief before", "after, at most"), odd.rows)
        say(*([] if odd.rows else [f"{odd.title}:"]), *odd.notes)


def _model_coefficients(release: Any) -> list[Any]:
    """Return the coefficients of a linear model, the largest first."""
    if release is None or release.kind != "model":
        refuse_unused("with this file, which is no linear model", {"--coefficients": True})
    from suffice.learner.features import model_coefficients

    return list(model_coefficients(release))


def _show_coefficients(lines: Sequence[Any], *, clipped: bool) -> None:
    """Print the largest coefficients, with their intervals if the file states their noise."""
    several = len({line.class_name for line in lines}) > 1
    stated = any(line.low is not None for line in lines)
    heads = ["feature", *(["class"] if several else []), "coefficient"]
    cells = []
    for line in lines[:_COEFFICIENTS]:
        words = [name(line.feature), *([name(line.class_name)] if several else [])]
        interval = f"{line.low:.4g} to {line.high:.4g}" if line.low is not None else "-"
        cells.append((*words, f"{line.value:.4g}", *([interval] if stated else [])))
    show_table(
        "Coefficients in the units of the columns, by size times the scale of the feature",
        [*heads, *(["95 % interval (noise of the release)"] if stated else [])],
        cells,
    )
    if clipped:
        say("They give the scores of rows that are not clipped. Longer rows are shortened first.")
    if len(lines) > _COEFFICIENTS:
        say(f"{len(lines) - _COEFFICIENTS:,} more are in the file. Read all with --json.")
    if not stated:
        say("Intervals are absent: the file does not state how noise moved the coefficients.")


def explanations(release: Any) -> list[Any]:
    """Return what each guarantee means for a belief; guarantees of the same numbers once."""
    from suffice.privacy.words import explain

    odds = [explain(guarantee) for guarantee in release.guarantees[:_GUARANTEES]]
    return [odd for i, odd in enumerate(odds) if odd not in odds[:i]]


@dataclass(frozen=True)
class _File:
    """A file that was read: what it holds, for people and for programs.

    ``release`` is there if the file holds one.
    """

    show: Callable[[], None]
    content: Callable[[], Any]
    release: Any = None


def _describe(path: Path) -> _File:
    """Return the description of a file, told by how its contents begin."""
    from suffice.release.file import PART_MAGIC, read_bounded

    head = file_head(path)
    readers: dict[bytes, Callable[[], _File]] = {
        b"SQLite format 3\0": lambda: _ledger(path),
        PART_MAGIC: lambda: _contribution(path),
        b"-----BEGIN ": lambda: _key(read_bounded(path, _MOST_KEY_BYTES)),
        CHECKPOINT_HEAD: lambda: _checkpoint(path),
        EXPORT_HEAD: lambda: _export(path),
    }
    for start, reader in readers.items():
        if head.startswith(start):
            return reader()
    if head.lstrip()[:1] in {b"{", b"["}:
        return _json_file(path, read_bounded(path, _MOST_JSON_BYTES))
    return _release(path)


def _pairs(lines: Callable[[], Sequence[Pair]], content: Callable[[], Any]) -> _File:
    return _File(lambda: show_pairs(lines()), content)


def _release(path: Path) -> _File:
    from suffice.release.codec import load, manifest_of

    release = load(path)

    def lines() -> list[Pair]:
        import numpy as np

        with np.errstate(all="ignore"):  # numbers as large as a stranger likes
            return _release_lines(release)

    def content() -> Any:
        sentences = [str(guarantee) for guarantee in release.guarantees]
        signer = None if release.signature is None else release.signature.key.hex()
        return {**manifest_of(release), "sentences": sentences, "signed_by": signer}

    return replace(_pairs(lines, content), release=release)


def _release_lines(release: Any) -> list[Pair]:
    from suffice.release.kinds import kind_named

    kind = kind_named(release.kind)
    lines = [("holds", kind.title), *_part_lines(release)]
    lines.append(("classes", listed(release.classes)))
    lines += kind.words(release)
    names = release.pipeline.outputs
    first = ", ".join(map(name, names[:_SHOWN_COLUMNS])) + (
        ", ..." if len(names) > _SHOWN_COLUMNS else ""
    )
    lines.append(("coordinates", f"{len(names)}: {first}"))
    temporal = [column for column in release.pipeline.columns if column.unit]
    if temporal:
        dates = listed(temporal, each=lambda column: f"{name(column.name)} in {column.unit}")
        lines.append(("dates", dates))
    lines.append(("scaling from", str(release.pipeline.origin)))
    if release.noise.form != "none":
        lines.append(("noise", kind.noise_words(release)))
    if release.pipeline.norm_bound < _NO_CLIP:
        lines.append(("clipped", f"rows have 2-norm at most {release.pipeline.norm_bound:.4g}"))
    lines.append(("written by", name(release.library)))
    lines.append(("signed", _signer(release)))
    return lines


def _signer(release: Any) -> str:
    if release.signature is None:
        return "no"
    from suffice.release.signing import fingerprint

    key = fingerprint(release.signature)
    return f"by key {key}; check whose it is with suffice verify"


def _part_lines(release: Any) -> list[Pair]:
    """Return the guarantees and the rows, owner by owner."""
    lines: list[Pair] = []
    for number, part in enumerate(release.parts, 1):
        owner = f"owner {number}: " if len(release.parts) > 1 else ""
        lines += [(f"{owner}per {g.unit}", str(g)) for g in part.guarantees[:_GUARANTEES]]
        where = f", to be found at {phrase(part.rows.found_at)}" if part.rows.found_at else ""
        labelled = part.rows.labelled
        among = "" if labelled is None else f" of {labelled.rows:,}, those that have a label"
        rows = f"{part.rows.count:,}{among} ({part.rows.hash[:23]}...){where}"
        lines.append((f"{owner}rows", rows))
        if len(lines) > _GUARANTEES:
            break
    printed = sum(heading.split(": ")[-1] != "rows" for heading, _ in lines)
    missing = len(release.guarantees) - printed
    warning = f"{missing:,} more guarantees are in the file. Read all of them with --json."
    return [*lines, ("warning", warning)] if missing else lines


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
    return _pairs(lambda: lines, lambda: {"contribution": content})


def _key(data: bytes) -> _File:
    """Return the description of a key; of a private one, nothing but its public half is shown."""
    from suffice.release.signing import key_fingerprint

    fingerprint, is_private = key_fingerprint(data)
    title = "a public key, which verifies signatures"
    if is_private:
        title = "a private key, which signs releases. Keep it secret."
    lines = [("holds", title), ("fingerprint", fingerprint)]
    return _pairs(lambda: lines, lambda: {"key": "private" if is_private else "public",
                                          "fingerprint": fingerprint})  # fmt: skip


def _checkpoint(path: Path) -> _File:
    from suffice.owner.ledger.log import Checkpoint

    checkpoint = Checkpoint.load(path)
    fields = ("ledger", "entries", "head", "time")
    content = {field: getattr(checkpoint, field) for field in fields}
    return _pairs(
        lambda: checkpoint_lines(checkpoint),
        lambda: {"checkpoint": {**content, "key": checkpoint.key_id}},
    )


def _export(source: Path | bytes) -> _File:
    from suffice.protocol.export import Export

    export = Export.load(source)
    signer = export.signature.key.hex()
    return _pairs(
        lambda: list(export_lines(export)), lambda: {**plain(export.content), "signed_by": signer}
    )


def _json_file(path: Path, data: bytes) -> _File:
    """Return the description of a message, a survey, an answer, a policy or a memory."""
    from suffice.strict_json import parse

    try:
        content = parse(data)
    except SufficeError:
        return _memory(path)
    if not isinstance(content, dict):
        return _memory(path)
    if "message" in content:
        from suffice.protocol.messages import Message

        message = Message.load(data)
        return _pairs(lambda: list(describe_message(message)), message.to_json)
    reader = _JSON_READERS.get(str(content.get("suffice")))
    if reader is not None:
        return reader(data, content)
    if "largest_epsilon" in content:
        from suffice.owner.policy import Policy, policy_lines

        title = ("holds", "an owner's policy: what `suffice grant` may grant")
        lines = [title, *policy_lines(Policy.load(path))]
        return _pairs(lambda: lines, lambda: {"policy": dict(content)})
    if {"version", "kind", "value"} <= content.keys():
        return _memory(path)
    raise UnsupportedFileError(f"{path} is JSON, but not of a kind that suffice writes.")


def _survey(data: bytes, content: Mapping[str, Any]) -> _File:
    from suffice.owner.survey import load_survey

    del content
    survey = load_survey(data)

    def lines() -> Iterator[Pair]:
        yield "holds", "a survey"
        yield "title", phrase(survey.content["title"])
        yield "survey", survey.id
        for question in survey.content["questions"]:
            yield f"question {name(question['name'])}", phrase(question["text"])
            yield "possible answers", _answers(question)
            yield "protection", question["guarantee"]
        yield "all answers", survey.content["guarantee"]
        yield "to predict", name(survey.content["label"])

    return _pairs(lambda: list(lines()), lambda: dict(survey.content))


def _answers(question: Mapping[str, Any]) -> str:
    if "states" in question:
        return listed(question["states"])
    low, high = question["range"]
    return f"a number from {low:g} to {high:g}"


def _answer(data: bytes, content: Mapping[str, Any]) -> _File:
    """Return the description of an answer; it was changed at random before it was written."""
    del data
    answers = content.get("answers")
    if not isinstance(answers, dict) or not isinstance(content.get("survey"), str):
        raise CorruptFileError("This is not a valid answer to a survey.")
    lines = [
        ("holds", "a participant's answers, changed at random; true ones are not in the file"),
        ("to survey", phrase(content["survey"])),
        *((f"answer to {name(key)}", quoted(str(value), 60)) for key, value in answers.items()),
    ]
    return _pairs(lambda: lines, lambda: dict(content))


_JSON_READERS: Mapping[str, Callable[[bytes, Mapping[str, Any]], _File]] = {
    "survey": _survey,
    "answer": _answer,
    "export": lambda data, _: _export(data),
}


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
    return _pairs(lambda: lines, lambda: {"memory": {"costs": [list(cost) for cost in costs]}})
