"""What a test does to the processes of one server: another host name, and a stop in each grant.

`intervene` puts this file as sitecustomize.py on the path of a server, so that the server and its
workers run it before anything else. A worker that reaches the step writes its process id into
the file ``reached`` of a folder, and goes on when somebody has removed that file.
"""

import os
import shutil
import socket
import time
from pathlib import Path

__all__ = ["STEPS", "intervene"]

STEPS = ("before the debit", "between debit and finish", "after finish")


def intervene(folder: Path, host: str, step: str = "", draws: Path | None = None) -> dict[str, str]:
    """Return the variables of a server with these interventions; every draw adds a line."""
    folder.mkdir(exist_ok=True)
    shutil.copy(__file__, folder / "sitecustomize.py")
    return {
        "PYTHONPATH": f"{folder}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "TEST_FOLDER": str(folder),
        "TEST_HOST": host,
        "TEST_STEP": step,
        "TEST_DRAWS": str(draws or folder / "draws"),
    }


def _stop() -> None:
    reached = Path(os.environ["TEST_FOLDER"]) / "reached"
    (reached.parent / "pid").write_text(str(os.getpid()))
    (reached.parent / "pid").rename(reached)
    while reached.exists():
        time.sleep(0.02)


def _rename_host(host: str) -> None:
    about = os.uname()
    socket.gethostname = lambda: host
    os.uname = lambda: os.uname_result((about[0], host, *about[2:]))


def _install(step: str, draws: str) -> None:
    from suffice.owner.ledger import Ledger
    from suffice.privacy.noise import Noise

    debit, finish, add = Ledger.debit, Ledger.finish, Noise.add

    def stopped_debit(self, *arguments, **options):
        if step == STEPS[0]:
            _stop()
        return debit(self, *arguments, **options)

    def stopped_finish(self, *arguments):
        if step == STEPS[1]:
            _stop()
        finish(self, *arguments)
        if step == STEPS[2]:
            _stop()

    def counted_add(self, exact):
        with Path(draws).open("a") as lines:
            lines.write("drawn\n")
        return add(self, exact)

    Ledger.debit, Ledger.finish, Noise.add = stopped_debit, stopped_finish, counted_add


if "TEST_FOLDER" in os.environ and __name__ == "sitecustomize":
    _rename_host(os.environ["TEST_HOST"])
    _install(os.environ["TEST_STEP"], os.environ["TEST_DRAWS"])
