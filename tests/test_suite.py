"""The suite says what it skipped, fails where it may not, and ends a test that never ends."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SKIPPED = """
import pytest
@pytest.mark.skip(reason="There is no Chromium on this machine.")
def test_a_page(): pass
def test_a_number(): assert True
"""
ENDLESS = """
import threading
def test_that_waits(): threading.Event().wait()
def test_that_passes(): pass
"""


@pytest.fixture
def run(tmp_path):
    """Return what runs tests of a text with the settings of this suite."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    folder = tmp_path / "tests"
    folder.mkdir()
    shutil.copy(ROOT / "tests" / "skipped.py", folder / "conftest.py")

    def run_text(text: str, *words: str, **variables: str) -> tuple[int, list[str]]:
        (folder / "test_it.py").write_text(text)
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "SUFFICE"))}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words],
            cwd=tmp_path,
            env={**env, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.strip().splitlines()

    return run_text


def test_what_was_skipped_is_the_last_line_and_fails_where_it_may_not(run):
    last = "tests skipped: 1 (There is no Chromium on this machine.)"
    for words in ((), ("-n", "1")):
        code, lines = run(SKIPPED, *words)
        assert (code, lines[-1]) == (0, last), lines
        code, lines = run(SKIPPED, *words, SUFFICE_NEVER_SKIP="Chromium playwright")
        assert (code, lines[-1]) == (1, last), lines
        assert lines[-2].startswith("FAILED: these tests may not be skipped here: There is no Chr")


def test_a_test_that_never_ends_fails_and_the_others_run(run):
    code, lines = run(ENDLESS, "-n", "1", "-o", "faulthandler_timeout=2")
    text = "\n".join(lines)
    assert code == 1, text
    assert "1 failed, 1 passed" in text
    assert "test_that_waits" in text


def test_a_test_may_take_a_quarter_of_an_hour(pytestconfig):
    assert float(pytestconfig.getini("faulthandler_timeout")) == 900
    assert pytestconfig.getini("faulthandler_exit_on_timeout")


def test_ci_forbids_to_skip_what_it_installed():
    script = (ROOT / ".ci" / "run").read_text()
    assert (
        'if command -v chromium >/dev/null; then\n  export SUFFICE_NEVER_SKIP="Chromium' in script
    )
