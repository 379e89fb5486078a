"""Before any work: no file is written over, every folder is there, no option is ignored.

The commands and their outputs are found from the program, so that a new command is tried as well.
"""

import inspect
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer

from cli_reference import commands as commands_by_path
from suffice.cli import ledgers, parties, releases, survey
from suffice.cli.building import check_outputs, make_folder, refuse_unused
from suffice.cli.main import app
from suffice.errors import ParameterError, StorageError
from suffice.owner.ledger import Ledger
from suffice.owner.survey import new_survey
from suffice.participant import Memory, MemoryEntry, respond
from suffice.privacy.guarantee import Budget
from suffice.releases.signing import generate_keys

WRITTEN = ("output", "write_rows", "answer", "memory", "plot")
READ = {
    "answered", "answers", "checkpoint", "data", "files", "folder", "key", "ledger", "like",
    "model", "path", "quality",
    "pipeline_from", "policy", "proposal", "releases", "round", "rows", "sign", "stem", "survey",
    "table", "token", "truth_file", "invitations",
}  # fmt: skip
GROWS = "memory"  # it is there when a second survey is answered
FOLDERS = {("demo", "files"), ("reproduce", "data")}  # the one is written, of the other see below
EXISTS = r"mine exists\. Write to another file, or use --force\."
Command = Callable[..., None]


def commands() -> Iterator[Command]:
    """Yield the function of every command that is not made from declarations."""
    for _, command in commands_by_path(typer.main.get_command(app)):
        if not hasattr(command, "slots"):
            yield inspect.unwrap(command.callback)


def base(hint: Any) -> type:
    """Return the type of what is held, once or several times, perhaps not at all."""
    inner = [part for part in get_args(hint) if part is not type(None)]
    return base(inner[0]) if inner else hint


def kinds(command: Command) -> dict[str, type]:
    """Return what each parameter holds."""
    hints = get_type_hints(command)
    return {name: base(hints[name]) for name in inspect.signature(command).parameters}


def writers() -> list[tuple[Command, str]]:
    return [
        (command, name)
        for command in commands()
        for name in kinds(command)
        if name in WRITTEN and command.__name__ != "verify"  # which reads an answer
    ]


def pairs() -> list[tuple[Command, str, str]]:
    """Return every output of every command, with every file that it reads."""
    return [
        (command, output, name)
        for command, output in writers()
        for name, kind in kinds(command).items()
        if kind is Path and name not in WRITTEN and (command.__name__, name) not in FOLDERS
    ]


def anything(kind: type, path: Path) -> Any:
    """Return a value that a parameter of this kind takes."""
    if kind is typer.Context:
        return typer.Context(typer.main.get_command(app))
    return path if kind is Path else kind(1)


def call(command: Command, folder: Path, /, **given: Any) -> None:
    """Call a command with ``given`` paths, and anything for what else it must have."""
    words: dict[str, Any] = {}
    for name, parameter in inspect.signature(command).parameters.items():
        words[name] = parameter.default
        value: Any = given.get(name)
        if value is None and parameter.default is inspect.Parameter.empty:
            value = anything(kinds(command)[name], folder / name)
        if value is not None:
            words[name] = [value] if "list" in str(get_type_hints(command)[name]) else value
    command(**words)


def made_commands() -> list[tuple[str, Any]]:
    """Return every command that is made from declarations, with the words that call it."""
    found = commands_by_path(typer.main.get_command(app))
    return [(words, command) for words, command in found if hasattr(command, "slots")]


def declared_pairs() -> list[tuple[str, Any, Any, Any]]:
    """Return every option of a made command that writes, with every one that names a file."""
    return [
        (words, command, output, source)
        for words, command in made_commands()
        for output in command.slots
        if output.option.writes
        for source in command.slots
        if source.option.path is not None and not source.option.writes
    ]


def call_made(command: Any, given: dict[str, Any]) -> None:
    """Call a made command with texts for some of its options, and anything that it must have."""
    words = []
    for slot in command.slots:
        needed = slot.default is inspect.Parameter.empty
        text = given.get(slot.key, "1" if needed else None)
        if slot.option.name == "--flip" and text is not None:
            text = f"name={text}"
        if text is True:
            words.append(slot.option.name)
        elif text is not None:
            text = "name=a,b" if slot.option.name == "--categories" else str(text)
            words += [text] if slot.option.argument else [slot.option.name, text]
    command.main(words, standalone_mode=False)


def named(*parts: object) -> str:
    return " ".join(getattr(part, "__name__", str(part)) for part in parts)


def test_the_walk_sees_the_commands_that_write():
    assert len({command for command, _ in writers()}) >= 4
    assert {name for _, name in writers()} <= set(WRITTEN)
    assert len(pairs()) >= 7
    assert len(made_commands()) >= 24
    assert len(declared_pairs()) >= 75


@pytest.mark.parametrize(
    ("command", "output", "source"), [pytest.param(*p, id=named(*p)) for p in pairs()]
)
def test_no_command_writes_over_what_it_reads(tmp_path, command, output, source):
    path = tmp_path / "precious.csv"
    path.write_bytes(b"all there is")
    with pytest.raises(ParameterError, match=r"precious\.csv is read .* Write to another file"):
        call(command, tmp_path, **{output: path, source: path})
    assert path.read_bytes() == b"all there is"


@pytest.mark.parametrize(
    ("command", "output", "source"),
    [
        pytest.param(c, o, s, id=f"{words} {o.option.name} {s.option.name}")
        for words, c, o, s in declared_pairs()
    ],
)
def test_no_made_command_writes_over_what_it_reads(tmp_path, command, output, source):
    path = tmp_path / "precious.csv"
    path.write_bytes(b"all there is")
    with pytest.raises(ParameterError, match=r"precious\.csv is read .* Write to another file"):
        call_made(command, {output.key: path, source.key: path})
    assert path.read_bytes() == b"all there is"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        pytest.param(command, slot, id=f"{words} {slot.option.name}")
        for words, command in made_commands()
        for slot in command.slots
        if slot.option.writes
    ],
)
def test_a_made_command_finds_a_missing_folder_before_any_work(tmp_path, command, output):
    with pytest.raises(StorageError, match="Make the folder"):
        call_made(command, {output.key: tmp_path / "no" / "x.html"})


@pytest.mark.parametrize(("command", "output"), [pytest.param(*w, id=named(*w)) for w in writers()])
def test_a_missing_folder_is_found_before_any_work(tmp_path, command, output):
    with pytest.raises(StorageError, match="Make the folder"):
        call(command, tmp_path, **{output: tmp_path / "no" / "x.html"})


def new_files() -> list[Any]:
    """Return every output that is a file of its own, with a function that asks for it."""
    called = [
        pytest.param(partial(call, command), {name: Path}, id=named(command, name))
        for command, name in writers()
        if name != GROWS
    ]
    made = [
        pytest.param(partial(_call_made, command), {slot.key: Path}, id=f"{words} {slot.field}")
        for words, command in made_commands()
        for slot in command.slots
        if slot.option.writes
    ]
    return called + made


def _call_made(command: Any, folder: Path, *, force: bool = False, **given: Any) -> None:
    del folder
    flag = {slot.key: True for slot in command.slots if slot.option.name == "--force"}
    assert flag, "it has no --force"
    call_made(command, {**given, **(flag if force else {})})


def test_every_path_of_a_command_is_read_or_written():
    """Else a new output would not be tried below."""
    paths = {n for command in commands() for n, kind in kinds(command).items() if kind is Path}
    assert paths <= READ | set(WRITTEN)


@pytest.mark.parametrize(("ask", "outputs"), new_files())
def test_no_command_writes_over_a_file_unless_it_is_forced(tmp_path, ask, outputs):
    path = tmp_path / "mine"
    path.write_bytes(b"all there is")
    # What they write may be the only copy.
    never = ask.args[0] in (
        survey.respond,
        survey.open_for_people,
        parties.open_for_parties,
        ledgers.archive,
    )
    words = r"mine exists\. Write to another file\." if never else EXISTS
    with pytest.raises(StorageError, match=words):
        ask(tmp_path, **dict.fromkeys(outputs, path))
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")  # a name that is taken
    with pytest.raises(StorageError, match=words):
        ask(tmp_path, **dict.fromkeys(outputs, path))
    assert path.is_symlink()


@pytest.fixture(scope="module")
def precious(tmp_path_factory) -> dict[str, bytes]:
    """Return files that cannot be made again, as this library writes them."""
    folder = tmp_path_factory.mktemp("precious")
    Ledger(folder / "ledger", {"d": Budget(1.0)})
    made = new_survey("Health", states={"ill": ["no", "yes"]}, flip=0.2)
    answer, _ = respond(made, {"ill": "no"}, folder / "memory")
    private, _ = generate_keys(folder / "owner")
    Memory(folder / "questions").get_or_draw(MemoryEntry("answer", None, "ill?"), lambda: 1)
    files = {name: (folder / name).read_bytes() for name in ("ledger", "memory", "questions")}
    moved = {"survey in one line": json.dumps(made.content).encode()}
    other = {"survey": made.data, "answer": answer, "private key": private.read_bytes()}
    return {**files, **moved, **other}


@pytest.mark.parametrize(("ask", "outputs"), new_files())
def test_what_cannot_be_made_again_is_never_written_over(tmp_path, precious, ask, outputs):
    path = tmp_path / "out.html"  # its name says nothing
    forces = [{}] if ask.args[0] is survey.respond else [{}, {"force": True}]
    for data, force in itertools.product(precious.values(), forces):
        path.write_bytes(data)
        with pytest.raises(StorageError, match=r"never overwritten\. Write to another file\."):
            ask(tmp_path, **dict.fromkeys(outputs, path), **force)
        assert path.read_bytes() == data


def test_force_is_for_plain_files_alone(tmp_path, precious):
    path = tmp_path / "x.html"
    plain = (b"", b"<html>", b'{"message": "proposal"}', b"[1, 2]", b"-----BEGIN PUBLIC KEY-----")
    for data in plain:
        path.write_bytes(data)
        check_outputs(path, force=True)
    journal = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504)  # of a ledger that was cut off
    path.write_bytes(journal)
    with pytest.raises(StorageError, match="never overwritten"):
        check_outputs(path, force=True)
    link = tmp_path / "link"
    link.symlink_to(path)
    path.write_bytes(precious["ledger"])
    with pytest.raises(StorageError, match="link is a ledger, or another database"):
        check_outputs(link, force=True)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="not a file that can be overwritten"):
        check_outputs(tmp_path / "pipe", force=True)
    with pytest.raises(ParameterError, match="--force cannot be used without a file to write"):
        check_outputs(None, force=True)


def test_files_that_go_beside_another_are_not_written_over_either(suffice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("reproduction.json", "clinic/wards.csv", "o.answer.json", "suffice-parties.html"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text("mine")
    grant = "grant p t.csv --label y --policy q --ledger l --dataset d -o o.suffice"
    for words in (
        "reproduce voting", "demo clinic", grant, "simulate parties t.csv --label y",
    ):  # fmt: skip
        line = suffice(*words.split(), code=6)
        assert re.search(r" exists\b.* Write to another file, or use --force\.\n$", line)
        assert line.count("\n") == 1
    assert {path.read_text() for path in Path().rglob("*.*")} == {"mine"}


def test_a_paid_release_is_not_lost_to_a_file_that_comes_meanwhile(suffice, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{k % 7},{k % 2}\n" for k in range(40))
    Path("t.csv").write_text("x,sick\n" + rows)
    suffice("ledger", "init", "l", "--dataset", "d", "--epsilon", "1")
    words = (
        "release",
        "mean-operator",
        "--map",
        "none",
        "t.csv",
        "--label",
        "sick",
        "--epsilon",
        "1",
    )
    words += ("--ledger", "l", "--dataset", "d", "-o")
    write = releases.write_release

    def too_late(*given: Any) -> None:
        Path("r").write_text("theirs")
        write(*given)

    monkeypatch.setattr(releases, "write_release", too_late)
    line = suffice(*words, "r", code=6)
    assert (
        "r exists, and is not overwritten: write to another file. The release was charged" in line
    )
    assert [said.startswith("suffice: r exists") for said in line.splitlines()].count(True) == 1
    assert Path("r").read_text() == "theirs"
    assert not list(tmp_path.glob(".r.*"))
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    suffice(*words, "again")
    suffice(*words, "r", "--force")
    assert Path("r").read_bytes() == Path("again").read_bytes()
    assert Ledger("l").balances()[0].debits == 1


def test_the_data_of_a_reproduction_are_not_written_over(suffice, tmp_path):
    table = tmp_path / "mnist.parquet"
    table.write_bytes(b"digits")
    words = ("reproduce", "voting", "--data", str(tmp_path), "-o")
    assert "would be overwritten" in suffice(*words, str(table), code=2)
    assert table.read_bytes() == b"digits"


@pytest.mark.parametrize(
    "words",
    [
        "release rados t.csv --label y --no-ledger --standardize mine -o mine",
        "aggregate p.part --aux a.csv --enrolled mine --epsilon 1 --no-ledger -o mine",
        "survey new --categories q=a,b --flip q=mine -o mine",
    ],
)
def test_files_that_are_named_in_passing_are_not_written_over(
    suffice, tmp_path, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text("[]")
    assert "would be overwritten" in suffice(*words.split(), code=2)
    assert Path("mine").read_text() == "[]"


def test_links_and_folders_of_inputs_are_seen_through(tmp_path):
    tables = tmp_path / "tables"
    tables.mkdir()
    part = tables / "part.csv"
    part.write_text("a\n1\n")
    link = tmp_path / "link.csv"
    link.symlink_to(part)
    for output, source in ((link, part), (part, link), (part, tables), (link, tables)):
        with pytest.raises(ParameterError, match="would be overwritten"):
            check_outputs(output, reads=[source])
    check_outputs(tables / "new.csv", reads=[tables])
    check_outputs(tmp_path / "new.csv", None, reads=[part, None, tmp_path / "gone.csv"])


def test_outputs_have_places_of_their_own(tmp_path):
    with pytest.raises(ParameterError, match="written twice"):
        check_outputs(tmp_path / "x", tmp_path / "." / "x")
    with pytest.raises(StorageError, match="it is a folder"):
        check_outputs(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Make the folder"):
        check_outputs(tmp_path / "file" / "x")
    with pytest.raises(StorageError, match="cannot be made"):
        make_folder(tmp_path / "file")


def test_zero_is_a_value_that_was_given():
    refuse_unused("here", {"--rows": None})
    with pytest.raises(ParameterError, match=r"^--kappa cannot be used here\. Remove --kappa\.$"):
        refuse_unused("here", {"--rows": None, "--kappa": 0})
