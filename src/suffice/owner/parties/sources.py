"""What an aggregation is given: what parties sent, or one table of all of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from suffice.errors import ParameterError
from suffice.options import REQUIRED, budget_option, data_option, output_option
from suffice.owner.parties.auxiliary import AgreedRows
from suffice.owner.parties.enrolled import Enrolled, enrolled_parties
from suffice.owner.source import Source

__all__ = ["PartySource", "RoundSource"]


@dataclass(frozen=True)
class RoundSource(AgreedRows, Source):
    """What every aggregation needs: the contributions, and who is enrolled.

    Parameters
    ----------
    enrolled : Enrolled, int or sequence of str
        The public number of parties, or their names.
    auxiliary_dataset : str, optional
        The data set of protected auxiliary rows in the ledger.
    found_at : str, optional
        Where others can find the auxiliary rows.
    """

    label: str | None = field(default=None, kw_only=True)
    enrolled: Enrolled | int | Sequence[str] = data_option(
        REQUIRED,
        "Number of enrolled parties, or their names: a text file with a name on each line, or a"
        " list with commas. This is public, and never read from the records.",
        parse=enrolled_parties,
        path=lambda text: Path(text) if Path(text).is_file() else None,
        kw_only=True,
    )
    auxiliary_dataset: str | None = budget_option(
        None,
        "Data set of the auxiliary rows in the ledger, with a budget per record. Only with"
        " --private-aux.",
        name="--aux-dataset",
        kw_only=True,
    )
    found_at: str | None = output_option(
        None,
        "Address where others can find the auxiliary rows, for example a web page.",
        name="--rows-url",
        kw_only=True,
    )

    def check(self) -> None:
        """Nothing: what parties sent is checked one by one."""

    @cached_property
    def parties(self) -> Enrolled:
        """The enrolled parties."""
        return Enrolled.of(self.enrolled)


@dataclass(frozen=True)
class PartySource(RoundSource):
    """Private records of all parties in one table.

    Parameters
    ----------
    label : str
        The column of labels.
    party : str
        The column that names the party of each record.
    """

    label: str | None = data_option(
        None,
        "Column that holds the private labels, for example diagnosis.",
        required=True,
        kw_only=True,
    )
    party: str = data_option(
        "",
        "Column that names the party of each record, for example practice.",
        required=True,
        kw_only=True,
    )

    def check(self) -> None:
        """Raise unless the columns of labels and of parties are named."""
        if not self.label or not self.party:
            raise ParameterError(
                "Name the column of labels and the column of parties: --label and --party (Python:"
                " label=..., party=...)."
            )
