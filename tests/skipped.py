"""Hooks of pytest: what was skipped is the last line, and what may not be skipped fails."""

import os
import sys
from collections import Counter

import pytest


def _reasons(config: pytest.Config) -> Counter[str]:
    """Return why tests were skipped, and how many for each reason."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = [] if reporter is None else reporter.stats.get("skipped", [])
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)


def _forbidden(config: pytest.Config) -> list[str]:
    """Return the reasons that hold a word of SUFFICE_NEVER_SKIP, as .ci/run sets it."""
    words = os.environ.get("SUFFICE_NEVER_SKIP", "").split()
    return [reason for reason in _reasons(config) if any(word in reason for word in words)]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Let the run fail if a test was skipped for want of something that is there."""
    if session.exitstatus == pytest.ExitCode.OK and _forbidden(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print what was skipped as the last line, and what should not have been."""
    reasons = [f"{count} ({reason})" for reason, count in sorted(_reasons(config).items())]
    if hasattr(config, "workerinput") or not reasons:
        return
    write = sys.stdout.write
    if forbidden := _forbidden(config):
        write("FAILED: these tests may not be skipped here: " + "; ".join(forbidden) + "\n")
    write("tests skipped: " + "; ".join(reasons) + "\n")
