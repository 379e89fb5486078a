"""`Session`: one data set of an owner in Python, from its first line to a model.

It writes what `suffice init` writes: a sheet and settings, and a ledger beside them. A notebook
that is started again finds them, and with them what was spent. It runs where the private data are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suffice.cli.building import Reading
from suffice.cli.releases import project_of
from suffice.cli.starting import Project, Start, init
from suffice.errors import BudgetError, LedgerError, ParameterError
from suffice.plain_text import html_table, text_table

if TYPE_CHECKING:
    from suffice.owner.advice import Advice
    from suffice.owner.ledger import Balance
    from suffice.releases.release import Release


class Session:
    """Advises on, releases and counts what leaves one table; protects what ``private`` says.

    The first start writes ``suffice.toml``, a sheet and a ledger into the present folder, as
    `suffice init` does. Every later start finds them. They hold the budget: a restarted notebook is
    no new budget, nor is a second process, and both are charged to the same ledger.

    Parameters
    ----------
    table : str or Path
        The table's file, or its address in a database.
    private : {"labels", "records"}, optional
        What is private: the labels of public rows, or whole records. At the first start.
    label : str, optional
        The column of private labels.
    budget : float, optional
        The largest epsilon of all releases together. At the first start; another one is refused
        later.
    delta : float, optional
        The delta at which that epsilon is counted. Default: 1e-5.
    classes : sequence, optional
        All classes, known beforehand. They are never read from private labels.
    person : str, optional
        A public column of ids: all labels of a person are then protected together.
    drop : sequence of str
        Columns to leave out.

    Examples
    --------
    ::

        s = sf.Session("visits.csv", private="labels", label="ill", budget=2.0, classes=["n", "y"])
        s.advise()
        release = s.release(epsilon=1)
        s.spent, s.left
        s.model().predict("new.csv")
    """

    def __init__(
        self,
        table: str | Path,
        *,
        private: str | None = None,
        label: str | None = None,
        budget: float | None = None,
        delta: float | None = None,
        classes: Sequence[Any] | None = None,
        person: str | None = None,
        drop: Sequence[str] = (),
    ) -> None:
        from suffice.owner.ledger import Ledger

        if not isinstance(table, str | Path):
            raise ParameterError(
                "A session is about a table in a file or a database, which a later start finds"
                " again. Write yours to a file first."
            )
        self.table = str(table) if "://" in str(table) else str(Path(table).resolve())
        told = {} if label is None else {"label": label}
        project, fresh = project_of(self.table, told, None), False
        if project is None:
            if private is None or label is None or budget is None:
                raise ParameterError(
                    "This table has no settings here yet. Say what is private once:"
                    " Session(table, private='labels', label='y', budget=2.0)."
                )
            self._check_new(private, label)
            init(
                Start(
                    table=self.table, private=private, label=label, budget=budget,
                    delta=1e-5 if delta is None else delta,
                    classes=None if classes is None else tuple(classes),
                    person=person, drop=list(drop) or None,
                ),
                Reading(),
            )  # fmt: skip
            project, fresh = project_of(self.table, told, None), True
            assert project is not None  # noqa: S101  # for the type checker: it was just written
            served = project.served
            if served.budget is not None:  # at once: what is missing later was there before
                Ledger(project.settings.ledger, {project.name: {served.unit: served.budget}})
        self._folder, self.name = project.folder.resolve(), project.name
        if private not in (None, project.private):
            raise ParameterError(
                f"By the sheet of data set {self.name!r}, {project.private} are private. Leave"
                " private= out, or edit the sheet."
            )
        place = str(project.settings.ledger)
        if not fresh and "://" not in place and not Path(place).exists():
            raise LedgerError(
                f"The ledger {place} of data set {self.name!r} is missing, and with it what was"
                " spent. Put it back. If nothing was ever released, make one with `suffice ledger"
                " init`."
            )
        for balance in self.balances:
            other = balance.budget
            if (budget is not None and budget != other.epsilon) or (
                delta is not None and delta != other.delta
            ):
                raise BudgetError(
                    f"Data set {self.name!r} has a budget of {other} per {balance.unit} already. A"
                    " new start is no new budget: leave budget= and delta= out. A page of `suffice"
                    " serve` raises it."
                )
        self.release_: Release | None = None

    def _check_new(self, private: str, label: str) -> None:
        """Raise if settings here are about this table, or had it in another place."""
        from suffice.service.settings import FILE_NAME, Settings

        if not Path(FILE_NAME).is_file():
            return
        settings = Settings.load(Path())
        for name, served in settings.datasets.items():
            same = served.table == self.table or Path(served.table).resolve() == Path(self.table)
            whole = "records" in (private, Project(Path(), settings, name).private)
            if same and whole:
                raise BudgetError(
                    f"Data set {name!r} is about the same records, and has its budget. Use its"
                    f" label, {served.label!r}."
                )
            if not same and served.label == label:
                raise BudgetError(
                    f"Data set {name!r} of {FILE_NAME} has this label, in the table"
                    f" {served.table}. If the table was moved, write its new place there: a table"
                    " that moves keeps its budget."
                )

    @property
    def project(self) -> Project:
        """The settings and the sheet, as they are now."""
        from suffice.service.settings import Settings

        return Project(self._folder, Settings.load(self._folder), self.name)

    @property
    def balances(self) -> "list[Balance]":
        """The budgets of the data set, with what is spent of each."""
        from suffice.owner.ledger import Ledger

        return Ledger(self.project.settings.ledger).balances(self.name)

    @property
    def spent(self) -> float:
        """The epsilon that all releases cost together; less than their sum, as noises add up."""
        return max(balance.spent for balance in self.balances)

    @property
    def left(self) -> float:
        """What is left of the budget."""
        return min(balance.left for balance in self.balances)

    def _asked(self, epsilon: float, delta: float | None) -> tuple[Any, dict[str, Any], Project]:
        from suffice.owner.advice import Question

        project, source = self.project, dict[str, Any]()
        project.fill(source, None)
        project.check_filled(source["features"], {})
        most = project.served.policy.largest_delta
        asked = Question(
            private=project.private,
            epsilon=epsilon,
            delta=most if delta is None else delta,
            classes=project.classes(),
        )
        return asked, source, project

    def advise(self, epsilon: float = 1.0, delta: float | None = None) -> "Advice":
        """Return which release to make, and why, from public facts alone. It costs nothing.

        Parameters
        ----------
        epsilon : float, default=1.0
            Epsilon of the release.
        delta : float, optional
            Its delta. Default: the largest that the settings allow.

        Returns
        -------
        Advice
            The releases that could be made, the best first.
        """
        from suffice.owner.advice import answer
        from suffice.owner.source import TargetSource

        asked, source, project = self._asked(epsilon, delta)
        return answer(asked, TargetSource(project.served.file, **source))

    def release(
        self, epsilon: float, delta: float | None = None, *, request: str | None = None
    ) -> "Release":
        """Make the release that is advised, and charge it to the ledger.

        The same request again returns the same release, and is not charged.

        Parameters
        ----------
        epsilon : float
            Epsilon of each label or record.
        delta : float, optional
            Its delta. Default: the largest that the settings allow.
        request : str, optional
            The name of the request.

        Returns
        -------
        Release
            The release. ``save`` writes it to a file, `suffice.card` describes it.

        Raises
        ------
        BudgetError
            If the budget does not suffice. Nothing is charged then.
        """
        asked, source, project = self._asked(epsilon, delta)
        mechanism: Any
        if asked.private == "records":  # no public rows are there to compare releases by
            from suffice.owner.moments import Moments

            sheet, features = project.served.sheet, source["features"]
            assert sheet is not None  # noqa: S101  # for the type checker: private says so
            mechanism = Moments(
                epsilon=asked.epsilon,
                delta=asked.delta,
                classes=asked.classes,
                ranges=sheet.ranges(features) or None,
                categories=sheet.categories(features) or None,
            )
        else:
            mechanism = self.advise(epsilon, delta).taken()
        payment = {"ledger": project.ledger(), "dataset": self.name, "request": request}
        made: Release = mechanism.release(project.served.file, **source, **payment)
        self.release_ = made
        return made

    def model(self, rows: Any = None, release: "Release | None" = None, **options: Any) -> Any:
        """Return a model that learnt from a release alone, not from private data.

        Parameters
        ----------
        rows : table, optional
            Public rows that the release belongs to. Default: those of the session's table, of which
            the public columns are read.
        release : Release, optional
            Default: the last one that this session made.
        **options
            Options of the learner, for example ``loss``.

        Returns
        -------
        estimator
            The fitted learner.
        """
        from suffice.learner.fit import fit, learning_from

        learnt = release or self.release_
        if learnt is None:
            raise ParameterError(
                "Make a release first. One that was made before is returned again, at no charge."
            )
        if rows is None and learning_from(learnt.kind).rows:
            rows = self.project.served.file
        return fit(learnt, rows, **options)

    def _table(self) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
        rows = [
            (str(b.unit), f"{b.budget.epsilon:g}", f"{b.spent:.4g}", f"{b.left:.4g}", str(b.debits))
            for b in self.balances
        ]
        return ("protects each", "budget", "spent", "left", "releases"), rows

    def __str__(self) -> str:
        return text_table(*self._table())

    def __repr__(self) -> str:
        return f"<Session {self.name}: {self.left:.4g} of {self.balances[0].budget} left>"

    def _repr_html_(self) -> str:
        """Return the notebook view: the budget and what is left of it."""
        note = f"Private: {self.project.private}. Table: {self.table}."
        return html_table(f"Data set {self.name}", *self._table(), (note,))
