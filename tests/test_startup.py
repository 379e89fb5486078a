"""What a command imports, seen from a process of its own: nothing heavy that it does not need."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "tests" / "fixtures").glob("*.suffice"))
HEAVY = {
    "dask", "distributed", "dp_accounting", "matplotlib", "numba", "numpy", "opendp", "pandas",
    "polars", "pyarrow", "pyspark", "scipy", "sklearn",
}  # fmt: skip

COMMANDS = """
import contextlib, io, json, sys
from suffice.cli.main import app

for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        app(words, standalone_mode=False)
    assert out.getvalue()
"""


def heavy(script: str, *words: str) -> set[str]:
    """Return which heavy libraries a script has imported when it is done."""
    script += "\nimport sys\nprint(*{name.partition('.')[0] for name in sys.modules})"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", script, *words], env=env, check=True, capture_output=True, text=True
    )
    return HEAVY & set(done.stdout.split())


def test_the_package_and_the_list_of_commands_import_nothing_heavy():
    assert heavy("import suffice") == set()
    assert heavy("import suffice.cli.main") == set()
    assert heavy("import suffice.participant") == set()


def test_inspecting_a_release_of_any_kind_needs_numpy_alone():
    assert len(FILES) >= 13
    commands = [["inspect", str(path)] for path in FILES]
    assert heavy(COMMANDS, json.dumps(commands)) == {"numpy"}


def test_releasing_a_mean_operator_needs_neither_learners_nor_plots(tmp_path):
    table = tmp_path / "table.csv"
    rows = (f"{i % 7},{i % 5},{i % 2}" for i in range(60))
    table.write_text("\n".join(["a,b,sick", *rows]))
    words = [
        "release",
        "mean-operator",
        "--map",
        "none",
        str(table),
        "--label",
        "sick",
        "--no-ledger",
    ]
    promises = {"laplace": "0", "gaussian": "1e-6", "knorm": "0", "auto": "1e-6"}
    commands = [
        [*words, "--epsilon=1", f"--delta={delta}", f"--noise={name}", f"-o{tmp_path / name}"]
        for name, delta in promises.items()
    ]
    unused = {"dp_accounting", "matplotlib", "polars", "sklearn"}
    assert heavy(COMMANDS, json.dumps(commands)) & unused == set()
