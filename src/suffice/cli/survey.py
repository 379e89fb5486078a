"""Commands of a survey: new and collect (who runs it), respond (who answers it)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice.cli import options, parsing
from suffice.cli.groups import write_release
from suffice.cli.output import show_json, show_pairs
from suffice.errors import CorruptFileError, ParameterError, StorageError

__all__ = ["register"]

survey_app = typer.Typer(help="Ask people, who randomise their answers themselves.")

SurveyPath = Annotated[Path, typer.Argument(help="A survey's file.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(survey_app, name="survey", no_args_is_help=True)


@survey_app.command("new")
def new(
    states: Annotated[
        list[str],
        typer.Option(help="NAME=A,B,C or NAME=0..10: the answers that can be given (repeatable)."),
    ],
    output: options.Output,
    limits: Annotated[
        list[str] | None,
        typer.Option("--range", help="NAME=LO,HI: a question for a number (repeatable)."),
    ] = None,
    text: Annotated[
        list[str] | None, typer.Option(help="NAME=WORDS: what is asked (repeatable).")
    ] = None,
    flip: Annotated[
        list[str] | None,
        typer.Option(
            help="The chance that an answer becomes another one; NAME=CHANCE: of one question."
        ),
    ] = None,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(help="In its place: what an answer may cost; NAME=EPSILON: of one question."),
    ] = None,
    matrix: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FILE: P as JSON rows, P_ij = P[answer i | truth j] (repeatable)."),
    ] = None,
    noise: Annotated[
        list[str] | None,
        typer.Option(help="The variance of the noise on numbers; NAME=VARIANCE: of one question."),
    ] = None,
    kernel: Annotated[
        str, typer.Option(help="That noise: laplace, or gaussian (its epsilon is read at delta).")
    ] = "laplace",
    delta: Annotated[float, typer.Option(help="Where the epsilon of Gaussian noise is read.")] = (
        1e-6
    ),
    label: Annotated[
        str | None,
        typer.Option(help="The question to predict from others; default: the first with states."),
    ] = None,
    title: Annotated[str, typer.Option(help="What the survey is about.")] = "A survey",
    json: options.Json = False,
) -> None:
    """Write a survey: its questions, their noise, and what they promise in words."""
    from suffice.owner.responses.survey import new_survey
    from suffice.release.files import write_whole

    choices = parsing.by_column(states, parsing.states, "--states")
    numbers = parsing.by_column(limits, parsing.pair, "--range")
    tables = parsing.by_column(matrix, _table, "--matrix")
    chances, costs = _split(flip, "--flip"), _split(epsilon, "--epsilon")
    named = {**chances[1], **costs[1], **tables}
    if len(named) < len(chances[1]) + len(costs[1]) + len(tables):
        raise ParameterError("give the noise of a question once: --flip, --epsilon or --matrix.")
    rest = [name for name in choices if name not in named]
    variances = _split(noise, "--noise")
    survey = new_survey(
        title,
        states=choices,
        ranges=numbers,
        flip={**_all(rest, chances[0]), **chances[1], **tables},
        epsilon={**_all(rest, costs[0]), **costs[1]},
        noise={**_all(numbers, variances[0]), **variances[1]},
        kernel=kernel,
        texts=parsing.by_column(text, str, "--text"),
        label=label,
        delta=delta,
    )
    write_whole(output, survey.data)
    if json:
        show_json({"written": str(output), **survey.content})
        return
    promises = [(q["name"], q["guarantee"]) for q in survey.content["questions"]]
    whole = ("sheet", survey.content["guarantee"])
    show_pairs([("written", str(output)), ("survey", survey.id), *promises, whole])


@survey_app.command("respond")
def respond(
    survey: SurveyPath,
    output: options.Output,
    truth: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE: the truth (repeatable); others see it.")
    ] = None,
    truth_file: Annotated[
        Path | None, typer.Option(help="The truth as JSON, {NAME: VALUE}.")
    ] = None,
    memory: Annotated[
        Path | None,
        typer.Option(help="What you answered so far; default: OUTPUT.memory, beside the answer."),
    ] = None,
) -> None:
    """Answer a survey once, randomised; asked again, the same answer is given again."""
    from suffice import participant

    try:
        participant.respond_to_file(survey, output, truth or (), truth_file, memory)
    except participant.SurveyError as error:
        raise CorruptFileError(str(error)) from None
    except ValueError as error:
        raise ParameterError(str(error)) from None
    except EOFError:
        raise ParameterError("a question was left without an answer.") from None
    except OSError as error:
        raise StorageError(f"{error.filename or output}: {error.strerror}.") from None


@survey_app.command("collect")
def collect(
    survey: SurveyPath,
    answers: Annotated[list[Path], typer.Argument(help="The participants' answer files.")],
    output: options.Output,
    sign: options.SigningKey = None,
    json: options.Json = False,
) -> None:
    """Check all answers and write them as one release of randomised records."""
    from suffice.owner.responses.survey import collect as gather
    from suffice.owner.responses.survey import load_survey

    write_release(gather(load_survey(survey), answers), output, sign, json=json)


def _table(path: str) -> Any:
    from suffice.release.files import read_bounded
    from suffice.strict_json import parse

    return parse(read_bounded(Path(path), 2**20))


def _split(items: list[str] | None, option: str) -> tuple[float | None, dict[str, float]]:
    """Return the number for all questions, if there is one, and those of questions by name."""
    convert = _number(option)
    for_all = [convert(item) for item in items or () if "=" not in item]
    if len(for_all) > 1:
        raise ParameterError(f"{option} is given twice for all questions.")
    named = [item for item in items or () if "=" in item]
    return for_all[0] if for_all else None, parsing.by_column(named, convert, option)


def _number(option: str) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ParameterError(f"{option} takes a number, or NAME=NUMBER.") from None

    return convert


def _all(names: Iterable[str], value: float | None) -> dict[str, float]:
    return {} if value is None else dict.fromkeys(names, value)
