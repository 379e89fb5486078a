"""Commands of the two-agent protocol: propose (the learner), grant (the owner)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand

from suffice.cli.building import (
    OutputFile,
    Reading,
    check_outputs,
    make_command,
    refuse_unused,
    selected_fields,
)
from suffice.cli.output import Pair, progress, say, show_json, show_pairs
from suffice.cli.releases import TABLE_HELP, save_charged
from suffice.errors import ParameterError
from suffice.options import (
    FILE,
    NEW_FILE,
    REQUIRED,
    budget_option,
    data_option,
    ledger_file,
    names,
    options_of,
    output_option,
    preprocessing_option,
)
from suffice.plain_text import listed, name, phrase

_NAMES_PER_LINE = 50  # a printed line has at most 4000 characters
_REASONS = 8  # of many
_TITLES = {
    "proposal": "a learner's proposal",
    "granted": "an owner's answer: the proposal is granted",
    "countered": "an owner's answer: a counter-proposal; nothing was released or charged",
    "refused": "an owner's answer: the proposal is refused; nothing was released or charged",
}


def show_message(message: Any, more: Mapping[str, Sequence[str]], *, json: bool) -> None:
    """Print a proposal or an answer; ``more`` comes first."""
    if json:
        show_json({**more, **message.to_json()})
        return
    show_pairs([(key, "; ".join(lines)) for key, lines in more.items()])
    show_pairs(describe_message(message))


def describe_message(message: Any) -> Iterator[Pair]:
    """Yield what a proposal or an answer says, line by line."""
    content = message.to_json()
    yield "holds", _TITLES[message.name]
    if message.name == "proposal":
        yield "proposal", message.digest
        yield "asks for", phrase(message.kind)
        yield "terms", _terms(content["terms"])
        rows = "private records, of which the data sheet tells"
        if message.rows is not None:
            rows = f"{message.rows.count:,} ({_shortened(message.rows.hash)})"
        yield "rows", rows
        for option, value in content["options"].items():
            yield phrase(option), listed(value) if isinstance(value, list) else f"{value:g}"
        heading = f"{len(message.features):,} columns"
        for start in range(0, len(message.features), _NAMES_PER_LINE):
            names = message.features[start : start + _NAMES_PER_LINE]
            yield heading, ", ".join(map(name, names))
            heading = ""
        if "target" not in content["options"]:
            yield "classes", listed(message.classes)
        yield "missing values", phrase(message.missing)
        if message.map is not None:
            yield "feature map", phrase(message.map)
        if message.pipeline is not None:
            yield "scaled as", f"an earlier release (pipeline {_shortened(message.pipeline)})"
        if message.purpose:
            yield "purpose", phrase(message.purpose)
    else:
        yield "answer", message.digest
        yield "to proposal", _shortened(content["proposal"])
    if "release" in content:
        yield "release", _shortened(content["release"])
    if message.name == "countered":
        yield "would grant", _terms(content["terms"])
    reasons = content.get("reasons", ())
    if reasons:
        more = len(reasons) - _REASONS
        lines = [phrase(str(reason)) for reason in reasons[:_REASONS]]
        yield "reasons", "; ".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def _terms(terms: Mapping[str, Any]) -> str:
    mechanism = phrase(str(terms["mechanism"]))
    return f"epsilon {terms['epsilon']:g}, delta {terms['delta']:g}, mechanism {mechanism}"


def _shortened(digest: str) -> str:
    return f"{digest[:23]}..."


@dataclass(frozen=True, kw_only=True)
class _Proposed(OutputFile):
    """What a proposal needs beside the fields of the release that it asks for."""

    rows: Path = data_option(
        REQUIRED,
        "The public rows, which learner and owner both hold. Where records are private: the owner's"
        " data sheet, columns.json.",
        path=Path,
        argument=True,
    )
    kind: str = data_option(
        "mean-operator",
        "Kind of release: mean-operator, proportions or bags of public rows; moments, rados or"
        " responses of private records.",
    )
    bag: list[str] | None = data_option(
        None,
        "With --kind proportions: public column that forms the bags (repeatable).",
        parse=names,
        many=True,
    )
    bound: float | None = data_option(
        None, "With --kind moments or rados: length at which longer rows are shortened."
    )
    target: str | None = data_option(
        None, "With --kind moments: column of a number to predict, in place of classes."
    )
    count: int | None = data_option(None, "With --kind rados: number of sums, for example 256.")
    features: list[str] | None = data_option(
        None,
        "Feature columns, with commas (repeatable). Default: all columns.",
        parse=names,
        many=True,
    )
    purpose: str = output_option("", "Purpose of the request, in words, for the owner.")
    to: str | None = data_option(
        None,
        "Address of the owner's service. The file to write is then the release.",
    )
    dataset: str | None = data_option(None, "With --to: name of the owner's data set.")
    token: Path | None = data_option(
        None,
        "With --to: file that holds your token. Default: the environment's SUFFICE_TOKEN.",
        **FILE,
    )
    key: Path | None = data_option(
        None, "With --to: the owner's public key, which checks the release.", **FILE
    )

    def options(self) -> dict[str, Any]:
        """Return the further options of the kind that were given."""
        given = {"bags": self.bag, "bound": self.bound, "target": self.target, "count": self.count}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def proposal_path(self) -> Path:
        """The proposal to write."""
        return self.output if self.to is None else self.output.with_suffix(".proposal.json")

    @property
    def answer_path(self) -> Path:
        """The answer to write, if it comes from a service."""
        return self.output.with_suffix(".answer.json")

    def check_service(self) -> None:
        """Raise unless the options of a service go together, and its files can be written."""
        if self.to is None:
            service = {"--dataset": self.dataset, "--token": self.token, "--key": self.key}
            refuse_unused("without --to", service)
            return
        if self.dataset is None:
            raise ParameterError("--to needs --dataset, the name of the owner's data set.")
        outputs = (self.output, self.proposal_path, self.answer_path)
        check_outputs(*outputs, reads=(self.rows, self.token, self.key), force=self.force)


def propose(proposal: _Proposed, reading: Reading, operator: dict[str, Any]) -> None:
    """Ask an owner for a release of labels or records.

    The proposal names the rows, the columns and the epsilon. The owner answers it with `suffice
    grant`. With --to, it is sent to the owner's service, and the exit codes are those of `suffice
    grant`.
    """
    from suffice.owner.mechanism import mechanism_of
    from suffice.protocol import grant

    proposal.check_service()
    is_public = mechanism_of(proposal.kind).has_public_rows
    with progress("reading"):
        message = grant.propose(
            reading.open(proposal.rows) if is_public else proposal.rows,
            kind=proposal.kind,
            features=proposal.features,
            purpose=proposal.purpose,
            **operator,
            **proposal.options(),
        )
    message.save(proposal.proposal_path, overwrite=proposal.force)
    if proposal.to is not None:
        from suffice.protocol.remote import Remote, read_token

        remote = Remote(proposal.to, read_token(proposal.token), proposal.key)
        reply, release = remote.propose(
            message, str(proposal.dataset), tell=lambda line: say(f"suffice: {line}", error=True)
        )
        _write_answer(reply, release, proposal, [proposal.proposal_path])
    show_message(message, {"written": [str(proposal.output)]}, json=proposal.json)


def propose_command() -> TyperCommand:
    """Return ``suffice propose``."""
    from suffice.owner.mean_operator import MeanOperator

    requested = ("epsilon", "delta", "mechanism", "classes", "map", "missing", "pipeline")
    declared = options_of(MeanOperator)
    options = {name: replace(declared[name], required=name == "epsilon") for name in requested}
    options["mechanism"] = replace(
        options["mechanism"],
        help="Noise type, for example laplace, gaussian or knorm. auto leaves the choice open.",
        choices=None,
    )
    return make_command(propose, operator=selected_fields(MeanOperator, options))


def _write_answer(
    reply: Any, release: Any, options: "_Proposed | _Grant", others: Sequence[Path] = ()
) -> NoReturn:
    """Write an answer and its release, print it, and end as the answer says."""
    files = [*others, options.answer_path]
    if release is not None:  # saved first: an answer must not name a file that does not exist
        save_charged(release, options.output, force=options.force)
        files.insert(0, options.output)
    reply.save(options.answer_path, overwrite=options.force)
    show_message(reply, {"written": list(map(str, files))}, json=options.json)
    raise typer.Exit(reply.exit_code)


@dataclass(frozen=True, kw_only=True)
class _Grant(OutputFile):
    """What an owner answers a proposal with."""

    proposal: Path = data_option(REQUIRED, "The learner's proposal.", argument=True, path=Path)
    table: str = data_option(REQUIRED, TABLE_HELP, argument=True, path=Path)
    label: str = data_option(
        REQUIRED, "Column that holds the private labels, for example diagnosis."
    )
    policy: Path = budget_option(
        REQUIRED, "What you grant, as JSON; docs/protocol.md lists its fields.", **FILE
    )
    ledger: str = budget_option(
        REQUIRED,
        "Charge the release to this ledger: a file, or postgresql://HOST/DATABASE.",
        path=ledger_file,
    )
    dataset: str = budget_option(REQUIRED, "Name of the data set in the ledger.")
    pipeline_from: Path | None = preprocessing_option(
        None, "Earlier release whose scaling the proposal names.", **FILE
    )
    sheet: Path | None = data_option(
        None,
        "Data sheet of the table, columns.json. Kinds of private records need one.",
        **FILE,
    )
    answer: Path | None = output_option(
        None, "The answer to write. Default: the output's name, with .answer.json.", **NEW_FILE
    )
    sign: Path | None = output_option(None, "Sign the release with this private key.", **FILE)

    @property
    def answer_path(self) -> Path:
        """The answer to write."""
        return self.answer or self.output.with_suffix(".answer.json")


def grant(grant: _Grant, reading: Reading) -> None:
    """Answer a learner's proposal, as your policy allows.

    The exit code is 0 if the release is granted, 8 if the answer is a counter-proposal, 9 if it is
    a refusal. Only a grant is charged.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.policy import Policy
    from suffice.protocol import grant as protocol
    from suffice.protocol.messages import Proposal
    from suffice.releases.codec import load
    from suffice.tables.data_sheet import DataSheet

    earlier = grant.pipeline_from
    if grant.answer is None:  # its name was not typed, so nobody checked it
        reads = (grant.proposal, grant.table, grant.policy, ledger_file(grant.ledger), earlier)
        outputs = (grant.output, grant.answer_path)
        check_outputs(*outputs, reads=(*reads, grant.sheet, grant.sign), force=grant.force)
    proposal, policy = Proposal.load(grant.proposal), Policy.load(grant.policy)
    with progress("reading") as count_rows:
        reply, release = protocol.grant(
            proposal,
            reading.open(grant.table),
            policy=policy,
            ledger=Ledger(grant.ledger),
            dataset=grant.dataset,
            label=grant.label,
            pipeline=None if earlier is None else load(earlier).pipeline,
            sheet=None if grant.sheet is None else DataSheet.load(grant.sheet),
            key=grant.sign,
            progress=count_rows,
        )
    _write_answer(reply, release, grant)
