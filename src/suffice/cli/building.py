"""Commands made from declarations: fields become options, and help shows them by subject."""

import dataclasses
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from suffice.errors import ParameterError, StorageError, SufficeError
from suffice.options import (
    NEW_FILE,
    REQUIRED,
    Group,
    Option,
    data_option,
    options_of,
    output_option,
)


@dataclass(frozen=True)
class Example:
    """What an example does, in words, and its commands; a command may take several lines."""

    title: str
    commands: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the lines that help shows."""
        lines = [line for command in self.commands for line in command.split("\n")]
        return [f"Example: {self.title}", *(f"  {line}" for line in lines)]


_EXAMPLES = r"""
init: write down once what is private, and the budget of all releases
  suffice init biopsies.csv --private labels --label diagnosis --budget 2 \
      --classes 0,1 -o hospital
advise: ask which release of private diagnoses to make
  suffice advise biopsies.csv --label diagnosis --private labels --epsilon 1 \
      --delta 1e-6
plan mean-operator: predict how useful a release of private diagnoses would be
  suffice plan mean-operator biopsies.csv --label diagnosis --epsilon 1
ledger init: allow all releases of the diagnoses epsilon 2 together
  suffice ledger init clinic.ledger --dataset diagnosis --epsilon 2 \
      --delta 1e-5 --classes 0,1
keygen: make clinic.key, which signs, and clinic.pub, which verifies
  suffice keygen clinic
release advised: publish what the rule of advise picks for private diagnoses
  suffice release biopsies.csv --private labels --label diagnosis --epsilon 1 \
      --ledger clinic.ledger --dataset diagnosis -o advised.suffice
release mean-operator: publish a noisy summary of private diagnoses
  suffice release mean-operator biopsies.csv --label diagnosis --epsilon 1 \
      --ledger clinic.ledger --dataset diagnosis -o diagnosis.suffice
inspect: read what a release protects, and how strongly
  suffice inspect diagnosis.suffice
card: describe a release on one page, for an officer or an ethics board
  suffice card diagnosis.suffice --purpose "Teach students." -o card.html
ledger show: see how much of each budget is spent
  suffice ledger show clinic.ledger
ledger history: list every charge
  suffice ledger history clinic.ledger
ledger what-if: find the largest epsilon that the budget still allows
  suffice ledger what-if clinic.ledger --dataset diagnosis
ledger log: list everything that was asked of a ledger
  suffice ledger log clinic.ledger
ledger checkpoint: sign the end of the log, for the data protection officer
  suffice ledger checkpoint clinic.ledger --sign clinic.key -o today.checkpoint
ledger verify: check that nothing is missing since the officer got the checkpoint
  suffice ledger verify clinic.ledger --checkpoint today.checkpoint \
      --key clinic.pub
ledger backup: copy a ledger while a service uses it
  suffice ledger backup clinic.ledger -o monday.ledger
ledger archive: move the bytes of releases of before a day out of the ledger
  suffice ledger archive clinic.ledger 2030-01-01 \
      --sign clinic.key -o before-2030.archive
ledger recover: use a ledger again that was restored from a copy
  suffice ledger recover clinic.ledger --checkpoint today.checkpoint \
      diagnosis=diagnosis.suffice --state complete
fit: train a classifier from a release and its public rows
  suffice fit diagnosis.suffice --rows unlabelled.csv -o model.suffice
predict: predict the diagnoses of a new ward
  suffice predict model.suffice new_ward.csv -o predicted.csv
score: measure the accuracy on rows whose labels you may see
  suffice score model.suffice test.csv --label diagnosis
serve: prepare a folder for a service, and get the first token
  suffice serve clinic --task init
token new: let a learner send proposals for 30 days
  suffice token new clinic learner Ada --days 30
token list: see who has a token
  suffice token list clinic
token revoke: revoke all tokens of a holder
  suffice token revoke clinic Ada
propose: ask the owner of these rows for a release at epsilon 0.5
  suffice propose unlabelled.csv --epsilon 0.5 --classes 0,1 -o proposal.json
grant: answer a proposal, and sign what is granted
  echo '{"largest_epsilon": 1}' > policy.json
  suffice grant proposal.json biopsies.csv --label diagnosis \
      --policy policy.json --ledger clinic.ledger --dataset diagnosis \
      --sign clinic.key -o granted.suffice
verify: check who signed a release, and that it is the one that was granted
  suffice verify granted.suffice --key clinic.pub \
      proposal.json granted.answer.json
plan responses: see how strongly randomised answers would be protected
  suffice plan responses answers.csv --label relapse --flip 0.25 \
      --features smokes --categories smokes=never,sometimes,daily
release responses: publish answers of which one in four is changed at random
  suffice release responses answers.csv --label relapse --flip 0.25 \
      --features smokes --categories smokes=never,sometimes,daily \
      --no-ledger -o answers.suffice
frequencies: estimate how many people smoke, from randomised answers
  suffice frequencies answers.suffice
plan rados: predict how useful subset sums of private records would be
  suffice plan rados records.csv --label diagnosis --epsilon 1 --delta 1e-6 \
      --standardize auxiliary.csv
release rados: publish noisy sums that protect each record
  suffice release rados records.csv --label diagnosis --unit record \
      --epsilon 1 --delta 1e-6 --standardize auxiliary.csv --no-ledger \
      -o sums.suffice
plan moments: predict how useful second moments of private records would be
  suffice plan moments records.csv --label diagnosis --epsilon 1 --delta 1e-6 \
      --standardize auxiliary.csv
release moments: publish noisy second moments that protect each record
  suffice release moments records.csv --label diagnosis --unit record \
      --epsilon 1 --delta 1e-6 --standardize auxiliary.csv --no-ledger \
      -o moments.suffice
describe: state means, variances and correlations of released moments
  suffice describe moments.suffice
sample: draw 2000 synthetic rows from moments of ranks
  suffice release moments records.csv --label diagnosis --epsilon 1 \
      --delta 1e-6 --standardize auxiliary.csv --map ranks --no-ledger \
      -o ranks.suffice
  suffice sample ranks.suffice -n 2000 -o synthetic.parquet
plan proportions: predict the error of each ward's proportions
  suffice plan proportions wards.csv --bag ward --epsilon 0.1
release proportions: publish the proportion of malignant samples in each ward
  suffice release proportions wards.csv --label diagnosis --bag ward \
      --epsilon 0.1 --no-ledger -o wards.suffice
ratio: estimate the proportion of malignant samples in a new ward
  suffice ratio wards.suffice --rows wards.csv --bag ward new_ward.csv
plan bags: choose how often rows go to the bag of their own class
  suffice plan bags --sizes 1500,1500 --epsilon 1
release bags: deal rows to two random bags, and write the public rows with their bag
  suffice release bags biopsies.csv --label diagnosis --epsilon 1 \
      --no-ledger --write-rows bagged.csv -o bags.suffice
plan parties: predict the accuracy that 1000 practices reach together
  suffice plan parties --parties 1000 --aux auxiliary.csv --samples 6 \
      --epsilon 1 --delta 1e-6
release parties: publish what 1000 practices vote on public rows
  suffice release parties practices.csv --label diagnosis --party practice \
      --enrolled 1000 --aux auxiliary.csv --epsilon 1 --delta 1e-6 --no-ledger \
      -o practices.suffice
contribute: write the contribution of one party, for the aggregator only
  suffice contribute biopsies.csv --label diagnosis --aux auxiliary.csv \
      --party north -o north.part
aggregate: publish the noisy sum of the contributions of 20 enrolled parties
  suffice aggregate north.part --aux auxiliary.csv --enrolled 20 --epsilon 1 \
      --delta 1e-6 --no-ledger -o network.suffice
round new: agree with parties on what they send, and until when
  suffice round new --title Spring --aux auxiliary.csv \
      --enrolled north,south --epsilon 1 --delta 1e-6 \
      --closes 2035-12-31T12:00Z --address https://clinic.example \
      --sign clinic/clinic.key -o spring.round
round open: take contributions, and write one token for each party
  suffice ledger init clinic/clinic.ledger --dataset parties --epsilon 2 \
      --delta 1e-5 --unit party
  suffice round open clinic spring.round -o tokens.csv
round token: print another token for a party that lost its own
  suffice round token clinic spring.round north
round status: see who is missing
  suffice round status clinic spring.round
round close: release the noisy sum of what was sent
  suffice round close clinic spring.round --aux auxiliary.csv \
      --dataset parties -o spring.suffice
round withdraw: take back what your party sent
  suffice round withdraw spring.round --key clinic.pub --token token.txt
simulate parties: compare methods for 50 parties, on a public table
  suffice simulate parties test.csv --label diagnosis --parties 50 --trials 1 \
      --epsilons 1 --methods operator,average -o simulation.html
survey new: write a survey whose answers are changed at random, one in four
  suffice survey new --categories relapse=no,yes -o survey.json --flip 0.25 \
      --text "relapse=Did you relapse?" --about title="After the clinic" \
      --about organiser="Clinic of Example" --about delete-by=2099-03-31 \
      --about contact=office@clinic.example --about purpose="Count relapses" \
      --about notice="Answers are changed on your side. We cannot link them."
survey respond: answer a survey; leave --truth out to be asked instead
  suffice survey respond survey.json --truth relapse=no -o mine.json
survey page: write a page on which a person answers without a network
  suffice survey page survey.json -o offline.html
survey open: invite 500 people through a service, each with a link of their own
  suffice survey open clinic survey.json --address https://clinic.example \
      --invitations 500 -o links.csv
survey status: see how many people have answered
  suffice survey status clinic
survey close: end a survey of a service, and release its answers
  suffice survey close clinic survey.json -o people.suffice
survey collect: gather answer files into one release
  suffice survey collect survey.json mine.json -o survey.suffice
audit: attack the mechanisms that change labels at random
  suffice audit label-responses
reproduce: recompute a result of a paper that needs no data
  suffice reproduce factorisation -o factorisation.html
demo: play five releases, and write their tables to a folder
  suffice demo clinic
"""
# A command that ends in \ goes on in the next line.
EXAMPLES: Mapping[str, Example] = {
    path: Example(title, tuple(re.split(r"(?<!\\)\n", dedent(commands).strip())))
    for path, title, commands in re.findall(r"(?m)^(\S.*?): (.*)\n((?:  .*\n)+)", _EXAMPLES)
}

# The help of a group ends with the example of one of its commands.
_OF_GROUPS = {
    "": "demo",
    "plan": "plan mean-operator",
    "release": "release advised",
    "ledger": "ledger init",
    "simulate": "simulate parties",
    "survey": "survey new",
}


def example_of(path: str) -> Example | None:
    """Return the example of a command, such as ``release mean-operator``, or of a group.

    A mechanism that was registered from outside has none.
    """
    return EXAMPLES.get(_OF_GROUPS.get(path, path))


Maker = Callable[[], TyperCommand]
Context = Any  # typer's own, of whatever release of click it carries
_ARGUMENTS, _OPTIONS, _COMMANDS = "Arguments", "Options", "Commands"

PAPERS = "From the papers"  # the heading of what serves the papers' own methods only
_ALL = "--help-all"
_MOST_OPTIONS = 12  # of a command whose help is one page
# What a command with many options shows first, besides what it requires.
_FIRST_OPTIONS = frozenset(
    (
        "private", "label", "target", "classes", "epsilon", "delta", "ledger", "no-ledger",
        "dataset", "output", "kind", "purpose", "to", "key", "rows", "loss", "bag", "party",
        "enrolled", "aux", "flip", "standardize", "range", "text", "about",
        "parties", "sizes", "help",
    )
)  # fmt: skip


class _TwoPages:
    """The help of a command or group: a first page, all of it on another, an example at the end."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Note whether all of the help is wanted; the rest is as usual."""
        ctx.meta[_ALL] = _ALL in args
        return super().parse_args(ctx, args)  # type: ignore[misc,no-any-return]  # of a command

    def get_help_option_names(self, ctx: Context) -> list[str]:
        """Return both names of the option that shows help."""
        del ctx
        return ["--help", _ALL]

    def format_epilog(self, ctx: Context, formatter: Any) -> None:
        """Write the example."""
        example = example_of(ctx.command_path.partition(" ")[2])
        if example is not None:
            formatter.write_paragraph()
            formatter.write("".join(f"{line}\n" for line in example.lines()))


def _write_rest(ctx: Context, formatter: Any, left_out: int, what: str) -> None:
    """Write how many options or commands are on the other page only."""
    if left_out:
        formatter.write_paragraph()
        formatter.write(f"{left_out} more {what}: {ctx.command_path} {_ALL}\n")


class HelpfulCommand(_TwoPages, TyperCommand):
    """A command that shows its options under the headings of their groups, and an example."""

    slots: Sequence["Slot"]  # the options of a command that was made from declarations

    def format_options(self, ctx: Context, formatter: Any) -> None:
        """Write the arguments, then the options group by group."""
        parameters = self.get_params(ctx)
        shown = parameters if ctx.meta.get(_ALL) else first_page(parameters)
        for heading, listed in option_tables(shown).items():
            records = [parameter.get_help_record(ctx) for parameter in listed]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])
        _write_rest(ctx, formatter, len(parameters) - len(shown), "options")


class HelpfulGroup(_TwoPages, TyperGroup):
    """A group whose commands are made when they are needed, and listed under headings."""

    # Of commands that are made when they are needed; a text is where this package declares one.
    makers: ClassVar[Mapping[str, Maker | str]] = {}
    # Headings with the names below them, in this order; commands in no section come last.
    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    rare: ClassVar[Iterable[str]] = ()  # commands that the first page of help leaves out
    summaries: ClassVar[Mapping[str, str]] = {}  # where a command need not be made to know it

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of all commands, in the order of their sections."""
        names = [*super().list_commands(ctx), *self.makers]
        order = [name for section in self.sections.values() for name in section]
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def get_command(self, ctx: Context, cmd_name: str) -> Any:
        """Return one command; nothing else is imported for it."""
        maker = self.makers.get(cmd_name)
        if not isinstance(maker, str):
            return super().get_command(ctx, cmd_name) if maker is None else maker()
        module, _, attribute = maker.partition(".")
        found = getattr(import_module(f"suffice.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            found.rich_markup_mode, found.info.no_args_is_help = None, True
            return typer.main.get_group(found)
        if attribute.endswith("_command"):
            return found()
        if any(dataclasses.is_dataclass(hint) for hint in get_type_hints(found).values()):
            return make_command(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cmd_name, cls=HelpfulCommand)(found)
        return typer.main.get_command(alone)

    def format_options(self, ctx: Context, formatter: Any) -> None:
        """Write the commands section by section, and the few options last."""
        names = self.list_commands(ctx)
        shown = [name for name in names if ctx.meta.get(_ALL) or name not in self.rare]
        headings = {name: heading for heading, part in self.sections.items() for name in part}
        tables: dict[str, list[tuple[str, str]]] = {}
        width = max(map(len, shown), default=0)
        for name in shown:
            summary = self.summaries.get(name) or summary_of(self.get_command(ctx, name))
            row = (name.ljust(width), summary)
            tables.setdefault(headings.get(name, _COMMANDS), []).append(row)
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        tables[_OPTIONS] = [record for record in records if record is not None]
        for heading, rows in tables.items():
            with formatter.section(heading):
                formatter.write_dl(rows)
        _write_rest(ctx, formatter, len(names) - len(shown), "commands")


def group_with(
    makers: Mapping[str, Maker | str],
    sections: Mapping[str, Sequence[str]] | None = None,
    rare: Iterable[str] = (),
    summaries: Mapping[str, str] | None = None,
) -> type[HelpfulGroup]:
    """Return a group with commands that are made when they are needed, and with headings."""
    parts = {"makers": makers, "sections": sections or {}, "rare": rare}
    parts["summaries"] = summaries or {}
    return type("Commands", (HelpfulGroup,), parts)


def first_page(parameters: Sequence[Any]) -> list[Any]:
    """Return the parameters that the first page of help shows."""
    if len(parameters) <= _MOST_OPTIONS:
        return [*parameters]
    return [
        p
        for p in parameters
        if p.required or any(name.removeprefix("--") in _FIRST_OPTIONS for name in p.opts)
    ]


def option_tables(parameters: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the parameters that help shows, by heading; those of no group go to the last one."""
    tables: dict[str, list[Any]] = {heading: [] for heading in (_ARGUMENTS, *Group, _OPTIONS)}
    grouped = any(getattr(parameter, "rich_help_panel", None) for parameter in parameters)
    for parameter in parameters:
        heading = getattr(parameter, "rich_help_panel", None)
        if parameter.param_type_name == "argument":
            heading = _ARGUMENTS
        tables[str(heading or (Group.OUTPUT if grouped else _OPTIONS))].append(parameter)
    return {str(heading): rows for heading, rows in tables.items() if rows}


def summary_of(command: Any) -> str:
    """Return the first line of a command's help, which says all of it in short."""
    return str(command.help or "").strip().partition("\n")[0]


# What is never written over, by how its contents begin. The keys of a survey stand in the order of
# their names, so that its questions come before what says that it is one.
_PRECIOUS = {
    "a ledger, or another database": re.compile(
        rb"SQLite format 3\0|\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"  # or its journal
    ),
    "a survey, or an answer to one": re.compile(
        rb"""\s*\{(?s:.*)"suffice"\s*:\s*"(survey|answer)\""""
    ),
    "the memory of answers to surveys": re.compile(
        rb"""\{"version": \d+, "kind": "(cost|token|answer)\""""
    ),
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
}


def check_outputs(
    *outputs: Path | None,
    reads: Iterable[Path | str | None] = (),
    appends: Iterable[Path] = (),
    force: bool | None = False,
) -> None:
    """Raise unless every output can be written, to a file of its own that is not one of ``reads``.

    A file that exists is not written over without ``force``; a ledger, a survey, the memory of
    answers or a private key never is, whatever its name. ``force`` is None for a command that has
    no such option. Files in ``appends`` may exist: they only grow. Of a folder that is read every
    file is taken to be read. None stands for an option that is not set.
    """
    new_files = [path for path in outputs if path is not None]
    written = [*new_files, *appends]
    if force and not written:
        raise ParameterError("--force cannot be used without a file to write. Remove --force.")
    sources = [Path(source) for source in reads if source is not None]
    for path in written:
        folder = path.parent
        if not folder.is_dir():
            raise StorageError(f"{path} cannot be written. Make the folder {folder} first.")
        if path.is_dir():
            raise StorageError(
                f"{path} cannot be written, because it is a folder. Name a file in it."
            )
        if not os.access(folder, os.W_OK):
            raise StorageError(
                f"{path} cannot be written, because its folder is protected. Choose another."
            )
        for source in sources if path.exists() else ():  # by whatever name, or in a folder
            if source.exists() and (
                source.samefile(path) or source.resolve() in path.resolve().parents
            ):
                raise ParameterError(
                    f"{path} is read by this command and would be overwritten. Write to another"
                    " file."
                )
    resolved = [path.resolve() for path in written]
    for path, target in zip(written, resolved, strict=True):
        if resolved.count(target) > 1:
            raise ParameterError(f"{path} would be written twice. Give each output its own file.")
    for path in new_files:
        if path.exists():
            _check_not_precious(path)
        if os.path.lexists(path) and not force:
            hint = "" if force is None else ", or use --force"
            beside = ""
            if path.name.startswith(f"{new_files[0].stem}.") and path != new_files[0]:
                beside = f", and this command writes it beside {new_files[0]}"
            raise StorageError(f"{path} exists{beside}. Write to another file{hint}.")


def _check_not_precious(path: Path) -> None:
    """Raise if a file that exists may never be written over."""
    if not path.is_file():
        raise StorageError(f"{path} is not a file that can be overwritten. Name another file.")
    from suffice.participant import MOST_BYTES  # of a survey, or of an answer

    try:
        with path.open("rb") as file:
            head = file.read(MOST_BYTES)
    except OSError:
        raise StorageError(
            f"{path} exists and cannot be read, so it may be a ledger. Write to another file."
        ) from None
    for kind, begins in _PRECIOUS.items():
        if begins.match(head):
            raise StorageError(f"{path} is {kind}, and never overwritten. Write to another file.")


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"The folder {path} cannot be made: {error.strerror}.") from None


def refuse_unused(where: str, options: Mapping[str, Any]) -> None:
    """Raise if an option is set (is not None) that has no effect ``where``: none is ignored."""
    for option, value in options.items():
        if value is not None:
            raise ParameterError(f"{option} cannot be used {where}. Remove {option}.")


Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Output = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
LedgerPath = Annotated[
    str, typer.Argument(help="The ledger's file, or postgresql://HOST/DATABASE.", metavar="PATH")
]
AnchorPlace = Annotated[
    str | None,
    typer.Option(
        "--anchor",
        metavar="FILE|command:PROGRAM|none",
        help="Where the end of the log is also kept. Default: a file in your state folder.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class JsonOutput:
    """How a command reports."""

    json: bool = output_option(False, "Print JSON for programs.")


@dataclass(frozen=True, kw_only=True)
class Overwriting:
    """Whether a command may write over files that exist."""

    force: bool = output_option(
        False,
        "Overwrite a file that exists. Ledgers, private keys, surveys and their answers are never"
        " overwritten.",
    )


Force = Annotated[bool, typer.Option("--force", help=options_of(Overwriting)["force"].help)]
OUTPUT = {"name": "--output", "short": "-o", **NEW_FILE}  # of the file that a command is run for


def _plot_file(text: str) -> Path:
    """Return the file of a plot, whose ending must name a format."""
    from suffice.pages.plots import check_plot

    path = Path(text)
    check_plot(path)
    return path


PLOT = {**NEW_FILE, "parse": _plot_file}  # of a file that is drawn


@dataclass(frozen=True, kw_only=True)
class OutputFile(JsonOutput, Overwriting):
    """The file that a command writes, and how it reports."""

    output: Path = output_option(REQUIRED, "The file to write.", **OUTPUT)


def selected_fields(kind: type, options: Mapping[str, Option] | Iterable[str]) -> type:
    """Return a dataclass with some fields of another, none of them required by the library.

    ``options`` are the names of the fields, or the options that they get instead of their own. An
    option that is none of its fields becomes a field for a text, the last one.
    """
    hints, declared = get_type_hints(kind), options_of(kind)
    chosen = options if isinstance(options, Mapping) else {name: declared[name] for name in options}
    fields = [
        (
            name,
            hints.get(name, str),
            dataclasses.field(default=None, kw_only=True, metadata={"option": chosen[name]}),
        )
        for name in dict.fromkeys([*declared, *chosen])
        if name in chosen
    ]
    return dataclasses.make_dataclass(f"Some{kind.__name__}", fields, frozen=True)


@dataclass(frozen=True)
class Slot:
    """One option of the command line, and the field that it sets."""

    key: str
    part: str
    kind: type  # the dataclass of the part
    field: str
    option: Option
    annotation: Any
    default: Any
    fallback: Any  # what the field holds if the option is not typed


def _unbundled(name: str, held: Sequence[Slot], typed: Iterable[str]) -> dict[str, Any]:
    """Return the texts of the options that another one holds, each as NAME=VALUE, by their keys."""
    slots = {slot.option.name.rpartition(" ")[2]: slot for slot in held}
    texts: dict[str, Any] = {}
    for item in typed:
        word, sign, text = item.partition("=")
        slot = slots.get(word)
        if slot is None or not sign:
            raise ParameterError(
                f"{name} takes NAME=VALUE, where NAME is one of {', '.join(slots)}."
            )
        if slot.option.many:
            texts.setdefault(slot.key, []).append(text)
        elif slot.key in texts:
            raise ParameterError(f"{name} has two values of {word}. Remove one of them.")
        else:
            texts[slot.key] = text
    return texts


_CONTEXT = "context"


def make_command(
    run: Callable[..., None],
    name: str = "",
    help: str = "",  # noqa: A002  # as command lines call it
    **typed: type,
) -> TyperCommand:
    """Return a command whose options are the fields of the dataclasses that ``run`` takes.

    A parameter of ``run`` that is annotated with a dataclass gets one. Of the dataclasses in
    ``typed``, a parameter gets the fields that were typed, as a dict. ``name`` and ``help`` are the
    name and the docstring of ``run``, unless they are given.
    """
    kinds = {**get_type_hints(run), **typed}
    parts = {part: kinds[part] for part in inspect.signature(run).parameters if part != _CONTEXT}
    slots = [slot for part, kind in parts.items() for slot in _slots(part, kind)]
    slots.sort(key=lambda slot: not slot.option.argument)

    bundles: dict[str, list[Slot]] = {}
    for slot in slots:
        if slot.option.within:
            bundles.setdefault(slot.option.within, []).append(slot)
    entries = [(s.key, s.default, s.annotation) for s in slots if not s.option.within]
    for bundle, held in bundles.items():
        told = (f"{slot.option.name.rpartition(' ')[2]}=: {slot.option.help}" for slot in held)
        parameter = typer.Option(
            bundle,
            show_default=False,
            help=f"NAME=VALUE (repeatable). {' '.join(told)}",
            rich_help_panel=str(held[0].option.group),
            metavar="NAME=VALUE",
        )
        entries.append((bundle.removeprefix("--"), None, Annotated[list[str] | None, parameter]))

    def call(context: typer.Context, **texts: Any) -> None:
        for bundle, held in bundles.items():
            typed_there = texts.pop(bundle.removeprefix("--"))
            texts |= {slot.key: None for slot in held}
            if typed_there:
                texts |= _unbundled(bundle, held, typed_there)
        files: dict[bool, list[Path | None]] = {True: [], False: []}
        for slot in slots:
            value, option = texts[slot.key], slot.option
            if value is None and option.writes:
                value = slot.fallback
            for text in value if isinstance(value, list) else [value]:
                if option.path is not None and text is not None:
                    files[option.writes].append(option.path(str(text)))
        force = any(texts[slot.key] for slot in slots if slot.option.name == "--force")
        check_outputs(*files[True], reads=files[False], force=force)
        values = _typed_values(slots, texts)
        made = {
            part: (dict if part in typed else kind)(**values.get(part, {}))
            for part, kind in parts.items()
        }
        run(**made, **({_CONTEXT: context} if _CONTEXT in kinds else {}))

    call.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # typer reads it
        [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
            for key, default, hint in [
                (_CONTEXT, inspect.Parameter.empty, typer.Context),
                *entries,
            ]
        ]
    )
    call.__annotations__ = {_CONTEXT: typer.Context} | {key: hint for key, _, hint in entries}
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    paragraphs = (help or inspect.getdoc(run) or "").split("\n\n")
    words = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(name or run.__name__, cls=HelpfulCommand, help=words)(call)
    command = typer.main.get_command(app)
    assert isinstance(command, HelpfulCommand)  # noqa: S101  # for the type checker
    command.slots = slots
    return command


def _slots(part: str, kind: type) -> Iterator[Slot]:
    """Yield the options of a dataclass as typer declares them, and of dataclasses in it."""
    hints, declared = get_type_hints(kind), options_of(kind)
    for item in dataclasses.fields(kind):
        hint, own = hints[item.name], declared.get(item.name)
        if own is None:
            if isinstance(hint, type) and dataclasses.is_dataclass(hint):
                yield from _slots(f"{part}.{item.name}", hint)
            continue
        for number, option in enumerate((own, *own.others)):
            choices, parsed = option.choices, option.parse is not None
            value_type: Any = list[str] if option.many else str  # texts, where they are parsed here
            if option.flag:
                value_type = bool
            elif not (option.many or parsed or choices is not None):
                types = get_args(hint) or (hint,)
                simple = (bool, int, float, str, Path)
                value_type = next((one for one in simple if one in types), str)
            metavar = "NUMBER" if value_type in (int, float) else "TEXT"
            if choices is not None:
                metavar = f"[{'|'.join(map(str, choices))}]"
            elif option.path is not None:
                metavar = "FILE"
            parameter = typer.Option(
                *([option.name, option.short] if option.short else [option.name]),
                show_default=False,
                help=option.help,
                rich_help_panel=str(option.group),
                metavar=None if value_type is bool else metavar,
                # What completes a value: a function without parameters, whose hints typer reads.
                autocompletion=None if choices is None else [*map(str, choices)].copy,
            )
            if option.argument:
                parameter = typer.Argument(help=option.help, metavar=item.name.upper())
            has_default = item.default is not MISSING and not option.required
            required = (option.argument or not own.others) and not has_default
            yield Slot(
                key=f"{part}_{item.name}_{number}".replace(".", "_"),
                part=part,
                kind=kind,
                field=item.name,
                option=option,
                annotation=Annotated[value_type if required else value_type | None, parameter],
                default=inspect.Parameter.empty if required else None,
                fallback=None if item.default is MISSING else item.default,
            )


def _typed_values(slots: Sequence[Slot], texts: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return part -> field -> value of what was typed; a field that two options set is an error."""
    values: dict[str, dict[str, Any]] = {}
    used: dict[tuple[str, str], str] = {}
    for slot in slots:
        value, option = texts[slot.key], slot.option
        if value is None or value == []:
            continue
        former = used.setdefault((slot.part, slot.field), option.name)
        if former != option.name:
            raise ParameterError(
                f"{former} and {option.name} set the same value. Use only one of them."
            )
        if option.choices is not None:
            if value not in {*option.choices}:
                choices = ", ".join(option.choices)
                raise ParameterError(f"{option.name} must be one of {choices}; got {value!r}.")
        elif option.parse is not None:
            try:
                value = option.parse(value)
            except SufficeError:
                raise
            except ValueError:
                text = value if isinstance(value, str) else ", ".join(value)
                raise ParameterError(f"{option.name} must be a number; got {text!r}.") from None
        values.setdefault(slot.part, {})[slot.field] = value
    inner = {slot.part: slot.kind for slot in slots if "." in slot.part}
    for part in sorted(inner.keys() & values.keys()):
        outer, _, field = part.rpartition(".")
        values.setdefault(outer, {})[field] = inner[part](**values.pop(part))
    return values


_DATABASES = ("postgresql://", "postgres://", "sqlite:///", "duckdb:///")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """The form of a table; what is not set is read from the file, where that may be done."""

    delimiter: str | None = data_option(
        None,
        "Character between the columns of a CSV file, ; or tab. Default: as in its first line.",
        within="--read",
    )
    decimal: str | None = data_option(
        None,
        "Decimal mark of a CSV file, . or ,. Default: as in public columns, else a point.",
        within="--read",
    )
    encoding: str | None = data_option(
        None,
        "Encoding of a CSV file, such as latin-1. Default: as its first line and public columns"
        " show it, else utf-8.",
        within="--read",
    )
    query: str | None = data_option(
        None,
        "SQL query whose rows are the table; the table is then the address of a database:"
        " postgresql://HOST/DATABASE, sqlite:///FILE or duckdb:///FILE.",
        within="--read",
    )
    order_by: list[str] | None = data_option(
        None,
        "Column that orders the rows of a query, for example a key.",
        many=True,
        within="--read",
    )

    def tables(self, paths: Sequence[str]) -> list[Any]:
        """Return several tables; a query is for those that are addresses of databases."""
        stored = [path.startswith(_DATABASES) for path in paths]
        if self.query is None or all(stored) or not any(stored):
            return [self.open(path) for path in paths]
        files = replace(self, query=None, order_by=None)
        databases = replace(self, delimiter=None, decimal=None, encoding=None)
        readings = [databases if in_database else files for in_database in stored]
        return [reading.open(path) for reading, path in zip(readings, paths, strict=True)]

    def open(self, path: str | Path, project: Any = None) -> Any:
        """Return what the library reads as a table: a file, or the query of a database.

        What was not typed about a file is as the settings of a project have it.
        """
        if self.query is None:
            from suffice.tables.files import TableFile

            refuse_unused("without a query", {"--read order-by": self.order_by or None})
            typed = (self.delimiter, self.decimal, self.encoding)
            if project is None or None not in typed:
                return TableFile(path, *typed)
            parts = zip(("delimiter", "decimal", "encoding"), typed, strict=True)
            served = project.served
            form = {**served.read, **{part: text for part, text in parts if text is not None}}
            return replace(replace(served, read=form).file, path=path)
        from suffice.tables.databases import Query

        for name in ("delimiter", "decimal", "encoding"):
            refuse_unused("with a query", {f"--read {name}": getattr(self, name)})
        return Query(str(path), self.query, tuple(self.order_by or ()))
