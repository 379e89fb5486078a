"""`suffice serve --demo`: a service with pages, on one command, for people who look around.

Clinic, patients and learner are invented. Everything else is real: the service, its ledger and
key, and the client with which the learner sends four proposals. The learner runs in a process of
its own, so that the pages are up before anything is computed.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from suffice.cli.output import reported, say
from suffice.errors import ParameterError, ServiceError
from suffice.owner.ledger.tokens import Role

__all__ = ["run_demo_service"]

_LEARNER = "learner"  # the folder of what the learner has: rows, token, the owner's public key
_WAIT_SECONDS = 120.0
_SETTINGS = """\
# An invented clinic, made by `suffice serve --demo`.
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
    Role.OWNER: "the clinic's owner",
    Role.OFFICER: "the data protection officer",
    Role.LEARNER: "Ada, University of Nowhere",
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

    Parameters
    ----------
    folder
        A new folder, which stays; None for a temporary one, which is removed at the end.
    port
        The port; None for that of an ordinary service.

    Raises
    ------
    ParameterError
        If the folder holds files already.
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


def _make_clinic(folder: Path) -> Mapping[Role, str]:
    """Write all that an owner needs for a service; return the text of one token for each role."""
    from pyarrow import csv

    from suffice.demo.story import PATIENT_COLUMNS, invented_patients
    from suffice.owner.ledger import Ledger
    from suffice.owner.ledger.tokens import mint
    from suffice.privacy.guarantee import Budget
    from suffice.release.file import write_whole
    from suffice.release.signing import generate_keys
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
    desk = Service(Settings.load(folder)).desk
    texts: dict[Role, str] = {}
    for role, holder in _HOLDERS.items():
        token, texts[role] = mint(role, holder=holder, days=7)
        desk.add_token(token)
    write_whole(learner / "token", texts[Role.LEARNER].encode(), mode=0o600)
    return texts


def _welcome(url: str, folder: Path, tokens: Mapping[Role, str], *, stays: bool) -> list[str]:
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
        "4. Send a proposal of your own, from another terminal:",
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


if __name__ == "__main__":
    with reported():
        _send_proposals(sys.argv[1], Path(sys.argv[2]))
