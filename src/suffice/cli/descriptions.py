"""What ``release KIND --help`` and ``plan KIND --help`` say of each mechanism."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["plan_help", "release_help"]


@dataclass(frozen=True)
class _Description:
    """A mechanism in words.

    ``summary`` is the line in the list of releases, ``published`` says what the file holds,
    ``protected`` what it protects and what is public, ``plan`` is the line in the list of plans.
    """

    summary: str
    published: str
    protected: str
    plan: str


_DESCRIPTIONS: Mapping[str, _Description] = {
    "mean-operator": _Description(
        "Publish a noisy summary of the private labels of public rows.",
        "The release holds the mean operator, one number per feature: its average, counted plus"
        " for one class and minus for the other, with noise.",
        "It protects each label. The rows, their number and the list of classes are public.",
        "Predict how useful a summary of private labels would be.",
    ),
    "responses": _Description(
        "Publish records whose values are changed at random.",
        "The release holds every record, with its label and its features changed at random.",
        "It protects each label and each value; a whole record less, and the file says how much."
        " The number of records, the columns and their possible values are public.",
        "Show how strongly randomised records would be protected.",
    ),
    "rados": _Description(
        "Publish noisy sums of records over secret random subsets.",
        "The release holds subset sums (rados): sums of records over secret random subsets, with"
        " noise if --epsilon is set.",
        "It protects each label, value or record, as --unit says, and nothing without --epsilon or"
        " --protect. The number of records, the columns and their scaling are public.",
        "Predict whether subset sums stay useful after noise.",
    ),
    "moments": _Description(
        "Publish noisy means of products of columns, by class.",
        "The release holds noisy second moments of records: the mean product of every two columns,"
        " the column means, the means by class and the class proportions.",
        "It protects each record as a whole. The number of records, the columns and their scaling"
        " are public.",
        "Predict whether second moments stay useful after noise.",
    ),
    "proportions": _Description(
        "Publish the noisy class proportions of bags of rows.",
        "The release holds the proportion of each class in each bag, that is a group of rows such"
        " as a ward or a year, with noise. Learners assume that each class looks alike in all bags."
        " Natural bags often break this; those of `suffice release bags` do not.",
        "It protects each label. The rows, and the bags that they are in, are public.",
        "Predict the error of noisy class proportions.",
    ),
    "bags": _Description(
        "Publish a random bag for each row, likely that of its class.",
        "The release assigns every row to a bag, most often to that of its own class. In such bags"
        " each class looks alike (label shift), as learners of class proportions assume.",
        "It protects each label. The rows, and the bag of each row, are public.",
        "Compare how often rows should go to the bag of their class.",
    ),
    "parties": _Description(
        "Publish what many parties vote on public rows, with noise.",
        "The release holds the sum of the votes of many parties on public rows, or of their records"
        " by class, with noise.",
        "It protects all data of each party together. The public rows, and how many parties are"
        " enrolled, are public.",
        "Predict how accurate many parties are together.",
    ),
}


def release_help(mechanism: Any) -> str:
    """Return the help of ``release NAME``; one that nobody described has its own first line."""
    description = _DESCRIPTIONS.get(mechanism.name)
    if description is None:
        return str(mechanism.__doc__).partition("\n")[0]
    return f"{description.summary}\n\n{description.published} {description.protected}"


def plan_help(name: str) -> str:
    """Return the help of ``plan NAME``."""
    description = _DESCRIPTIONS.get(name)
    summary = f"Predict what `release {name}` would give."
    if description is not None:
        summary = description.plan
    return f"{summary}\n\nA plan reads no private value, and is not charged to a budget."
