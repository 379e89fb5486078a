"""Commands of the service: prepare it, make its tokens, run it, and show a demo of it.

In `suffice serve --task demo`, clinic, patients and learner are invented. Everything else is real:
the service, its ledger and key, and the client with which the learner sends four proposals. The
learner runs in a process of its own, so that the pages are up before anything is computed.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli.building import HelpfulCommand, group_with
from suffice.cli.output import reported, say, show_json, show_table
from suffice.cli.starting import Project
from suffice.errors import ParameterError, ServiceError
from suffice.strict_json import plain

if TYPE_CHECKING:
    from suffice.service.records import ServiceRecords

_LEARNER = "learner"  # the folder of what the learner has: rows, token, the owner's public key
_TASKS = ("init", "check", "demo", "example")
_WAIT_SECONDS = 120.0
_SETTINGS = """\
# An invented clinic, made by `suffice serve --task demo`.
organisation = "Clinic of Nowhere (invented)"
ledger = "clinic.ledger"
key = "clinic.key"

[server]
port = 8765

# The owner decides about each proposal.
[datasets.diagnosis]
table = "patients.csv"
label = "diagnosis"
grants = "by-hand"
[datasets.diagnosis.policy]
largest_epsilon = 0.5
features = ["age", "size", "nodes", "stage"]

# The policy decides alone.
[datasets.relapse]
table = "patients.csv"
label = "relapse"
grants = "automatic"
[datasets.relapse.policy]
largest_epsilon = 0.5
features = ["age", "size", "nodes", "stage"]
"""
_BUDGETS = {"diagnosis": 2.0, "relapse": 0.5}
_HOLDERS = {
    "owner": "the clinic's owner",
    "officer": "the data protection officer",
    "learner": "Ada, University of Nowhere",
}


@dataclass(frozen=True)
class _Wish:
    """A proposal that the invented learner sends."""

    dataset: str
    epsilon: float
    purpose: str
    waits: bool = False  # for its owner


_WISHES = (
    _Wish("diagnosis", 0.25, "find patients who need a second biopsy", waits=True),
    _Wish("diagnosis", 1.5, "a classifier for a course in statistics"),  # countered: at most 0.5
    _Wish("relapse", 0.5, "predict who comes back within a year"),  # granted: all of the budget
    _Wish("relapse", 0.2, "the same with less noise"),  # refused: nothing is left
)


def run_demo_service(folder: Path | None, port: int | None) -> None:
    """Serve an invented clinic until the process is told to stop.

    A new ``folder`` stays; None stands for a temporary one, which is removed at the end.
    """
    from suffice.service.app import exits_on_signals, run_server
    from suffice.service.settings import Settings

    learners: list[subprocess.Popen[bytes]] = []
    with exits_on_signals(), _folder(folder) as clinic:
        tokens = _make_clinic(clinic)

        def welcome(url: str) -> None:
            say(*_welcome(url, clinic, tokens, stays=folder is not None))
            # A session of its own: Ctrl-C is for the service, which ends the learner.
            command = [sys.executable, "-m", __name__, url, str(clinic / _LEARNER)]
            learners.append(subprocess.Popen(command, start_new_session=True))  # noqa: S603  # our own

        try:
            run_server(Settings.load(clinic), port=port, tell=welcome)
        finally:
            for learner in learners:
                learner.kill()
                learner.wait()


@contextmanager
def _folder(folder: Path | None) -> Iterator[Path]:
    """Yield the folder of the clinic, empty at first; a temporary one ends with the block."""
    if folder is not None:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ParameterError(f"{folder} holds files already. Name a new folder for the demo.")
        folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    temporary = Path(tempfile.mkdtemp(prefix="suffice-demo-"))
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        say(f"{temporary} is removed.")


def _make_clinic(folder: Path) -> Mapping[str, str]:
    """Write all that an owner needs for a service; return the text of one token for each role."""
    from pyarrow import csv

    from suffice.demo.story import PATIENT_COLUMNS, invented_patients
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.tokens import mint
    from suffice.privacy.guarantee import Budget
    from suffice.releases.file import write_whole
    from suffice.releases.signing import generate_keys
    from suffice.service.settings import FILE_NAME, Settings
    from suffice.service.workers import Service

    learner = folder / _LEARNER
    learner.mkdir()
    patients = invented_patients()
    csv.write_csv(patients, folder / "patients.csv")
    csv.write_csv(patients.select(PATIENT_COLUMNS), learner / "rows.csv")
    budgets = {name: {"label": Budget(epsilon)} for name, epsilon in _BUDGETS.items()}
    classes = {name: {name: (0, 1)} for name in _BUDGETS}
    Ledger(folder / "clinic.ledger", budgets, classes, anchor=folder / "clinic.anchor")
    _, public = generate_keys(folder / "clinic")
    shutil.copy(public, learner / "clinic.pub")
    write_whole(folder / FILE_NAME, _SETTINGS.encode())
    records = Service(Settings.load(folder)).records
    texts: dict[str, str] = {}
    for role, holder in _HOLDERS.items():
        token, texts[role] = mint(role, holder=holder, days=7)
        records.add_token(token)
    write_whole(learner / "token", texts["learner"].encode(), mode=0o600)
    return texts


def _welcome(url: str, folder: Path, tokens: Mapping[str, str], *, stays: bool) -> list[str]:
    """Return what a person who looks around has to know."""
    rows, token, key = (folder / _LEARNER / name for name in ("rows.csv", "token", "clinic.pub"))
    command = f"suffice propose {rows} --epsilon 0.1 --to {url} --dataset diagnosis"
    return [
        f"Serving on {url} (stop with Ctrl-C)",
        "Clinic, patients and learner are invented. Tokens are shown this once:",
        *(f"  {role}: {text}" for role, text in tokens.items()),
        "",
        f"1. Open {url} and sign in with the owner's token.",
        "2. Four proposals of the learner arrive in the first minute. One waits for your decision.",
        "3. Sign out, and sign in with the officer's token: an officer reads, and changes nothing.",
        "4. Sign in with the learner's token: ask for a release, and see how to train on it.",
        "5. Send a proposal from another terminal:",
        f"  {command} --token {token} --key {key} -o mine.suffice",
        "",
        f"The files are in {folder}{'' if stays else ', and are removed when you stop'}.",
    ]


def _send_proposals(url: str, folder: Path) -> None:
    """Be the learner: send every proposal, and check what comes back."""
    from suffice.protocol.grant import propose
    from suffice.protocol.remote import Remote, read_token

    remote = Remote(url, read_token(folder / "token"), folder / "clinic.pub")
    waiting = ""
    for wish in _WISHES:
        proposal = propose(folder / "rows.csv", epsilon=wish.epsilon, purpose=wish.purpose)
        if wish.waits:
            with suppress(ServiceError):  # there is no answer yet
                remote.propose(proposal, wish.dataset, wait=0)
            waiting = f"{url}/data/{wish.dataset}/{proposal.digest}"
        else:
            remote.propose(proposal, wish.dataset, wait=_WAIT_SECONDS)
    say(f"Three proposals have their answers. This one waits for yours: {waiting}")


_Folder = Annotated[Path, typer.Argument(help="Folder that holds suffice.toml.")]
token_app = typer.Typer(
    cls=group_with({}, {"Commands": ("new", "list", "revoke")}),
    help="Make, list and revoke the tokens of a service.",
)


def serve(
    folder: Annotated[Path | None, typer.Argument(help="Folder that holds suffice.toml.")] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar=f"[{'|'.join(_TASKS)}]",
            help="What to do instead. init: make settings, key, ledger and the first owner's token,"
            " and end. check: check settings, key, ledger and tables, and end. demo: serve an"
            " invented clinic, to look around, without a folder. example: print an example of"
            " suffice.toml, and end.",
        ),
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port, instead of that in suffice.toml.")] = None,
) -> None:
    """Answer learners' proposals over the network.

    The settings are in the file suffice.toml of the folder. `--task example` explains them.
    """
    from suffice.service.settings import EXAMPLE, Settings

    if task not in (None, *_TASKS):
        raise ParameterError(f"--task must be one of {', '.join(_TASKS)}; got {task!r}.")
    if task == "example":
        say(*EXAMPLE.splitlines())
        return
    if task == "demo":
        run_demo_service(folder, port)
        return
    if folder is None:
        raise ParameterError("Name the folder that holds suffice.toml.")
    if task == "init":
        _prepare(folder)
        return
    settings = Settings.load(folder)
    for name, served in settings.datasets.items():
        if served.budget is not None and served.approvers == 1:
            Project(folder, settings, name).ledger()
    from suffice.service.app import run_server
    from suffice.service.readiness import Readiness
    from suffice.service.workers import Service, table_trouble

    if task == "check":
        service = Service(settings)
        for name in settings.datasets:
            if not service.records.is_open(name):
                say(f"Data set {name!r} has no budget yet. An owner adds it on the pages.")
            service.troubles.note(name, table_trouble(settings, name))
        report = Readiness(service).look()
        if not report.ready:
            raise ServiceError(" ".join(report.reasons))
        say(f"The service can start. Its log has {report.entries:,} verified entries.")
        return
    run_server(
        settings,
        port=port,
        tell=lambda url: say(f"Serving on {url} (stop with Ctrl-C)"),
        load=lambda: Settings.load(folder),
    )


def _prepare(folder: Path) -> None:
    """Make what is missing: example settings, their key, a ledger without data, an owner's token.

    Budgets are final, so nobody but the owner sets them.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.ledger import store_at
    from suffice.owner.ledger.tokens import Role, mint, utc_now
    from suffice.releases.file import write_whole
    from suffice.releases.signing import generate_keys
    from suffice.service.settings import EXAMPLE, FILE_NAME, Settings

    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE_NAME).exists():
        write_whole(folder / FILE_NAME, EXAMPLE.encode(), overwrite=False, mode=0o600)
        say(f"{folder / FILE_NAME}: these are example settings. Make them yours.")
    settings = Settings.load(folder)
    if settings.key.suffix == ".key" and not settings.key.exists():
        _, public = generate_keys(settings.key.with_suffix(""))
        say(f"{public}: learners check releases with this public key.")
    store = store_at(settings.ledger)
    if not store.exists():
        Ledger(settings.ledger, {}, anchor=settings.key.with_suffix(".anchor"))
        say(
            f"{store.path}: this ledger has no budgets yet. Add one for each data set with"
            f" `suffice ledger init {store.path} --dataset NAME --epsilon NUMBER`."
        )
    records, now = _records(folder), utc_now()
    if any(t.role is Role.OWNER and t.is_good(now) for t in records.tokens()):
        raise ParameterError("An owner has a token already. Make others with `suffice token new`.")
    token, text = mint(Role.OWNER, holder="first owner")
    records.add_token(token)
    say(f"Start the service with `suffice serve {folder}`. Sign in on its pages with this token.")
    say("It is the first owner's. Keep it safe: it cannot be shown again.")
    say(text)


@token_app.command("new", cls=HelpfulCommand)
def new(
    folder: _Folder,
    role: Annotated[
        str, typer.Argument(help="What the holder may do: owner, officer, learner or organiser.")
    ],
    holder: Annotated[str, typer.Argument(help="For whom it is, for example 'Ada, Example Ltd'.")],
    dataset: Annotated[
        list[str] | None, typer.Option(help="Data set that it covers (repeatable). Default: all.")
    ] = None,
    days: Annotated[int, typer.Option(help="How many days it is good.")] = 90,
) -> None:
    """Make a token, and print it once."""
    from suffice.owner.ledger.tokens import mint
    from suffice.service.settings import Settings

    served = Settings.load(folder).datasets
    unknown = [name for name in dataset or () if name not in served]
    if unknown:
        raise ParameterError(
            f"The settings name no data set {unknown[0]!r}. They name {', '.join(served)}."
        )
    token, text = mint(role, scope=tuple(dataset or ()), holder=holder, days=days)
    _records(folder).add_token(token)
    say(f"Token {token.id} is good until {token.expires:%Y-%m-%d}. It cannot be shown again:")
    say(text)


@token_app.command("list", cls=HelpfulCommand)
def list_tokens(
    folder: _Folder, json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """List all tokens. Their secrets are not stored, so nobody can list those."""
    tokens = _records(folder).tokens()
    if json:
        show_json([plain(token.record()) for token in tokens])
        return
    heads = ("id", "role", "data sets", "holder", "expires", "state")
    rows = [
        (t.id, str(t.role), ", ".join(t.scope) or "all", t.holder, f"{t.expires:%Y-%m-%d}", t.state)
        for t in tokens
    ]
    show_table("tokens", heads, rows)


@token_app.command("revoke", cls=HelpfulCommand)
def revoke(
    folder: _Folder,
    named: Annotated[
        str,
        typer.Argument(metavar="ID", help="Id of a token, or a holder, whose tokens all end."),
    ],
) -> None:
    """Revoke a token, or all of a holder. They are useless from now on."""
    records = _records(folder)
    tokens = [t.id for t in records.tokens() if named in (t.id, t.holder)]
    if not tokens:
        raise ParameterError("No token has this id or holder. `suffice token list` shows them.")
    for token in tokens:
        records.revoke_token(token)
        say(f"Token {token} is revoked.")


def _records(folder: Path) -> "ServiceRecords":
    from suffice.owner.ledger import Ledger
    from suffice.service.records import ServiceRecords
    from suffice.service.settings import Settings

    return ServiceRecords(Ledger(Settings.load(folder).ledger))


if __name__ == "__main__":
    with reported():
        _send_proposals(sys.argv[1], Path(sys.argv[2]))
