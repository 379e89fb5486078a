"""Help: commands by role, one line each; options by group; an example that works at the end."""

import json
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cli_reference import commands, reference
from suffice.audit import auditor, registry
from suffice.cli.building import EXAMPLES, example_of, summary_of
from suffice.cli.main import SECTIONS, app
from suffice.demo import story
from suffice.demo.story import clinic_network
from suffice.options import Group
from suffice.owner.answers import AnswerStore, Sent
from suffice.owner.ledger.tokens import utc_now
from suffice.owner.parties.contribution import PartyContribution, encode_part
from suffice.owner.parties.rounds import RoundStore, load_round
from suffice.owner.survey import AnswerForm, load_survey
from suffice.participant import respond

COMMANDS = dict(commands(typer.main.get_command(app)))
GROUPS = ("", "plan", "release", "ledger", "simulate", "survey")
WIDTH = 78  # of help on a terminal of 80 columns


def help_of(path: str, monkeypatch, page: str = "--help") -> str:
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(app, [*path.split(), page], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_every_command_is_listed_under_the_role_that_uses_it(monkeypatch):
    text = help_of("", monkeypatch, "--help-all")
    names = [name for section in SECTIONS.values() for name in section]
    assert sorted(names) == sorted({path.split()[0] for path in COMMANDS})
    positions = [text.index(f"\n{heading}:\n") for heading in SECTIONS]
    assert positions == sorted(positions)
    assert "Commands:" not in text


@pytest.mark.parametrize("path", GROUPS)
def test_descriptions_fit_on_one_line_and_are_not_cut_off(path, monkeypatch):
    text = help_of(path, monkeypatch, "--help-all")
    assert "..." not in text.partition("\n")[2]
    command = typer.main.get_command(app)
    for word in path.split():
        command = command.get_command(typer.Context(command), word)
    names = command.list_commands(typer.Context(command))
    for name in names:
        summary = summary_of(command.get_command(typer.Context(command), name))
        assert 2 + max(map(len, names)) + 2 + len(summary) <= WIDTH, summary
        assert summary[0].isupper()
        assert re.search(rf"^  {name} +{re.escape(summary)}$", text, re.MULTILINE)


def shown_options(text: str) -> set[str]:
    """Return the options that a page of help shows, the one of help among them."""
    return {*re.findall(r"^  (?:-\w, )?(--[\w-]+)(?: |,|$)", text, re.MULTILINE)}


def test_first_pages_are_short_and_the_other_page_has_everything(monkeypatch):
    assert len(re.findall(r"^  [a-z][\w-]+  ", help_of("", monkeypatch), re.MULTILINE)) <= 15
    long = 0
    for path, command in COMMANDS.items():
        first, every = (help_of(path, monkeypatch, page) for page in ("--help", "--help-all"))
        options = [max(p.opts, key=len) for p in command.params if p.param_type_name == "option"]
        assert len(shown_options(first)) <= 12, path
        assert shown_options(every) == {*options, "--help"}, path
        left_out = len(options) + 1 - len(shown_options(first))
        assert (f"{left_out} more options: suffice {path} --help-all" in first) == (left_out > 0)
        assert " more options: " not in every
        long += left_out > 0
    assert long > 10


@pytest.mark.parametrize("path", [*COMMANDS, *GROUPS])
def test_the_help_of_every_command_ends_with_its_example(path, monkeypatch):
    example = example_of(path)
    assert example is not None
    assert help_of(path, monkeypatch).endswith("\n\n" + "\n".join(example.lines()) + "\n")
    assert all(len(line) <= 80 for line in example.lines())
    words = shlex.split(example.commands[-1].replace("\\\n", " "))
    assert words[0] == "suffice"
    assert " ".join(words[1:]).startswith(path.removesuffix(" advised"))  # it may be left out


@pytest.mark.parametrize("path", [path for path in COMMANDS if path.startswith("release ")])
def test_releases_say_what_is_published_protected_and_public(path, monkeypatch):
    text = " ".join(help_of(path, monkeypatch).partition("Arguments:")[0].split())
    for word in ("The release ", "It protects ", " public."):
        assert word in text
    everything = help_of(path, monkeypatch, "--help-all")
    headings = re.findall(r"^(\w+):$", everything, re.MULTILINE)
    wanted = [str(group) for group in Group if str(group) in headings]
    assert headings == ["Arguments", *wanted]
    assert {"Data", "Privacy", "Budget", "Output"} <= set(headings)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_option_has_one_name_and_is_explained(path):
    parameters = COMMANDS[path].params
    names = [option for parameter in parameters for option in parameter.opts]
    assert len(set(names)) == len(names)
    assert all(getattr(parameter, "help", "") for parameter in parameters)


def test_examples_are_of_commands_that_exist():
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.fixture
def small_studies(monkeypatch):
    """Shrink what the demo and the audit compute, not what they are called with."""
    few = {
        name: replace(case, samples=case.samples // 4)
        for name, case in list(registry.all_cases().items())
        if name.startswith("label-responses, 2 classes")
    }
    monkeypatch.setattr(registry, "all_cases", lambda: few)
    monkeypatch.setattr(auditor, "_PER_WORKER", 100)  # no other processes
    monkeypatch.setattr(story, "clinic_network", partial(clinic_network, smaller=6))
    monkeypatch.setattr(story, "_audit_table", lambda: story.PageTable("The audit.", ("case",), ()))
    monkeypatch.setattr(story, "run_demo", partial(story.run_demo, repeats=1))


def run(command: str) -> None:
    words = shlex.split(command.replace("\\\n", " "))
    if words[0] == "echo":  # the only other program: it writes a file
        text, arrow, path = words[1:]
        assert arrow == ">"
        json.loads(text)
        Path(path).write_text(text)
        return
    done = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    assert done.exit_code == 0, (command, done.output)


def somebody_answers() -> None:
    """Use the first link, as a person does before an organiser closes a survey."""
    survey = load_survey("survey.json")
    invitation = Path("links.csv").read_text().splitlines()[1].partition(",")[0]
    data = respond(survey, {"relapse": "no"}, None)[0]
    row = AnswerForm(survey).read(data)[1]
    AnswerStore("clinic/clinic.answers").take([Sent.of(survey.id, invitation, "0" * 32, data, row)])


def two_parties_send() -> None:
    """Send a contribution for each party, as they do before an aggregator closes a round."""
    made, store = load_round("spring.round"), RoundStore("clinic/clinic.rounds")
    part = PartyContribution.load("north.part")
    for party in made.terms.enrolled:
        store.take(made, party, encode_part(replace(part, party=party)), utc_now())


@pytest.mark.filterwarnings("ignore::suffice.learner.problem.NoiseWarning")  # tables are small
@pytest.mark.usefixtures("small_studies")
def test_every_example_works_on_the_tables_of_the_demo(small_tables, tmp_path, monkeypatch):
    for table in small_tables.iterdir():
        (tmp_path / table.name).symlink_to(table)
    monkeypatch.chdir(tmp_path)
    for example in EXAMPLES.values():
        for command in example.commands:
            if command.startswith("suffice survey close"):
                somebody_answers()
            if command.startswith("suffice round close"):
                two_parties_send()
            if command.startswith("suffice round withdraw"):
                continue  # it asks a service that runs: transport/http/test_rounds.py
            run(command)
            for output in re.findall(r" -o (\S+)", command):
                assert Path(output).exists(), output


def test_the_reference_shows_groups_and_examples_and_ends_no_cell_early():
    text = reference()
    assert text.count("**Privacy**") >= 6
    for example in EXAMPLES.values():
        assert "\n".join(example.commands) in text
    for line in text.splitlines():
        if line.startswith("| "):
            assert len(re.findall(r"(?<!\\)\|", line)) == 4, line
