"""Commands of many parties: contribute, aggregate, hold a round over a network, simulate."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from suffice.cli.building import (
    OUTPUT,
    HelpfulCommand,
    Json,
    JsonOutput,
    Output,
    OutputFile,
    Overwriting,
    Reading,
    check_outputs,
    group_with,
    make_command,
    refuse_unused,
    selected_fields,
)
from suffice.cli.output import progress, say, show_json, show_pairs, show_table, steps
from suffice.cli.releases import ReleaseOptions, make_and_write
from suffice.errors import ParameterError
from suffice.options import (
    FILE,
    REQUIRED,
    budget_option,
    data_option,
    names,
    numbers,
    output_option,
    privacy_option,
)

if TYPE_CHECKING:
    from suffice.owner.parties.rounds import RoundStore, SignedRound
    from suffice.service.settings import Settings


@dataclass(frozen=True, kw_only=True)
class _Contributed(OutputFile):
    """What a party contributes, and where its contribution goes."""

    table: Path = data_option(REQUIRED, "The party's private records.", argument=True, path=Path)
    label: str | None = data_option(
        None, "Column that holds the labels of the records, for example diagnosis."
    )
    cast: str | None = data_option(
        None,
        "Column of votes in TABLE, instead of records and --label: one vote per auxiliary row, in"
        " their order.",
        name="--votes-column",
    )
    party: str | None = data_option(
        None, "Name that the party is enrolled by. Default: the name of the output."
    )
    to: Path | None = data_option(
        None,
        "A round's file: send the contribution to its service. Classes, method, penalty and samples"
        " are those of the round.",
        **FILE,
    )
    token: Path | None = data_option(
        None,
        "With --to: file that holds your token. Default: the environment's SUFFICE_TOKEN.",
        **FILE,
    )
    key: Path | None = data_option(
        None, "With --to: the aggregator's public key, which checks the round.", **FILE
    )

    def round(self, fields: dict[str, Any]) -> "SignedRound | None":
        """Return the round that the contribution is for, if it is sent; it sets the fields."""
        if self.to is None:
            refuse_unused("without --to", {"--token": self.token, "--key": self.key})
            return None
        from suffice.owner.parties.rounds import load_round

        names = {"lam": "--penalty-weight"}
        chosen = {names.get(name, f"--{name}"): value for name, value in fields.items()}
        refuse_unused("with --to", chosen)
        if self.key is None:
            raise ParameterError(
                "A contribution is not private. To be sure who gets it, name the aggregator's"
                " public key: --key FILE."
            )
        return load_round(self.to, self.key)


def contribute_command() -> TyperCommand:
    """Return ``suffice contribute``."""
    from suffice.owner.parties.contribution import AgreedRows, encode_part
    from suffice.owner.parties.ensemble import METHODS, PrivateEnsemble
    from suffice.owner.parties.gathering import PartyTable, cast_votes

    def contribute(
        options: _Contributed, reading: Reading, agreed: dict[str, Any], fields: dict[str, Any]
    ) -> None:
        """Write one party's contribution, for the aggregator only.

        A contribution holds what the party votes on public rows, or sums of its records. It is not
        private.
        """
        made = options.round(fields)
        ensemble = PrivateEnsemble(epsilon=1.0, **fields) if made is None else made.terms.ensemble
        rows = AgreedRows(**agreed).rows
        statistic, classes = METHODS[ensemble.released_method], ensemble.declared_classes()
        table = reading.open(options.table)
        if (options.label is None) == (options.cast is None):
            raise ParameterError(
                "Choose what votes: records with --label, or a column with --votes-column."
            )
        party = options.party or options.output.stem
        if options.cast is not None:
            part = cast_votes(
                table, options.cast, party, rows, classes=classes, statistic=statistic
            )
        else:
            with progress("reading records") as count_rows:
                records = PartyTable.read(
                    table,
                    rows,
                    label=options.label or "",
                    classes=classes,
                    party=None,
                    progress=count_rows,
                )
            samples = ensemble.samples or 1
            part = records.contribution(party, rows, statistic, ensemble.lam, samples)
        if made is not None and (misfit := made.misfit(party, encode_part(part))):
            raise ParameterError(f"Nothing was sent, because the round would reject it: {misfit}.")
        part.save(options.output, overwrite=options.force)
        if made is not None:
            from suffice.protocol.remote import Remote, read_token

            remote = Remote(made.terms.address, read_token(options.token))
            remote.contribute(made, encode_part(part))
        warning = (
            "not private. Send it to the aggregator only, by a connection that you both trust."
        )
        facts = {"written": str(options.output), "party": part.party, "holds": part.statistic}
        if made is not None:
            facts["sent to"] = made.terms.address
        facts["warning"] = warning
        if options.json:
            show_json(facts)
        else:
            show_pairs(facts.items())

    fields = selected_fields(PrivateEnsemble, ("method", "classes", "lam", "samples"))
    return make_command(contribute, agreed=AgreedRows, fields=fields)


@dataclass(frozen=True)
class _Sent:
    parts: list[Path] = data_option(
        REQUIRED,
        "Contributions (*.part files), or folders of them.",
        argument=True,
        many=True,
        parse=lambda texts: [Path(text) for text in texts],
    )


def aggregate_command() -> TyperCommand:
    """Return ``suffice aggregate``."""
    from suffice.owner.mechanism import Payment
    from suffice.owner.parties.ensemble import PrivateEnsemble
    from suffice.owner.parties.gathering import RoundSource

    def aggregate(
        sent: _Sent,
        source: dict[str, Any],
        mechanism: dict[str, Any],
        payment: dict[str, Any],
        release: ReleaseOptions,
    ) -> None:
        """Publish the noisy sum of what parties contributed.

        A contribution that is missing or malformed counts as zero.
        """
        files: list[Path] = []
        for path in sent.parts:
            files += sorted(path.glob("*.part")) if path.is_dir() else [path]
        # Of a folder, only the contributions are read.
        check_outputs(release.output, reads=files, force=release.force)
        make_and_write(
            partial(PrivateEnsemble, **mechanism),
            partial(RoundSource, files, **source),
            payment,
            release,
            "adding up contributions",
        )

    return make_command(aggregate, source=RoundSource, mechanism=PrivateEnsemble, payment=Payment)


@dataclass(frozen=True, kw_only=True)
class _Simulation(JsonOutput, Overwriting):
    """A public table, how it is cut into parties, and what is compared."""

    table: Path = data_option(
        REQUIRED,
        "Parquet, CSV, Feather, Excel or SPSS file, or a folder of them.",
        path=Path,
        argument=True,
    )
    label: str = data_option(REQUIRED, "Column that holds the labels; the whole table is public.")
    party: str | None = data_option(None, "Column that names the party of each record.")
    count: int | None = data_option(
        None,
        "Number of parties, instead of --party: records are dealt to them at random.",
        name="--parties",
    )
    epsilons: list[float] = privacy_option(
        (10.0, 3.0, 1.0, 0.3, 0.1),
        "Epsilons of each party, with commas. Default: 10,3,1,0.3,0.1.",
        parse=numbers,
    )
    delta: float = privacy_option(1e-5, "Delta. With 0 the noise is K-norm noise. Default: 1e-5.")
    methods: list[str] | None = privacy_option(
        None, "Methods to compare, with commas. Default: all.", parse=names
    )
    trials: int = data_option(3, "Number of random repetitions. Default: 3.")
    seed: int = data_option(
        0, "Seed of the random splits, 0 or more; noise has no seed. Default: 0."
    )
    aux_share: float = data_option(
        0.1, "Proportion of the rows that all parties vote on. Default: 0.1."
    )
    test_share: float = data_option(
        0.25, "Proportion of the rows held out for the test. Default: 0.25."
    )
    output: Path = output_option(
        Path("suffice-parties.html"),
        "The HTML page to write, with a plot. Default: suffice-parties.html.",
        **OUTPUT,
    )


def _parties_command() -> TyperCommand:
    """Return ``suffice simulate parties``."""
    from suffice.owner.labelled import Preprocessing
    from suffice.owner.parties.ensemble import PrivateEnsemble

    def parties(options: _Simulation, ensemble: dict[str, Any], mapped: dict[str, Any]) -> None:
        """Compare the accuracy of methods for many parties."""
        from suffice.papers import hamm

        if options.seed < 0:
            raise ParameterError("--seed must be 0 or more.")
        with steps("simulating") as show_step:
            results = hamm.simulate_table(
                options.table,
                options.epsilons,
                delta=options.delta,
                label=options.label,
                trials=options.trials,
                seed=options.seed,
                methods=options.methods or hamm.METHODS,
                progress=show_step,
                party=options.party,
                parties=options.count,
                shares=(options.aux_share, options.test_share),
                **{"lam": 1e-4, "classes": (0, 1), **ensemble},
                **mapped,
            )
        page = hamm.write_simulation(results, options.output, overwrite=options.force)
        if options.json:
            show_json(results)
            return
        show_table(page.title, page.columns, page.rows)
        say(f"The page with the plot: {options.output}")

    return make_command(
        parties,
        ensemble=selected_fields(PrivateEnsemble, ("classes", "lam")),
        mapped=selected_fields(Preprocessing, ("categories", "map", "missing")),
    )


simulate_app = typer.Typer(
    cls=group_with({"parties": _parties_command}),
    help="Simulate many parties on a public table.",
)


_Folder = Annotated[Path, typer.Argument(help="Folder that holds suffice.toml.")]
_Round = Annotated[Path, typer.Argument(metavar="ROUND", help="The round's file.")]


@dataclass(frozen=True, kw_only=True)
class _Agreed(OutputFile):
    """What a round's file says besides the release and the auxiliary rows."""

    title: str = data_option(REQUIRED, "What the round is for, for example Spring 2027.")
    enrolled: str = data_option(
        REQUIRED,
        "Names of the enrolled parties: a text file with a name on each line, or a list with"
        " commas.",
        path=lambda text: Path(text) if Path(text).is_file() else None,
    )
    closes: str = data_option(
        REQUIRED, "Closing time with its zone, for example 2027-03-31T12:00Z."
    )
    address: str = data_option(
        REQUIRED, "Address of the service, for example https://clinic.example."
    )
    sign: Path = output_option(REQUIRED, "The aggregator's private key, which signs it.", **FILE)


def new_round_command() -> Any:
    """Return ``suffice round new``."""
    from suffice.owner.parties.contribution import AgreedRows, PartForm
    from suffice.owner.parties.ensemble import METHODS, PrivateEnsemble
    from suffice.owner.parties.gathering import enrolled_parties
    from suffice.owner.parties.rounds import RoundTerms, closing_time, enrolled_names, sign_round
    from suffice.releases.file import write_whole
    from suffice.service.settings import check_secure

    def new(round: _Agreed, agreed: dict[str, Any], release: dict[str, Any]) -> None:  # noqa: A002  # as people call it
        """Write and sign a round: what parties and aggregator agree on."""
        check_secure("The address of a round", round.address)
        ensemble, rows = PrivateEnsemble(**release), AgreedRows(**agreed).rows
        method, classes = ensemble.released_method, ensemble.declared_classes()
        part = PartForm.of(METHODS[method], rows, classes, ensemble.lam, ensemble.samples or 1)
        terms = RoundTerms(
            title=round.title,
            address=round.address.rstrip("/"),
            closes=closing_time(round.closes).isoformat(timespec="seconds"),
            enrolled=enrolled_names(enrolled_parties(round.enrolled)),
            method=method,  # type: ignore[arg-type]  # checked as a choice
            epsilon=ensemble.epsilon,
            delta=ensemble.delta,
            lam=ensemble.lam,
            samples=ensemble.samples if method == "class-sums" else None,
            part=part,
        )
        made = sign_round(terms, round.sign)
        write_whole(round.output, made.data, overwrite=round.force)
        facts = {
            "written": str(round.output),
            "round": made.id,
            "closes": terms.closes,
            "parties": len(terms.enrolled),
            "each sends": terms.part.statistic,
        }
        if round.json:
            show_json(facts)
        else:
            show_pairs((name, str(value)) for name, value in facts.items())

    fields = ("epsilon", "delta", "method", "classes", "lam", "samples")
    return make_command(new, agreed=AgreedRows, release=selected_fields(PrivateEnsemble, fields))


@dataclass(frozen=True, kw_only=True)
class _Closing(OutputFile):
    """Which round of which service ends."""

    folder: Path = data_option(
        REQUIRED, "Folder that holds suffice.toml.", argument=True, path=Path
    )
    round: Path = data_option(REQUIRED, "The round's file.", argument=True, path=Path)
    dataset: str = budget_option(
        REQUIRED, "Data set of the parties in the ledger of the service, with a budget per party."
    )


def close_round_command() -> Any:
    """Return ``suffice round close``."""
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.log import Kind
    from suffice.owner.ledger.tokens import utc_now
    from suffice.owner.parties.contribution import AgreedRows, PartForm
    from suffice.owner.parties.gathering import RoundSource

    def close(options: _Closing, agreed: dict[str, Any]) -> None:
        """Close a round, and release the noisy sum of its contributions.

        A contribution that is missing, late or rejected counts as zero, and its party is named. The
        contributions are deleted once the release is written. A round closes once.
        """
        settings, store, made = _round_of(options.folder, options.round)
        terms, rows = made.terms, AgreedRows(**agreed).rows
        classes = terms.ensemble.declared_classes()
        if terms.part != PartForm.of(
            terms.part.statistic, rows, classes, terms.lam, terms.samples or 1
        ):
            raise ParameterError(
                "The auxiliary rows or their pipeline are not those of the round. Nothing was"
                " closed. Use the options with which the round was made."
            )
        ledger = Ledger(settings.ledger)
        ledger.balances(options.dataset)  # a misspelt name closes nothing
        parts, standings = store.close(made, utc_now()), store.standings(made)
        ledger.record_answer(options.dataset, Kind.CLOSED, {"round": made.id})
        make_and_write(
            lambda: terms.ensemble,
            partial(RoundSource, parts, auxiliary=rows, enrolled=terms.enrolled),
            {"ledger": ledger, "dataset": options.dataset, "request": made.id},
            ReleaseOptions(
                output=options.output,
                sign=settings.key,
                force=options.force,
                json=options.json,
            ),
            "adding up contributions",
        )
        store.forget(made)
        for party, standing in standings.items():
            if standing.state == "rejected":
                say(f"suffice: counted as zero: {party}: {standing.reason}", error=True)

    return make_command(close, agreed=AgreedRows)


round_app = typer.Typer(
    cls=group_with(
        {"new": new_round_command, "close": close_round_command},
        {"Aggregator": ("new", "open", "token", "status", "close"), "Party": ("withdraw",)},
    ),
    help="Hold a round of many parties over a network.",
)


def _round_of(folder: Path, path: Path) -> tuple["Settings", "RoundStore", "SignedRound"]:
    """Return the settings of a service, its store of contributions, and a round of its own."""
    from suffice.owner.parties.rounds import RoundStore, load_round
    from suffice.releases.signing import signing_key
    from suffice.service.settings import Settings

    settings = Settings.load(folder)
    if settings.rounds is None:
        raise ParameterError(
            'This service takes no contributions. Add a line such as rounds = "clinic.rounds" to'
            " suffice.toml."
        )
    made = load_round(path)
    own = signing_key(settings.key).public_key().public_bytes_raw()
    if made.signature.key != own:
        raise ParameterError(
            "This round is not signed with the key of this service, so parties could not check its"
            " release. Make it with --sign and the key in suffice.toml."
        )
    return settings, RoundStore(settings.rounds), made


@round_app.command("open", cls=HelpfulCommand)
def open_for_parties(folder: _Folder, round: _Round, output: Output) -> None:  # noqa: A002  # as people call it
    """Take contributions to a round, and write one token for each party.

    Send each party the round's file, your public key and its own token. The tokens are shown
    nowhere else: keep their file secret, and delete it.
    """
    import csv
    import io

    from suffice.releases.file import write_whole

    check_outputs(output, reads=(folder, round), force=None)
    settings, store, made = _round_of(folder, round)
    if store.round(made.id) is not None:
        raise ParameterError("This round was opened before.")
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("party", "token"))
    rows.writerows(_new_tokens(settings, made, made.terms.enrolled))
    write_whole(output, text.getvalue().encode(), overwrite=False, mode=0o600)
    store.open(made)
    page = f"{made.terms.address}/rounds/{made.id}"
    show_pairs([("round", made.id), ("page for uploads", page), ("tokens", str(output))])


def _new_tokens(
    settings: "Settings", made: "SignedRound", parties: Iterable[str]
) -> list[tuple[str, str]]:
    """Return parties and the texts of their new tokens, which nobody can be shown again."""
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.tokens import Role, mint, utc_now
    from suffice.owner.parties.rounds import closing_time
    from suffice.service.records import ServiceRecords

    days = (closing_time(made.terms.closes) - utc_now()).days + 2  # also to ask what arrived
    if days < 2:
        raise ParameterError("The closing time of this round is over. Make another round.")
    records, texts = ServiceRecords(Ledger(settings.ledger)), []
    for party in parties:
        minted, text = mint(Role.PARTY, scope=(made.id,), holder=party, days=days)
        records.add_token(minted)
        texts.append((party, text))
    return texts


@round_app.command("token", cls=HelpfulCommand)
def token(
    folder: _Folder,
    round: _Round,  # noqa: A002  # as people call it
    party: Annotated[str, typer.Argument(metavar="PARTY", help="Name of an enrolled party.")],
) -> None:
    """Make another token for a party of a round, and print it once."""
    settings, _, made = _round_of(folder, round)
    if party not in made.terms.enrolled:
        raise ParameterError("No party of this name is enrolled. `suffice round status` names all.")
    ((_, text),) = _new_tokens(settings, made, [party])
    say(text)


@round_app.command("status", cls=HelpfulCommand)
def status(folder: _Folder, round: _Round, json: Json = False) -> None:  # noqa: A002  # as people call it
    """Say who has sent a contribution, who is missing, and why one was rejected."""
    _, store, made = _round_of(folder, round)
    standings = store.standings(made)
    if json:
        show_json({party: standing._asdict() for party, standing in standings.items()})
        return
    rows = [(party, *standing) for party, standing in standings.items()]
    show_table(made.terms.title, ("party", "state", "reason"), rows)


@round_app.command("withdraw", cls=HelpfulCommand)
def withdraw(
    round: _Round,  # noqa: A002  # as people call it
    key: Annotated[Path, typer.Option(help="The aggregator's public key.")],
    token: Annotated[
        Path | None,
        typer.Option(help="File that holds your token. Default: the environment's SUFFICE_TOKEN."),
    ] = None,
) -> None:
    """Delete what your party sent to a round, while it is open."""
    from suffice.owner.parties.rounds import load_round
    from suffice.protocol.remote import Remote, read_token

    made = load_round(round, key)
    Remote(made.terms.address, read_token(token)).withdraw(made)
    say("Nothing of your party is stored any more.")
