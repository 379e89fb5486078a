"""An example of every command: shown at the end of its help, printed in the reference, and run.

The tests run all of them, in this order, in a folder that holds the tables of ``suffice demo
--files``. An example may therefore use a file that an earlier one wrote.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

__all__ = ["EXAMPLES", "Example", "example_of"]

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
