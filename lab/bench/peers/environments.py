"""Peers in environments of their own, made on demand: their versions never meet ours."""

import json
import os
import subprocess
import tempfile
import venv
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["asked", "python_of"]

HERE = Path(__file__).parent


def python_of(peer: str, *, with_us: bool = False) -> Path:
    """Return a peer's own interpreter; the first call installs it, ``with_us`` suffice too."""
    target = HERE / ".envs" / peer
    python = target / "bin" / "python"
    if not (target / "made").exists():
        venv.create(target, with_pip=True, clear=True)
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        own_package = ("--editable", HERE.parents[2]) if with_us else ()
        wanted = HERE / peer / "requirements.txt"
        subprocess.run([python, *install, "--requirement", wanted, *own_package], check=True)
        (target / "made").touch()
    return python


def asked(peer: str, *words: str, with_us: bool = False, **arrays: Any) -> Any:
    """Return what the peer's ``fit.py`` makes of these arrays, on one thread of its own process."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, answer = Path(folder) / "given.npz", Path(folder) / "answer.json"
        np.savez(inputs, **arrays)
        one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [python_of(peer, with_us=with_us), HERE / peer / "fit.py", *words, inputs, answer]
        subprocess.run(command, check=True, env=one_thread)
        return json.loads(answer.read_text())
