"""The wall between owner and learner, walked over the imports of every module."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SRC = Path(__file__).parents[1] / "src" / "suffice"
NEUTRAL = ("learner", "models", "releases", "privacy", "tables", "kernels", "engines")
SAMPLERS = (
    "suffice.privacy.noise", "suffice.privacy.randomness", "suffice.privacy.response", "opendp",
)  # fmt: skip
RANDOM = ("random", "secrets", "uuid", "numpy.random", "os.urandom", "os.getrandom")
SEEDS = ("seed", "seeds", "seeded", "rng", "generator", "entropy")
IO = ("os", "pathlib", "logging", "sqlite3", "socket", "subprocess", "tempfile", "io", "shutil")
PERILOUS = ("pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib")

CLUSTERS = ("dask", "distributed", "pyspark", "py4j")


@cache
def modules() -> dict[str, ast.Module]:
    """Return the tree of every module, by its path below src/suffice."""
    return {
        path.relative_to(SRC).as_posix(): ast.parse(path.read_text())
        for path in sorted(SRC.rglob("*.py"))
    }


def imports(tree: ast.Module) -> Iterator[str]:
    """Yield the full name of everything imported, wherever in the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def names_used(tree: ast.Module) -> Iterator[str]:
    """Yield dotted names that are called or read, by what they are and not what they are called.

    After ``import numpy as np``, np.random.normal is numpy.random.normal.
    """
    known = dict(aliases(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            head, *rest = ast.unparse(node).split(".")
            yield ".".join([known.get(head, head), *rest])


def aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the local name of everything imported, and its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((one.asname or one.name, one.name) for one in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((one.asname or one.name, f"{node.module}.{one.name}") for one in node.names)


def imports_any(tree: ast.Module, wanted: tuple[str, ...]) -> list[str]:
    return within(imports(tree), wanted)


def within(names: Iterator[str], wanted: tuple[str, ...]) -> list[str]:
    return [n for n in names if any(n == w or n.startswith(w + ".") for w in wanted)]


def folder(path: str) -> str:
    return path.partition("/")[0]


# Each rule: what it forbids, where it holds, and lines that it must catch there.


def samplers_outside_owner(path: str, tree: ast.Module) -> list[str]:
    free = folder(path) in ("owner", "audit", "privacy")
    return [] if free else imports_any(tree, SAMPLERS)


def owner_from_neutral_ground(path: str, tree: ast.Module) -> list[str]:
    parts = ("owner", "papers", "demo", "cli", "audit", "protocol", "service")
    forbidden = tuple(f"suffice.{part}" for part in parts)
    return imports_any(tree, forbidden) if folder(path) in NEUTRAL else []


def learner_from_the_other_side(path: str, tree: ast.Module) -> list[str]:
    """Owners need nothing that learners know; what both need is in models/."""
    bound = folder(path) in ("owner", *NEUTRAL) and folder(path) != "learner"
    return imports_any(tree, ("suffice.learner",)) if bound else []


def models_of_more_than_numbers(path: str, tree: ast.Module) -> list[str]:
    """Arrays in, arrays out: maths that knows no release, table or noise serves both sides."""
    if folder(path) != "models":
        return []
    allowed = ("suffice.errors", "suffice.kernels", "suffice.models")
    ours = [name for name in imports(tree) if name.partition(".")[0] == "suffice"]
    return [name for name in ours if not within(iter([name]), allowed)]


def papers_outside_cli(path: str, tree: ast.Module) -> list[str]:
    free = folder(path) in ("cli", "papers", "demo")
    return [] if free else imports_any(tree, ("suffice.papers", "suffice.demo"))


def pages_outside_their_users(path: str, tree: ast.Module) -> list[str]:
    free = folder(path) in ("cli", "papers", "demo", "audit", "pages")
    return [] if free else imports_any(tree, ("suffice.pages",))


def pages_that_know_the_house(path: str, tree: ast.Module) -> list[str]:
    """They are given plain values, tables and drawings, and know nobody who computes them."""
    forbidden = (
        *("owner", "learner", "models", "papers", "demo", "audit", "cli", "protocol", "service"),
        "participant",
    )
    inside = folder(path) == "pages"
    return imports_any(tree, tuple(f"suffice.{part}" for part in forbidden)) if inside else []


def audit_reached_from_a_release(path: str, tree: ast.Module) -> list[str]:
    free = folder(path) in ("cli", "papers", "demo", "audit") or path == "registry.py"
    return [] if free else imports_any(tree, ("suffice.audit",))


def registry_inside_the_package(path: str, tree: ast.Module) -> list[str]:
    """Only those who add a mechanism from outside need what joins both sides of the wall."""
    return [] if path == "registry.py" else imports_any(tree, ("suffice.registry",))


def release_made_outside_owner(path: str, tree: ast.Module) -> list[str]:
    if folder(path) in ("owner", "releases"):
        return []
    known = dict(aliases(tree))
    calls = (ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [name for name in calls if known.get(name, name).endswith("Release")]


def stray_randomness(path: str, tree: ast.Module) -> list[str]:
    private = ("privacy/randomness.py", "participant.py")
    # Names that nobody can guess, and never noise.
    tokens = ("service/auth.py", "service/limits.py", "service/sign_in.py")
    public = ("tables/pipeline.py",)  # a seed that stands in file or code
    # After a release, and never into one; the audit's broken copies are not releases.
    simulation = folder(path) in ("papers", "demo", "learner", "audit")
    if path in private + public + tokens or simulation:
        return []
    drawn = [name for name in names_used(tree) if name.endswith(".rvs")]
    return imports_any(tree, RANDOM) + within(names_used(tree), RANDOM) + drawn


def switches_of_private_noise(path: str, tree: ast.Module) -> list[str]:
    """Nothing in the package can make private noise repeat itself: tests replace the samplers.

    A seed or a generator that is handed on, the environment, a global that a function changes,
    another module's name that is put elsewhere, or a question whether tests run.
    """
    told = [name for name in named(tree) if name.strip("_").endswith(("for_tests", "for_testing"))]
    told += [text for text in texts(tree) if "pytest" in text.lower()]
    known = dict(aliases(tree))
    stored = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    stored = [n for n in stored if isinstance(n.ctx, ast.Store)]
    sources = (*SAMPLERS, *RANDOM, "suffice.participant", "os")
    told += within((known.get(ast.unparse(n.value), "") for n in stored), sources)
    private = folder(path) in ("privacy", "owner", "engines", "kernels") or path == "participant.py"
    if not private:  # a seed there is that of a study, a learner's folds or an audit's search
        return told
    told += [name for name in named(tree) if set(name.lower().split("_")) & set(SEEDS)]
    if path != "owner/ledger/store.py":  # where the state of a user's programs is
        told += within(names_used(tree), ("os.environ", "os.getenv", "os.environb"))
    if path != "owner/ledger/store.py":  # a lock that a forked child must not share
        told += [ast.unparse(n) for n in ast.walk(tree) if isinstance(n, ast.Global)]
    return told


def named(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions, arguments, fields and variables that a module makes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def texts(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def relative_imports(path: str, tree: ast.Module) -> list[str]:
    """They would hide from the other rules whose module it is."""
    del path
    froms = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    return [ast.unparse(node) for node in froms if node.level]


def impure_kernels_and_engines(path: str, tree: ast.Module) -> list[str]:
    if folder(path) not in ("kernels", "engines"):
        return []
    return imports_any(tree, IO) + [n for n in names_used(tree) if n in ("open", "print")]


def code_in_data(path: str, tree: ast.Module) -> list[str]:
    del path
    return imports_any(tree, PERILOUS) + [n for n in names_used(tree) if n in ("eval", "exec")]


def clusters_outside_their_engines(path: str, tree: ast.Module) -> list[str]:
    """They are reached in one place, so that everything else works without it."""
    return [] if path == "engines/engine.py" else imports_any(tree, CLUSTERS)


def psycopg_outside_its_store(path: str, tree: ast.Module) -> list[str]:
    """Ledgers in files work without it."""
    inside = path == "owner/ledger/postgres.py"
    return [] if inside else imports_any(tree, ("psycopg", "psycopg_pool"))


def service_outside_its_folder(path: str, tree: ast.Module) -> list[str]:
    """Everything else works without the extra [service]; only the command line starts it."""
    if folder(path) == "service":
        return []
    frameworks = imports_any(tree, ("fastapi", "starlette", "uvicorn", "jinja2"))
    client = [] if path == "protocol/remote.py" else imports_any(tree, ("httpx",))
    inside = imports_any(tree, ("suffice.service",))
    free = folder(path) == "cli" or path == "protocol/remote.py"
    return frameworks + client + ([] if free else inside)


def private_names_of_scikit_learn(path: str, tree: ast.Module) -> list[str]:
    if path == "learner/sklearn_names.py":
        return []
    theirs = within(imports(tree), ("sklearn",))
    return [name for name in theirs if any(part.startswith("_") for part in name.split("."))]


def participant_alone(path: str, tree: ast.Module) -> list[str]:
    if path != "participant.py":
        return []
    return [n for n in imports(tree) if n.partition(".")[0] not in sys.stdlib_module_names]


RULES = {
    samplers_outside_owner: [
        ("learner/x.py", "from suffice.privacy.noise import LaplaceNoise"),
        ("learner/x.py", "from suffice.privacy import randomness"),
        ("cli/x.py", "import opendp.prelude as dp"),
    ],
    owner_from_neutral_ground: [
        ("tables/x.py", "def f():\n    import suffice.owner.ledger"),
        ("learner/x.py", "from suffice import owner"),
    ],
    learner_from_the_other_side: [
        ("owner/x.py", "def f():\n    from suffice.learner import operator"),
        ("owner/parties/x.py", "from suffice import learner"),
        ("models/x.py", "import suffice.learner.problem"),
        ("releases/x.py", "from suffice.learner.fit import model_of"),
    ],
    models_of_more_than_numbers: [
        ("models/x.py", "from suffice.releases.release import Covariance"),
        ("models/x.py", "from suffice.tables import sources"),
        ("models/x.py", "from suffice import owner"),
    ],
    papers_outside_cli: [
        ("owner/x.py", "from suffice.demo import story"),
        ("audit/x.py", "def f():\n    from suffice.papers.hamm import Crowd"),
        ("pages/x.py", "import suffice.papers.reproduction"),
    ],
    pages_outside_their_users: [
        ("owner/x.py", "from suffice.pages.plots import draw_plan"),
        ("learner/x.py", "def f():\n    from suffice import pages"),
    ],
    pages_that_know_the_house: [
        ("pages/x.py", "from suffice.owner.mean_operator import Plan"),
        ("pages/x.py", "from suffice import learner"),
        ("pages/x.py", "def f():\n    from suffice.papers.reproduction import Figure"),
        ("pages/x.py", "from suffice.audit.auditor import Finding"),
    ],
    registry_inside_the_package: [("learner/x.py", "from suffice.registry import register")],
    audit_reached_from_a_release: [("owner/x.py", "from suffice.audit.case import half")],
    release_made_outside_owner: [
        ("learner/x.py", "artifact.Release(kind='model')"),
        ("cli/x.py", "from suffice.releases.release import Release as R\nR(kind='model')"),
    ],
    stray_randomness: [
        ("owner/x.py", "import numpy as np\nnp.random.normal()"),
        ("owner/x.py", "import numpy\nnumpy.random.normal()"),
        ("owner/x.py", "from numpy import random as r"),
        ("owner/x.py", "from scipy import stats\nstats.laplace.rvs()"),
        ("cli/x.py", "from os import urandom as fresh\nfresh(8)"),
        ("engines/x.py", "import random"),
    ],
    switches_of_private_noise: [
        ("privacy/x.py", "def private_words(count, seed=None): ..."),
        ("privacy/x.py", "class Noise:\n    rng: object = None"),
        ("participant.py", "def _laplace(scale, *, random_seed): ..."),
        ("privacy/x.py", "def f():\n    global _fresh_key\n    _fresh_key = bytes"),
        ("owner/x.py", "import os\nos.environ.get('SUFFICE_NOISE')"),
        ("participant.py", "from os import getenv\ngetenv('X')"),
        ("cli/x.py", "from suffice.privacy import randomness\nrandomness._fresh_key = bytes"),
        ("papers/x.py", "def _seeded_for_tests(seed): ..."),
        ("owner/x.py", "import sys\nif 'pytest' in sys.modules: ..."),
        ("cli/x.py", "import os\nos.environ.get('PYTEST_CURRENT_TEST')"),
    ],
    relative_imports: [("learner/x.py", "from ..owner import ledger")],
    impure_kernels_and_engines: [
        ("engines/x.py", "print(batch)"),
        ("kernels/x.py", "from pathlib import Path"),
    ],
    code_in_data: [("releases/x.py", "from pickle import loads"), ("cli/x.py", "eval('1')")],
    clusters_outside_their_engines: [
        ("engines/x.py", "def f():\n    from distributed import Client"),
        ("engines/sums.py", "from pyspark.sql import SparkSession"),
        ("owner/x.py", "import dask"),
    ],
    psycopg_outside_its_store: [
        ("owner/ledger/ledger.py", "def f():\n    import psycopg"),
        ("protocol/x.py", "from psycopg.rows import dict_row"),
    ],
    service_outside_its_folder: [
        ("cli/x.py", "def f():\n    import uvicorn"),
        ("owner/x.py", "from suffice.service.records import ServiceRecords"),
        ("learner/x.py", "import httpx"),
    ],
    private_names_of_scikit_learn: [
        ("learner/x.py", "from sklearn.base import BaseEstimator, _fit_context"),
        ("learner/x.py", "from sklearn.utils._param_validation import Interval"),
    ],
    participant_alone: [("participant.py", "import numpy")],
}


def test_the_walk_sees_the_whole_package():
    found = modules()
    assert len(found) >= 40
    for part in (*NEUTRAL, "owner", "cli", "papers", "pages", "protocol", "service"):
        assert any(folder(path) == part for path in found), part


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_no_module_breaks_the_rule(rule):
    broken = {path: found for path, tree in modules().items() if (found := rule(path, tree))}
    assert broken == {}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rule_catches_what_it_forbids(rule):
    for path, line in RULES[rule]:
        assert rule(path, ast.parse(line)), line
