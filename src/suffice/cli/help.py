"""How help is shown: commands by role, options by subject, an example last.

Each example is shown at the end of its command's help, printed in the reference, and run. The tests
run all of them, in this order, in a folder that holds the tables of ``suffice demo --files``. An
example may therefore use a file that an earlier one wrote.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typer.core import TyperCommand, TyperGroup

from suffice.options import Group

__all__ = [
    "EXAMPLES",
    "Context",
    "Example",
    "HelpfulCommand",
    "HelpfulGroup",
    "Maker",
    "example_of",
    "group_with",
    "option_tables",
    "summary_of",
]


_INDENT = "  "


@dataclass(frozen=True)
class Example:
    """What an example does, in words, and its commands; a command may take several lines."""

    title: str
    commands: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield the lines that help shows."""
        yield f"Example: {self.title}"
        for command in self.commands:
            yield from (f"{_INDENT}{line}" for line in command.split("\n"))


def _example(title: str, *commands: str) -> Example:
    return Example(title, commands)


EXAMPLES: Mapping[str, Example] = {
    "advise": _example(
        "ask which release of private diagnoses to make",
        "suffice advise biopsies.csv --label diagnosis --private labels --epsilon 1 \\\n"
        "    --delta 1e-6",
    ),
    "plan mean-operator": _example(
        "predict how useful a release of private diagnoses would be",
        "suffice plan mean-operator biopsies.csv --label diagnosis --epsilon 1",
    ),
    "ledger init": _example(
        "allow all releases of the diagnoses epsilon 2 together",
        "suffice ledger init clinic.ledger --dataset diagnosis --epsilon 2 \\\n"
        "    --delta 1e-5 --classes 0,1",
    ),
    "keygen": _example(
        "make clinic.key, which signs, and clinic.pub, which verifies",
        "suffice keygen clinic",
    ),
    "release mean-operator": _example(
        "publish a noisy summary of private diagnoses",
        "suffice release mean-operator biopsies.csv --label diagnosis --epsilon 1 \\\n"
        "    --ledger clinic.ledger --dataset diagnosis -o diagnosis.suffice",
    ),
    "inspect": _example(
        "read what a release protects, and how strongly",
        "suffice inspect diagnosis.suffice",
    ),
    "ledger show": _example(
        "see how much of each budget is spent",
        "suffice ledger show clinic.ledger",
    ),
    "ledger history": _example(
        "list every charge",
        "suffice ledger history clinic.ledger",
    ),
    "ledger what-if": _example(
        "find the largest epsilon that the budget still allows",
        "suffice ledger what-if clinic.ledger --dataset diagnosis",
    ),
    "ledger log": _example(
        "list everything that was asked of a ledger",
        "suffice ledger log clinic.ledger",
    ),
    "ledger checkpoint": _example(
        "sign the end of the log, for the data protection officer",
        "suffice ledger checkpoint clinic.ledger --sign clinic.key -o today.checkpoint",
    ),
    "ledger verify": _example(
        "check that nothing is missing since the officer got the checkpoint",
        "suffice ledger verify clinic.ledger --checkpoint today.checkpoint \\\n"
        "    --key clinic.pub",
    ),
    "ledger recover": _example(
        "use a ledger again that was restored from a copy",
        "suffice ledger recover clinic.ledger --checkpoint today.checkpoint \\\n"
        "    --released diagnosis=diagnosis.suffice --complete",
    ),
    "fit": _example(
        "train a classifier from a release and its public rows",
        "suffice fit diagnosis.suffice --rows public.csv -o model.suffice",
    ),
    "predict": _example(
        "predict the diagnoses of a new ward",
        "suffice predict model.suffice new_ward.csv -o predicted.csv",
    ),
    "score": _example(
        "measure the accuracy on rows whose labels you may see",
        "suffice score model.suffice test.csv --label diagnosis",
    ),
    "serve": _example(
        "prepare a folder for a service, and get the first token",
        "suffice serve clinic --init",
    ),
    "token new": _example(
        "let a learner send proposals for 30 days",
        "suffice token new clinic --role learner --holder Ada --days 30",
    ),
    "token list": _example("see who has a token", "suffice token list clinic"),
    "token revoke": _example(
        "revoke all tokens of a holder",
        "suffice token revoke clinic --holder Ada",
    ),
    "propose": _example(
        "ask the owner of these rows for a release at epsilon 0.5",
        "suffice propose public.csv --epsilon 0.5 --classes 0,1 -o proposal.json",
    ),
    "grant": _example(
        "answer a proposal, and sign what is granted",
        "echo '{\"largest_epsilon\": 1}' > policy.json",
        "suffice grant proposal.json biopsies.csv --label diagnosis \\\n"
        "    --policy policy.json --ledger clinic.ledger --dataset diagnosis \\\n"
        "    --sign clinic.key -o granted.suffice",
    ),
    "verify": _example(
        "check who signed a release, and that it is the one that was granted",
        "suffice verify granted.suffice --key clinic.pub --proposal proposal.json \\\n"
        "    --answer granted.answer.json",
    ),
    "plan responses": _example(
        "see how strongly randomised answers would be protected",
        "suffice plan responses answers.csv --label relapse --label-flip 0.25 \\\n"
        "    --features smokes --states smokes=never,sometimes,daily \\\n"
        "    --feature-flip 0.25",
    ),
    "release responses": _example(
        "publish answers of which one in four is changed at random",
        "suffice release responses answers.csv --label relapse --label-flip 0.25 \\\n"
        "    --features smokes --states smokes=never,sometimes,daily \\\n"
        "    --feature-flip 0.25 --no-ledger -o answers.suffice",
    ),
    "frequencies": _example(
        "estimate how many people smoke, from randomised answers",
        "suffice frequencies answers.suffice",
    ),
    "plan rados": _example(
        "predict how useful subset sums of private records would be",
        "suffice plan rados records.csv --label diagnosis --epsilon 1 --delta 1e-6 \\\n"
        "    --standardize auxiliary.csv",
    ),
    "release rados": _example(
        "publish noisy sums that protect each record",
        "suffice release rados records.csv --label diagnosis --unit record \\\n"
        "    --epsilon 1 --delta 1e-6 --standardize auxiliary.csv --no-ledger \\\n"
        "    -o sums.suffice",
    ),
    "plan moments": _example(
        "predict how useful second moments of private records would be",
        "suffice plan moments records.csv --label diagnosis --epsilon 1 --delta 1e-6 \\\n"
        "    --standardize auxiliary.csv",
    ),
    "release moments": _example(
        "publish noisy second moments that protect each record",
        "suffice release moments records.csv --label diagnosis --unit record \\\n"
        "    --epsilon 1 --delta 1e-6 --standardize auxiliary.csv --no-ledger \\\n"
        "    -o moments.suffice",
    ),
    "plan proportions": _example(
        "predict the error of each ward's proportions",
        "suffice plan proportions wards.csv --bag ward --epsilon 0.1",
    ),
    "release proportions": _example(
        "publish the proportion of malignant samples in each ward",
        "suffice release proportions wards.csv --label diagnosis --bag ward \\\n"
        "    --epsilon 0.1 --no-ledger -o wards.suffice",
    ),
    "ratio": _example(
        "estimate the proportion of malignant samples in a new ward",
        "suffice ratio wards.suffice --rows wards.csv --bag ward new_ward.csv",
    ),
    "plan bags": _example(
        "choose how often rows go to the bag of their own class",
        "suffice plan bags --sizes 1500,1500 --epsilon 1",
    ),
    "release bags": _example(
        "deal rows to two random bags, and write the public rows with their bag",
        "suffice release bags biopsies.csv --label diagnosis --epsilon 1 \\\n"
        "    --no-ledger --write-rows bagged.csv -o bags.suffice",
    ),
    "plan parties": _example(
        "predict the accuracy that 1000 practices reach together",
        "suffice plan parties --parties 1000 --aux auxiliary.csv --samples 6 \\\n"
        "    --epsilon 1 --delta 1e-6",
    ),
    "release parties": _example(
        "publish what 1000 practices vote on public rows",
        "suffice release parties practices.csv --label diagnosis --party practice \\\n"
        "    --enrolled 1000 --aux auxiliary.csv --epsilon 1 --delta 1e-6 --no-ledger \\\n"
        "    -o practices.suffice",
    ),
    "contribute": _example(
        "write the contribution of one party, for the aggregator only",
        "suffice contribute biopsies.csv --label diagnosis --aux auxiliary.csv \\\n"
        "    --party north -o north.part",
    ),
    "aggregate": _example(
        "publish the noisy sum of the contributions of 20 enrolled parties",
        "suffice aggregate north.part --aux auxiliary.csv --enrolled 20 --epsilon 1 \\\n"
        "    --delta 1e-6 --no-ledger -o network.suffice",
    ),
    "simulate parties": _example(
        "compare methods for 50 parties, on a public table",
        "suffice simulate parties test.csv --label diagnosis --parties 50 --trials 1 \\\n"
        "    --epsilons 1 --methods operator,average -o simulation.html",
    ),
    "survey new": _example(
        "write a survey whose answers are changed at random, one in four",
        'suffice survey new --title "After the clinic" --states relapse=no,yes \\\n'
        '    --text "relapse=Did you relapse?" --flip 0.25 -o survey.json',
    ),
    "survey respond": _example(
        "answer a survey; leave --truth out to be asked instead",
        "suffice survey respond survey.json --truth relapse=no -o mine.json",
    ),
    "survey collect": _example(
        "gather answer files into one release",
        "suffice survey collect survey.json mine.json -o survey.suffice",
    ),
    "audit": _example(
        "attack the mechanisms that change labels at random",
        "suffice audit label-responses",
    ),
    "reproduce": _example(
        "recompute a result of a paper that needs no data",
        "suffice reproduce factorisation -o factorisation.html",
    ),
    "demo": _example(
        "play five releases, and write their tables to a folder",
        "suffice demo --files clinic -o demo.html",
    ),
}

# The help of a group ends with the example of one of its commands.
_OF_GROUPS = {
    "": "demo",
    "plan": "plan mean-operator",
    "release": "release mean-operator",
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


class HelpfulCommand(TyperCommand):
    """A command that shows its options under the headings of their groups, and an example."""

    def format_options(self, ctx: Context, formatter: Any) -> None:
        """Write the arguments, then the options group by group."""
        for heading, parameters in option_tables(self.get_params(ctx)).items():
            records = [parameter.get_help_record(ctx) for parameter in parameters]
            with formatter.section(heading):
                formatter.write_dl([record for record in records if record is not None])

    def format_epilog(self, ctx: Context, formatter: Any) -> None:
        """Write the example."""
        _write_example(ctx, formatter)


class HelpfulGroup(TyperGroup):
    """A group whose commands are made when they are needed, and listed under headings.

    ``makers`` are the commands that are not functions; ``sections`` are headings with the names
    below them, in this order. Commands in no section come last.
    """

    makers: ClassVar[Mapping[str, Maker]] = {}
    sections: ClassVar[Mapping[str, Sequence[str]]] = {}

    def list_commands(self, ctx: Context) -> list[str]:
        """Return the names of all commands, in the order of their sections."""
        names = [*super().list_commands(ctx), *self.makers]
        order = [name for section in self.sections.values() for name in section]
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def get_command(self, ctx: Context, cmd_name: str) -> Any:
        """Return one command; nothing else is imported for it."""
        maker = self.makers.get(cmd_name)
        return super().get_command(ctx, cmd_name) if maker is None else maker()

    def format_options(self, ctx: Context, formatter: Any) -> None:
        """Write the commands section by section, and the few options last."""
        names = self.list_commands(ctx)
        headings = {name: heading for heading, part in self.sections.items() for name in part}
        tables: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            row = (name, summary_of(self.get_command(ctx, name)))
            tables.setdefault(headings.get(name, _COMMANDS), []).append(row)
        width = max(map(len, names), default=0)
        for heading, rows in tables.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), summary) for name, summary in rows])
        records = [parameter.get_help_record(ctx) for parameter in self.get_params(ctx)]
        with formatter.section(_OPTIONS):
            formatter.write_dl([record for record in records if record is not None])

    def format_epilog(self, ctx: Context, formatter: Any) -> None:
        """Write the example."""
        _write_example(ctx, formatter)


def group_with(
    makers: Mapping[str, Maker], sections: Mapping[str, Sequence[str]] | None = None
) -> type[HelpfulGroup]:
    """Return a group with commands that are made when they are needed, and with headings."""
    return type("Commands", (HelpfulGroup,), {"makers": makers, "sections": sections or {}})


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


def _write_example(ctx: Context, formatter: Any) -> None:
    path = ctx.command_path.partition(" ")[2]
    example = example_of(path)
    if example is not None:
        formatter.write_paragraph()
        formatter.write("".join(f"{line}\n" for line in example.lines()))
