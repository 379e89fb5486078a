"""The files of deploy/: the unit is one that systemd takes, and its command is one of ours."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[1] / "deploy"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_unit(tmp_path):
    unit = tmp_path / "suffice.service"
    text = (DEPLOY / "suffice.service").read_text()
    program = shutil.which("true")
    assert program is not None
    unit.write_text(text.replace("/opt/suffice/bin/suffice", program))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_gives_the_service_one_folder_and_no_rights():
    lines = set((DEPLOY / "suffice.service").read_text().splitlines())
    wanted = {"DynamicUser=yes", "ProtectSystem=strict", "StateDirectory=suffice"}
    assert wanted | {"NoNewPrivileges=yes", "CapabilityBoundingSet=", "KillMode=mixed"} <= lines


def test_unit_and_image_run_the_same_command():
    unit = (DEPLOY / "suffice.service").read_text()
    image = (DEPLOY / "Containerfile").read_text()
    assert "ExecStart=/opt/suffice/bin/suffice serve /var/lib/suffice\n" in unit
    assert re.findall(r"^(?:ENTRYPOINT|CMD) (.*)$", image, re.MULTILINE) == [
        '["suffice"]', '["serve", "/var/lib/suffice"]',
    ]  # fmt: skip
    assert "USER 65534:65534" in image
    assert "read_only: true" in (DEPLOY / "compose.yaml").read_text()
