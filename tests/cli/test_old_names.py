"""Options of the version before work under their old names, which help no longer shows."""

import pytest
import typer

from suffice.cli.main import app
from suffice.cli.reference import commands
from suffice.options import check_choices, options_of
from suffice.owner.parties.mechanism import PrivateEnsemble
from suffice.owner.rados.mechanism import Rados

OLD = {
    "--all-states", "--cast", "--feature-noise", "--found-at", "--kernel", "--lam", "--like",
    "--names", "--noise", "--sets", "--skew",
}  # fmt: skip


COMMANDS = {
    path: command
    for path, command in commands(typer.main.get_command(app))
    if hasattr(command, "slots")
}


def test_every_old_name_is_still_known_somewhere():
    hidden = {s.option.name for c in COMMANDS.values() for s in c.slots if s.option.hidden}
    assert hidden == OLD


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_new_names_only(name):
    command = COMMANDS[name]
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    names = [option for parameter in shown for option in parameter.opts]
    hidden = {slot.option.name for slot in command.slots if slot.option.hidden}
    assert not hidden & set(names)
    assert len(set(names)) == len(names)
    assert all(getattr(parameter, "help", "") for parameter in shown if parameter.name != "help")


def test_old_words_become_the_new_ones():
    assert PrivateEnsemble(1.0, method="votes").method == "vote-table"
    assert PrivateEnsemble(1.0, method="vote") == PrivateEnsemble(1.0, method="majority-model")
    rados = Rados(epsilon=1.0, delta=1e-6, unit="record", noise_on="edges")
    assert rados.noise_on == "records"
    check_choices(rados)
    assert options_of(Rados)["noise_on"].former == {"joint": "sums", "edges": "records"}


def test_an_old_name_does_what_the_new_one_does(suffice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k % 7},{k % 2}\n" for k in range(40))
    (tmp_path / "t.csv").write_text("x,sick\n" + rows)
    common = ("release", "rados", "t.csv", "--label", "sick", "--range", "0,7", "--no-ledger")
    price = ("--epsilon", "1", "--delta", "1e-6", "--unit", "record", "-o", "r", "--force")
    for words in (("--noise", "edges"), ("--noise-on", "records")):
        suffice(*common, *price, *words)
        assert "edges" in suffice("inspect", "r")
    both = suffice(*common, *price, "--noise", "edges", "--noise-on", "records", code=2)
    assert "--noise-on and --noise set the same value. Use only one of them." in both
