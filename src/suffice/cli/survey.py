"""Commands of a survey: its organisers write, open, close and collect it; participants respond."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suffice.cli import building
from suffice.cli.building import (
    HelpfulCommand,
    OutputFile,
    check_outputs,
    group_with,
    make_command,
    refuse_unused,
)
from suffice.cli.output import progress, show_json, show_pairs
from suffice.cli.releases import ReleaseOptions, write_release
from suffice.errors import CorruptFileError, ParameterError, StorageError, SufficeError
from suffice.options import (
    REQUIRED,
    ByColumn,
    Group,
    by_column,
    data_option,
    option,
    pair,
    privacy_option,
    states,
    value_or_by_column,
)
from suffice.participant import ABOUT, MOST_BYTES

if TYPE_CHECKING:
    from suffice.owner.answers import AnswerStore
    from suffice.service.settings import Settings

SurveyPath = Annotated[Path, typer.Argument(help="The survey's file.")]


def _by_question(option_name: str) -> dict[str, Any]:
    """Return how an option for all questions, or for one, is declared."""

    def convert(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ParameterError(f"{option_name} must be a number, or NAME=NUMBER.") from None

    parse = value_or_by_column(convert, option_name)
    return {"group": Group.PRIVACY, "parse": parse, "many": True}


def _chance(text: str) -> float | Path:
    """Return a probability, or the file of a matrix of them."""
    try:
        return float(text)
    except ValueError:
        return Path(text)


_about_option = partial(data_option, within="--about")


@dataclass(frozen=True, kw_only=True)
class _New(OutputFile):
    """The questions of a survey, and their noise."""

    states: dict[str, Any] = data_option(
        REQUIRED,
        "NAME=A,B,C or NAME=0..10: the possible answers to a question (repeatable).",
        name="--categories",
        parse=lambda texts: by_column(texts, states, "--categories"),
        many=True,
    )
    ranges: dict[str, tuple[float, float]] = data_option(
        (),
        "NAME=LO,HI: a question for a number (repeatable).",
        name="--range",
        parse=lambda texts: by_column(texts, pair, "--range"),
        many=True,
    )
    texts: dict[str, str] = data_option(
        (),
        "NAME=WORDS: the text of a question, for example ill=Are you ill? (repeatable).",
        name="--text",
        parse=lambda texts: by_column(texts, str, "--text"),
        many=True,
    )
    flip: ByColumn | None = option(
        None,
        help="Probability that an answer becomes another one, for example 0.25; NAME=0.1: of one"
        " question; NAME=FILE: probabilities as JSON rows, where row i, column j is that of answer"
        " i if j is true.",
        path=lambda text: p if isinstance(p := _chance(text.rpartition("=")[2]), Path) else None,
        **{**_by_question("--flip"), "parse": value_or_by_column(_chance, "--flip")},
    )
    epsilon: ByColumn | None = option(
        None,
        help="Epsilon of an answer, for example 1, instead of --flip; NAME=2: of one question.",
        **_by_question("--epsilon"),
    )
    report: str = privacy_option(
        "per-question",
        "per-question: every answer is changed on its own; whole: all of them together, for few"
        " combinations of answers and one --epsilon.",
    )
    noise: ByColumn | None = option(
        None,
        name="--noise-variance",
        help="Variance of the noise on numbers, for example 4; NAME=9: of one question.",
        **_by_question("--noise-variance"),
    )
    kernel: str | None = privacy_option(
        None,
        "Type of noise on numbers: laplace (the default), or gaussian (uses --delta).",
        name="--noise",
    )
    delta: float | None = privacy_option(
        None, "Delta at which the epsilon of Gaussian noise is read. Default: 1e-6."
    )
    label: str | None = data_option(
        None, "Question that the others may predict. Default: the first with --categories."
    )
    people: int | None = data_option(
        None, "How many people may answer: forecasts their intervals, for example for 1000."
    )
    title: str = _about_option("A survey", "Title of the survey.")
    language: str = _about_option("en", "Language of what participants read: en or de.")
    organiser: str | None = _about_option(None, "Who asks, such as Clinic North.")
    contact: str | None = _about_option(None, "How to reach them, such as data@clinic.example.")
    purpose: str | None = _about_option(None, "What the answers are for.")
    notice: str | None = _about_option(
        None, "Notice of data protection: a sentence and the address of the whole text."
    )
    delete_by: str | None = _about_option(
        None, "Day on which stored answers are deleted at the latest, such as 2027-03-31."
    )

    def about(self) -> dict[str, str]:
        """Return what the organisers say about themselves."""
        said = (self.organiser, self.contact, self.purpose, self.notice, self.delete_by)
        return {key: text for key, text in zip(ABOUT, said, strict=True) if text is not None}

    def flips(self) -> dict[str, dict[str, Any]]:
        """Return flip and epsilon by question; a value without a name is for all others."""
        from suffice.releases.file import read_bounded
        from suffice.strict_json import parse

        chances, costs = ByColumn.of(self.flip), ByColumn.of(self.epsilon)
        flips = {
            name: parse(read_bounded(flip, 2**20)) if isinstance(flip, Path) else flip
            for name, flip in chances.named.items()
        }
        if flips.keys() & costs.named.keys():
            raise ParameterError("A question has its noise twice. Use one of --flip and --epsilon.")
        rest = [name for name in self.states if name not in {**flips, **costs.named}]
        return {
            "flip": {**_same_for(rest, chances.others), **flips},
            "epsilon": {**_same_for(rest, costs.others), **costs.named},
        }

    def whole(self) -> dict[str, Any]:
        """Return the one epsilon of a report of all answers."""
        costs = ByColumn.of(self.epsilon)
        if costs.named or costs.others is None:
            raise ParameterError("Use --report whole with one --epsilon for all.")
        return {"flip": self.flip, "epsilon": costs.others}

    def check_noise(self) -> None:
        """Raise if noise on numbers is described where there is none, or none reads a delta."""
        if not self.ranges:
            described = {
                "--noise-variance": self.noise,
                "--noise": self.kernel,
                "--delta": self.delta,
            }
            refuse_unused("without a question for a number (--range)", described)
        elif self.kernel != "gaussian":
            refuse_unused("without --noise gaussian", {"--delta": self.delta})


def new(survey: _New) -> None:
    """Write a survey: its questions, and how answers are changed.

    A question cannot depend on an earlier answer: whether somebody is asked would show that answer.
    Ask everybody, with a possible answer such as "does not apply".
    """
    from suffice.cli.output import say
    from suffice.owner.survey import new_survey, plan_survey
    from suffice.releases.file import write_whole

    survey.check_noise()
    numbers, variances = dict(survey.ranges), ByColumn.of(survey.noise)
    made = new_survey(
        survey.title,
        states=survey.states,
        ranges=numbers,
        **(survey.flips() if survey.report != "whole" else survey.whole()),
        noise=None if not numbers else {**_same_for(numbers, variances.others), **variances.named},
        kernel=survey.kernel or "laplace",
        texts=dict(survey.texts),
        label=survey.label,
        delta=1e-6 if survey.delta is None else survey.delta,
        language=survey.language,
        about=survey.about(),
        report=survey.report,
    )
    forecast = None if survey.people is None else plan_survey(made, survey.people)
    write_whole(survey.output, made.data, overwrite=survey.force)
    if survey.json:
        told = {} if forecast is None else {"forecast": forecast.to_json()}
        show_json({"written": str(survey.output), **made.content, **told})
        return
    guarantees = [(q["name"], q["guarantee"]) for q in made.content["questions"]]
    all_answers = ("all answers", made.content["guarantee"])
    show_pairs([("written", str(survey.output)), ("survey", made.id), *guarantees, all_answers])
    if forecast is not None:
        say("", forecast.title, str(forecast))


survey_app = typer.Typer(
    cls=group_with(
        {"new": partial(make_command, new)},
        {
            "Surveys as files": ("new", "respond", "page", "collect"),
            "Surveys of a service": ("open", "status", "close"),
        },
    ),
    help="Ask people, who change their answers at random themselves.",
)


@survey_app.command("respond", cls=HelpfulCommand)
def respond(
    survey: SurveyPath,
    output: building.Output,
    truth: Annotated[
        list[str] | None,
        typer.Option(
            help="Your true answer as NAME=VALUE, once per question. Other users of this computer"
            " can see it while the command runs. Leave it out to be asked instead."
        ),
    ] = None,
    truth_file: Annotated[
        Path | None,
        typer.Option(help='Your true answers in a JSON file, for example {"relapse": "no"}.'),
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(help="File that remembers your answers. Default: the output, with .memory."),
    ] = None,
) -> None:
    """Answer a survey; your answers are changed at random first.

    If you are asked again, the same answers are given, from the memory file.
    """
    from suffice import participant

    memory_path = Path(f"{output}.memory") if memory is None else memory
    check_outputs(output, appends=[memory_path], reads=(survey, truth_file), force=None)
    try:
        participant.respond_to_file(survey, output, truth or (), truth_file, memory)
    except participant.SurveyError as error:
        raise CorruptFileError(str(error)) from None
    except ValueError as error:
        raise ParameterError(str(error)) from None
    except EOFError:
        raise ParameterError(
            "A question has no answer. Answer every question, or use --truth."
        ) from None
    except OSError as error:
        raise StorageError(f"{error.filename or output}: {error.strerror}.") from None


@survey_app.command("collect", cls=HelpfulCommand)
def collect(
    survey: SurveyPath,
    answers: Annotated[
        list[Path],
        typer.Argument(help="The participants' answer files, or folders that hold them."),
    ],
    output: building.Output,
    sign: Annotated[
        Path | None, typer.Option("--sign", help="Sign the file with this private key.")
    ] = None,
    force: building.Force = False,
    json: building.Json = False,
) -> None:
    """Gather answer files into one release of randomised records.

    All answers are checked first. Of a folder, every .json file is read but surveys.
    """
    from suffice.owner.survey import collect as gather
    from suffice.owner.survey import load_survey

    files = _answer_files(answers)
    check_outputs(output, reads=(survey, *files, sign), force=force)
    building = ReleaseOptions(output=output, no_ledger=True, sign=sign, force=force, json=json)
    with progress("checking answers"):
        release = gather(load_survey(survey), files)
    write_release(release, building)


@survey_app.command("page", cls=HelpfulCommand)
def page(survey: SurveyPath, output: building.Output, force: building.Force = False) -> None:
    """Write a page on which one person answers, without a network.

    The page sends nothing. It changes the answers, shows them, and gives the person a file. Publish
    the hash that is printed, so that participants can compare it.
    """
    import hashlib

    from suffice.owner.survey import load_survey
    from suffice.owner.survey_page import page_of
    from suffice.releases.file import write_whole

    check_outputs(output, reads=(survey,), force=force)
    data = page_of(load_survey(survey), "offline")[0].encode()
    write_whole(output, data, overwrite=force)
    show_pairs([("written", str(output)), ("sha256", hashlib.sha256(data).hexdigest())])


_ServiceFolder = Annotated[Path, typer.Argument(help="Folder that holds suffice.toml.")]


def _served(folder: Path) -> tuple["Settings", "AnswerStore"]:
    """Return the settings of a service, and the store of people's answers."""
    from suffice.owner.answers import AnswerStore
    from suffice.owner.survey import delete_expired
    from suffice.service.settings import Settings

    settings = Settings.load(folder)
    if settings.answers is None:
        raise ParameterError(
            'This service takes no answers. Add a line such as answers = "clinic.answers" to'
            " suffice.toml."
        )
    store = AnswerStore(settings.answers)
    delete_expired(settings.ledger, store)
    return settings, store


@survey_app.command("open", cls=HelpfulCommand)
def open_for_people(
    folder: _ServiceFolder,
    survey: SurveyPath,
    address: Annotated[
        str, typer.Option(help="Address of the service, for example https://clinic.example.")
    ],
    invitations: Annotated[
        str,
        typer.Option(
            metavar="NUMBER|everybody",
            help="How many people are invited, each with a link of their own. everybody: whoever"
            " has the address may answer, also twice.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File for the invitations and their links (CSV)."),
    ] = None,
    trial: Annotated[
        bool,
        typer.Option("--trial", help="Answers are checked and thrown away; the page says so."),
    ] = False,
) -> None:
    """Let people answer a survey through a service.

    The service knows neither names nor invitations, only hashes. Send each person one link of the
    file, and keep the file secret. Open the survey again for more invitations. A trial has links of
    its own, and ends when the survey is opened.
    """
    from suffice.owner.answers import links_of, new_invitations, trial_of
    from suffice.owner.survey import load_survey, open_survey
    from suffice.releases.file import write_whole

    check_outputs(output, reads=(folder, survey), force=None)
    everybody = invitations == "everybody"
    if not everybody and not (invitations.isdecimal() and int(invitations)):
        raise ParameterError("--invitations must be a number above 0, or everybody.")
    if (output is None) != everybody:
        raise ParameterError("Use --invitations NUMBER with -o, or --invitations everybody.")
    settings, store = _served(folder)
    loaded = load_survey(survey)
    link = f"{address.rstrip('/')}/surveys/{trial_of(loaded.id) if trial else loaded.id}"
    made = None if everybody else new_invitations(int(invitations))
    if output is not None:
        write_whole(output, links_of(link, made or ()).encode(), overwrite=False, mode=0o600)
    open_survey(loaded, settings.ledger, store, made, trial=trial)
    show_pairs([("survey", loaded.id), ("page", link), ("invitations", str(output or "none"))])


@survey_app.command("status", cls=HelpfulCommand)
def status(
    folder: _ServiceFolder,
    invitations: Annotated[
        Path | None,
        typer.Option(help="The file of invitations: print the links that nobody has used."),
    ] = None,
) -> None:
    """Say how many people have answered the surveys of a service.

    Until a survey is closed, answers are counted in steps of ten. With --invitations, the links of
    people who have not answered are printed, for reminders.
    """
    from suffice.cli.output import say, show_table
    from suffice.releases.file import read_bounded

    _, store = _served(folder)
    if invitations is None:
        rows = []
        for identity in store.surveys():
            opened = store.survey(identity)
            state = "" if opened is None else opened.state
            rows.append((identity, state, str(store.answered(identity))))
        show_table("surveys", ("survey", "state", "answers"), rows)
        return
    lines = read_bounded(invitations, 2**26).decode().splitlines()[1:]
    links = dict(line.split(",", 1) for line in lines)
    found = {link.rpartition("/")[2].partition("#")[0] for link in links.values()}
    for identity in found:
        say(*(links[text] for text in store.unused(identity, list(links))))


@survey_app.command("close", cls=HelpfulCommand)
def close(
    folder: _ServiceFolder,
    survey: SurveyPath,
    output: building.Output,
    force: building.Force = False,
    json: building.Json = False,
) -> None:
    """Close a survey, and release its answers.

    Nobody can answer any more. The answers become a signed release, charged to the ledger of the
    service, and are then deleted from the store. On the day that the survey states they are deleted
    in any case, also if nobody has closed it.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.survey import load_survey, release_survey

    check_outputs(output, reads=(folder, survey), force=force)
    settings, store = _served(folder)
    loaded = load_survey(survey)
    building = ReleaseOptions(
        output=output, no_ledger=True, sign=settings.key, force=force, json=json
    )
    with progress("reading answers"):
        release = release_survey(loaded, Ledger(settings.ledger), store)
    write_release(release, building)
    store.forget(loaded.id)


def _answer_files(paths: Sequence[Path]) -> list[Path]:
    """Return the answer files that were named, those of a folder in the order of their names."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        answers = [file for file in sorted(path.glob("*.json")) if not _is_survey(file)]
        if not answers:
            raise ParameterError(f"The folder {path} holds no answer files (*.json).")
        files += answers
    return files


def _is_survey(path: Path) -> bool:
    """Say whether a file is a survey; what is anything else is for `collect` to judge."""
    from suffice.releases.file import read_bounded
    from suffice.strict_json import parse

    try:
        content = parse(read_bounded(path, MOST_BYTES))
    except SufficeError:
        return False
    return isinstance(content, dict) and content.get("suffice") == "survey"


def _same_for(names: Iterable[str], value: float | None) -> dict[str, float]:
    return {} if value is None else dict.fromkeys(names, value)
