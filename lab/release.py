"""Build what a release consists of, and try the wheel in clean environments.

    python lab/release.py [--python python3.11,python3.12,python3.13] [--licences]

Writes dist/: the source archive, the wheel, the changelog, the components with their licences
(CycloneDX 1.6) and SHA256SUMS. Then it installs the wheel with the pinned versions for every Python
of the list that is on this machine, and follows the how-to pages there. Nothing is uploaded.
--licences only prints the table of docs/licences.md.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
TYPES = {  # of fragments, in the order of the changelog
    "privacy": "Privacy: what changes a guarantee",
    "added": "Added",
    "changed": "Changed",
    "fixed": "Fixed",
}


def changelog(version: str) -> str:
    """Return the changelog of the fragments in changelog.d, one line each."""
    parts = [f"# Changes in {version}"]
    for kind, title in TYPES.items():
        found = sorted((ROOT / "changelog.d").glob(f"*.{kind}.md"))
        lines = ["- " + " ".join(path.read_text().split()) for path in found]
        parts += [f"## {title}", "\n".join(lines)] if lines else []
    return "\n\n".join(parts) + "\n"


def components(name: str = "suffice") -> dict[str, Distribution]:
    """Return what an installation of all roles needs, by name, all that these need included."""
    found: dict[str, Distribution] = {}
    waiting, seen = [(name, frozenset({"all"}))], set[tuple[str, frozenset[str]]]()
    while waiting:
        wanted, extras = waiting.pop()
        own = distribution(wanted)
        found[wanted.lower()] = own
        for text in own.requires or ():
            asked = Requirement(text)
            marker = asked.marker
            here = marker is None or any(marker.evaluate({"extra": e}) for e in ("", *extras))
            part = asked.name, frozenset(asked.extras)
            if here and part not in seen:
                seen.add(part)
                waiting.append(part)
    del found[name]
    return dict(sorted(found.items()))


def licence_of(own: Distribution) -> str:
    """Return what a distribution says of its licence, in one short line."""
    about = own.metadata
    named = about.get("License-Expression")
    listed = [
        line.rpartition(" :: ")[2]
        for line in about.get_all("Classifier", [])
        if line.startswith("License ::")
    ]
    text = named or ", ".join(listed) or (about.get("License") or "not stated")
    return text.splitlines()[0][:60]


def licence_table() -> str:
    """Return the table of docs/licences.md."""
    rows = [f"| {name} | {licence_of(own)} |" for name, own in components().items()]
    return "\n".join(["| library | licence |", "|---|---|", *rows])


def sbom(version: str) -> str:
    """Return the components as CycloneDX JSON."""
    listed = [
        {
            "type": "library",
            "name": name,
            "version": own.version,
            "purl": f"pkg:pypi/{name}@{own.version}",
            "licenses": [{"license": {"name": licence_of(own)}}],
        }
        for name, own in components().items()
    ]
    about = {"component": {"type": "library", "name": "suffice", "version": version}}
    facts = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1}
    return json.dumps({**facts, "metadata": about, "components": listed}, indent=1) + "\n"


def call(*words: str | Path) -> None:
    """Run a program; it is an error if it fails."""
    subprocess.run([*map(str, words)], cwd=ROOT, check=True)  # noqa: S603  # our own words


def build() -> str:
    """Write everything into dist/; return the version."""
    version = distribution("suffice").version
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        call(sys.executable, "-m", "venv", folder)
        python = Path(folder) / "bin" / "python"
        call(python, "-m", "pip", "install", "--quiet", "hatchling")
        call(python, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", DIST)
    (DIST / "CHANGELOG.md").write_text(changelog(version))
    (DIST / "sbom.json").write_text(sbom(version))
    sums = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"
        for path in sorted(DIST.iterdir())
    ]
    (DIST / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    return version


def try_wheel(version: str, python: str) -> None:
    """Install the wheel in a clean environment and follow the how-to pages there."""
    began = time.monotonic()
    (wheel,) = DIST.glob(f"suffice-{version}-*.whl")
    with tempfile.TemporaryDirectory() as folder:
        call(python, "-m", "venv", folder)
        own = Path(folder) / "bin" / "python"
        pinned = ("--constraint", ROOT / "constraints.txt")
        tools = ("pytest", "pytest-xdist", "hypothesis", "pandas", "openpyxl")
        call(own, "-m", "pip", "install", "--quiet", *pinned, f"{wheel}[service]", *tools)
        call(own, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_howto.py")
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    seconds = time.monotonic() - began
    print(f"{python}: the how-tos pass from the wheel; {size / 1e6:.0f} MB, {seconds:.0f} s")


def main() -> int:
    """Build, and try; return 1 if no Python of the list is here."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", default="python3.11,python3.12,python3.13")
    parser.add_argument("--licences", action="store_true")
    asked = parser.parse_args()
    if asked.licences:
        print(licence_table())
        return 0
    version, tried = build(), 0
    for path in sorted(DIST.iterdir()):
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    for name in asked.python.split(","):
        python = shutil.which(name)
        if python is None or subprocess.run([python, "--version"], check=False).returncode:  # noqa: S603
            print(f"{name} is not on this machine: not tried")
            continue
        try_wheel(version, python)
        tried += 1
    return int(tried == 0)


if __name__ == "__main__":
    sys.exit(main())
