"""`suffice serve --task demo`: the real command, four proposals, and nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import httpx

STATES = {
    "diagnosis": {"find patients who need a second biopsy": "waiting",
                  "a classifier for a course in statistics": "countered"},
    "relapse": {"predict who comes back within a year": "granted",
                "the same with less noise": "refused"},
}  # fmt: skip
LONGEST_SECONDS = 300  # a guard against hanging, not a measurement


@contextmanager
def demo(tmp_path, *words: str):
    """Yield process, address, tokens by role, and the temporary folder of temporary folders."""
    temporary = tmp_path / "temporary"
    temporary.mkdir(exist_ok=True)
    process = subprocess.Popen(
        [sys.executable, "-m", "suffice", "serve", *words, "--task", "demo", "--port", "0"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(temporary)},
    )  # fmt: skip
    try:
        printed = ""
        while "The files are in" not in printed:
            line = process.stdout.readline()
            assert line, printed
            printed += line
        url = re.search(r"http://127\.0\.0\.1:\d+", printed).group()
        yield process, url, dict(re.findall(r"(\w+): (suffice_\S+)", printed)), temporary
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_until(condition) -> None:
    end = time.monotonic() + LONGEST_SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


def states(url: str, token: str, dataset: str) -> dict[str, str]:
    place = f"{url}/v1/datasets/{dataset}/proposals"
    listed = httpx.get(place, headers={"Authorization": f"Bearer {token}"}, timeout=60)
    return {row["purpose"]: row["state"] for row in listed.raise_for_status().json()}


def test_one_command_shows_everything_and_leaves_nothing(tmp_path):
    with demo(tmp_path) as (process, url, tokens, temporary):
        assert set(tokens) == {"owner", "officer", "learner"}
        assert len(list(temporary.glob("suffice-demo-*/patients.csv"))) == 1
        with httpx.Client(base_url=url, timeout=60) as owner:
            assert owner.post("/login", data={"token": tokens["owner"]}).status_code == 303
            assert "Clinic of Nowhere (invented)" in owner.get("/").text
            for dataset, expected in STATES.items():
                wait_until(lambda d=dataset, e=expected: states(url, tokens["owner"], d) == e)
            page = owner.get("/").text
            for expected in STATES.values():
                for purpose, state in expected.items():
                    assert purpose in page
                    assert state in page
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_SECONDS) == 0
        assert "is removed." in process.stdout.read()
        assert [path.name for path in temporary.iterdir() if path.is_dir()] == []


def test_a_folder_of_ones_own_stays_and_can_be_served_again(tmp_path):
    folder = tmp_path / "clinic"
    with demo(tmp_path, str(folder)) as (process, _, _, temporary):
        process.send_signal(signal.SIGTERM)  # before the learner is done
        assert process.wait(LONGEST_SECONDS) == 0
        assert list(temporary.glob("suffice-demo-*")) == []
    assert (folder / "suffice.toml").exists()
    again = subprocess.run(
        [sys.executable, "-m", "suffice", "serve", str(folder), "--task", "demo"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (again.returncode, "Name a new folder" in again.stderr) == (2, True)


def test_a_task_that_does_not_exist_is_refused(tmp_path):
    words = [sys.executable, "-m", "suffice", "serve", str(tmp_path / "a"), "--task", "sing"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (ended.returncode, "one of init, check, demo, example" in ended.stderr) == (2, True)
    assert not (tmp_path / "a").exists()
