"""Commands of a survey: new and collect (who runs it), respond (who answers it)."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from suffice import options as parsing
from suffice.cli import options
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.output import show_json, show_pairs
from suffice.cli.releasing import Written, write_release
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
        str | None,
        typer.Option(
            help="That noise: laplace (the default), or gaussian (its epsilon is read at delta)."
        ),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(help="Where the epsilon of Gaussian noise is read; default: 1e-6."),
    ] = None,
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

    check_outputs(output, reads=parsing.by_column(matrix, Path, "--matrix").values())
    choices = parsing.by_column(states, parsing.states, "--states")
    numbers = parsing.by_column(limits, parsing.pair, "--range")
    _refuse_noise(numbers, noise, kernel, delta)
    variances = _by_name(noise, "--noise")
    survey = new_survey(
        title,
        states=choices,
        ranges=numbers,
        **_flips(choices, flip, epsilon, matrix),
        noise={**_all(numbers, variances.others), **variances.named},
        kernel=kernel or "laplace",
        texts=parsing.by_column(text, str, "--text"),
        label=label,
        delta=1e-6 if delta is None else delta,
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

    kept = Path(f"{output}.memory") if memory is None else memory
    check_outputs(output, kept, reads=(survey, truth_file))
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

    check_outputs(output, reads=(survey, *answers, sign))
    written = Written(output, no_ledger=True, sign=sign, json=json)
    write_release(gather(load_survey(survey), answers), written)


def _refuse_noise(
    numbers: dict[str, Any], noise: list[str] | None, kernel: str | None, delta: float | None
) -> None:
    """Raise if noise on numbers is described where there is none, or none that reads a delta."""
    if not numbers:
        described = {"--noise": noise or None, "--kernel": kernel, "--delta": delta}
        refuse_unused("without a question for a number (--range)", described)
    elif kernel != "gaussian":
        refuse_unused("without --kernel gaussian", {"--delta": delta})


def _flips(
    choices: Iterable[str],
    flip: list[str] | None,
    epsilon: list[str] | None,
    matrix: list[str] | None,
) -> dict[str, dict[str, Any]]:
    """Return flip and epsilon by question; what is given for all others goes to the rest."""
    tables = parsing.by_column(matrix, _table, "--matrix")
    chances, costs = _by_name(flip, "--flip"), _by_name(epsilon, "--epsilon")
    named = {**chances.named, **costs.named, **tables}
    if len(named) < len(chances.named) + len(costs.named) + len(tables):
        raise ParameterError("give the noise of a question once: --flip, --epsilon or --matrix.")
    rest = [name for name in choices if name not in named]
    return {
        "flip": {**_all(rest, chances.others), **chances.named, **tables},
        "epsilon": {**_all(rest, costs.others), **costs.named},
    }


def _by_name(given: list[str] | None, option: str) -> parsing.ByColumn:
    """Return numbers by question, and one for all others."""
    return parsing.value_or_by_column(_number(option), option)(given) or parsing.ByColumn({})


def _table(path: str) -> Any:
    from suffice.release.files import read_bounded
    from suffice.strict_json import parse

    return parse(read_bounded(Path(path), 2**20))


def _number(option: str) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ParameterError(f"{option} takes a number, or NAME=NUMBER.") from None

    return convert


def _all(names: Iterable[str], value: float | None) -> dict[str, float]:
    return {} if value is None else dict.fromkeys(names, value)
