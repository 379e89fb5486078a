"""The service as a system user: nobody, without a home, on a read-only file system."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from served import make_clinic

import suffice.kernels
from suffice.kernels.maps import row_norms
from suffice.protocol.remote import Remote

SCRIPT = Path(__file__).with_name("as_nobody.sh")
KERNELS = Path(suffice.kernels.__file__).with_name("__pycache__")
ALLOWED = ["unshare", "--mount", "true"]


def _why_not() -> str:
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("setpriv") is None:
        return "needs root, unshare and setpriv"
    if any(Path(sys.prefix).is_relative_to(hidden) for hidden in ("/tmp", "/root")):
        return "the environment lies in a folder that nobody is not shown"
    done = subprocess.run(ALLOWED, capture_output=True, check=False)
    return "" if done.returncode == 0 else "this machine allows no mount namespaces"


pytestmark = pytest.mark.skipif(bool(_why_not()), reason=_why_not())


PLACE = "/srv/folder"  # of the folder, for nobody


def as_nobody(folder: Path, cold: str, *command: str) -> list[str]:
    words = ["unshare", "--mount", "sh", str(SCRIPT), str(folder), sys.base_prefix, cold]
    return [*words, sys.executable, *command]


@pytest.mark.parametrize(
    "cold",
    [
        pytest.param("", id="kept kernels"),
        # A minute of compiling. That kernels compile there is also tested below, with one of them.
        pytest.param(str(KERNELS), id="no kept kernels", marks=pytest.mark.audit),
    ],
)
def test_a_whole_grant_works_for_nobody_on_a_read_only_file_system(tmp_path, cold):
    """From an empty folder: settings, key, ledger, tokens, budget, proposal, release."""
    clinic = make_clinic(tmp_path / "clinic")
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("table.csv", "suffice.toml"):
        shutil.copy(clinic.folder / name, folder)
    for path in (folder, *folder.iterdir()):
        shutil.chown(path, "nobody", "nogroup")

    def suffice(*words: str) -> str:
        command = as_nobody(folder, cold, "-m", "suffice", *words)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    suffice("serve", PLACE, "--task", "init")
    for name in ("diagnosis", "smoker"):
        budget = ("--dataset", name, "--epsilon", "1", "--classes", "0,1")
        suffice("ledger", "init", f"{PLACE}/clinic.ledger", *budget)
    token = suffice("token", "new", PLACE, "learner", "Ada").split()[-1]
    command = as_nobody(folder, cold, "-m", "suffice", "serve", PLACE, "--port", "0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as it:
        try:
            url = re.search(r"http://[\d.]+:\d+", it.stdout.readline())
            assert url is not None, it.stderr.read()
            remote = Remote(url.group(), token, folder / "clinic.pub")
            answer, release = remote.propose(clinic.proposal(), "diagnosis", wait=120)
        finally:
            it.terminate()
        assert it.wait(60) == 0
        assert it.stderr.read() == ""
    assert (answer.name, len(release.parts)) == ("granted", 1)


def test_the_place_is_as_read_only_as_it_says(tmp_path):
    """The test above shows something only if nothing but the folder can be written."""
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    tried = (
        "import os, pathlib\n"
        f"for place in ({PLACE!r}, '/tmp', '/var/tmp', '/srv', {str(KERNELS)!r}):\n"
        "    try: pathlib.Path(place, 'x').touch(); print(place)\n"
        "    except OSError: pass\n"
        "print(os.geteuid(), os.environ['HOME'])\n"
    )
    done = subprocess.run(
        as_nobody(folder, "", "-c", tried), capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [PLACE, "65534", "/nonexistent"], done.stderr


def test_kept_kernels_are_read_where_nothing_can_be_written(tmp_path):
    rows = np.ones((2, 3))
    row_norms(rows)  # here it is kept
    tmp_path.chmod(0o755)
    asked = (
        "import numpy as np\n"
        "from suffice.kernels.maps import row_norms\n"
        "row_norms(np.ones((2, 3)))\n"
        "print(sum(row_norms.stats.cache_hits.values()))\n"
    )
    for cold, hits in (("", "1"), (str(KERNELS), "0")):
        command = as_nobody(tmp_path, cold, "-c", asked)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.stdout.strip(), done.stderr) == (hits, "")
