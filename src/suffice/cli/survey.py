"""Commands of a survey: new and collect (who runs it), respond (who answers it)."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from suffice.cli import options
from suffice.cli.building import Asked, group_with, make_command
from suffice.cli.checks import check_outputs, refuse_unused
from suffice.cli.options import OutputFile
from suffice.cli.output import show_json, show_pairs
from suffice.cli.releasing import Written, write_release
from suffice.errors import CorruptFileError, ParameterError, StorageError
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

__all__ = ["register"]

SurveyPath = Annotated[Path, typer.Argument(help="A survey's file.")]


def _number(option_name: str) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            raise ParameterError(f"{option_name} takes a number, or NAME=NUMBER.") from None

    return convert


def _by_question(option_name: str) -> dict[str, Any]:
    """Return how an option for all questions, or for one, is declared."""
    return {
        "group": Group.PRIVACY,
        "parse": value_or_by_column(_number(option_name), option_name),
        "many": True,
    }


@dataclass(frozen=True, kw_only=True)
class _New(OutputFile):
    """The questions of a survey, and their noise."""

    states: dict[str, Any] = data_option(
        REQUIRED,
        "NAME=A,B,C or NAME=0..10: the answers that can be given to a question (repeatable).",
        parse=lambda texts: by_column(texts, states, "--states"),
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
        "NAME=WORDS: what is asked (repeatable).",
        name="--text",
        parse=lambda given: by_column(given, str, "--text"),
        many=True,
    )
    flip: ByColumn | None = option(
        None,
        help="Probability that an answer becomes another one, for example 0.25; NAME=0.1: of one"
        " question.",
        **_by_question("--flip"),
    )
    epsilon: ByColumn | None = option(
        None,
        help="Epsilon of an answer, for example 1, instead of --flip; NAME=2: of one question.",
        **_by_question("--epsilon"),
    )
    matrix: dict[str, str] = privacy_option(
        (),
        "NAME=FILE: probabilities P as JSON rows, P_ij = P[answer i | truth j] (repeatable).",
        parse=lambda given: by_column(given, str, "--matrix"),
        path=lambda text: Path(text.partition("=")[2]),
        many=True,
    )
    noise: ByColumn | None = option(
        None,
        name="--noise-variance",
        old=("--noise",),
        help="Variance of the noise on numbers, for example 4; NAME=9: of one question.",
        **_by_question("--noise-variance"),
    )
    kernel: str | None = privacy_option(
        None,
        "Type of noise on numbers: laplace (the default), or gaussian (uses --delta).",
        name="--noise-type",
        old=("--kernel",),
    )
    delta: float | None = privacy_option(
        None, "Delta at which the epsilon of Gaussian noise is read. Default: 1e-6."
    )
    label: str | None = data_option(
        None, "Question to predict from the others. Default: the first with states."
    )
    title: str = data_option("A survey", "What the survey is about.")
    language: str = data_option("en", "Language of the sentences that participants read: en or de.")

    def flips(self) -> dict[str, dict[str, Any]]:
        """Return flip and epsilon by question; what is given for all others goes to the rest."""
        tables = {name: _table(path) for name, path in dict(self.matrix).items()}
        chances, costs = ByColumn.of(self.flip), ByColumn.of(self.epsilon)
        named = {**chances.named, **costs.named, **tables}
        if len(named) < len(chances.named) + len(costs.named) + len(tables):
            raise ParameterError(
                "give the noise of a question once: --flip, --epsilon or --matrix."
            )
        rest = [name for name in self.states if name not in named]
        return {
            "flip": {**_all(rest, chances.others), **chances.named, **tables},
            "epsilon": {**_all(rest, costs.others), **costs.named},
        }

    def check_noise(self) -> None:
        """Raise if noise on numbers is described where there is none, or none reads a delta."""
        if not self.ranges:
            described = {
                "--noise-variance": self.noise,
                "--noise-type": self.kernel,
                "--delta": self.delta,
            }
            refuse_unused("without a question for a number (--range)", described)
        elif self.kernel != "gaussian":
            refuse_unused("without --noise-type gaussian", {"--delta": self.delta})


def _new_command() -> TyperCommand:
    """Return ``suffice survey new``."""

    def run(asked: Asked) -> None:
        from suffice.owner.responses.survey import new_survey
        from suffice.release.files import write_whole

        given = _New(**asked.values["given"])
        given.check_noise()
        numbers, variances = dict(given.ranges), ByColumn.of(given.noise)
        survey = new_survey(
            given.title,
            states=given.states,
            ranges=numbers,
            **given.flips(),
            noise={**_all(numbers, variances.others), **variances.named},
            kernel=given.kernel or "laplace",
            texts=dict(given.texts),
            label=given.label,
            delta=1e-6 if given.delta is None else given.delta,
            language=given.language,
        )
        write_whole(given.output, survey.data, overwrite=given.force)
        if given.json:
            show_json({"written": str(given.output), **survey.content})
            return
        promises = [(q["name"], q["guarantee"]) for q in survey.content["questions"]]
        whole = ("sheet", survey.content["guarantee"])
        show_pairs([("written", str(given.output)), ("survey", survey.id), *promises, whole])

    summary = "Write a survey: its questions, their noise, and what they promise in words."
    return make_command("new", {"given": _New}, run, help=summary)


survey_app = typer.Typer(
    cls=group_with({"new": _new_command}),
    help="Ask people, who randomise their answers themselves.",
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(survey_app, name="survey", no_args_is_help=True)


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
    check_outputs(output, appends=[kept], reads=(survey, truth_file), force=None)
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
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Check all answers and write them as one release of randomised records."""
    from suffice.owner.responses.survey import collect as gather
    from suffice.owner.responses.survey import load_survey

    check_outputs(output, reads=(survey, *answers, sign), force=force)
    written = Written(output=output, no_ledger=True, sign=sign, force=force, json=json)
    write_release(gather(load_survey(survey), answers), written)


def _table(path: str) -> Any:
    from suffice.release.files import read_bounded
    from suffice.strict_json import parse

    return parse(read_bounded(Path(path), 2**20))


def _all(names: Iterable[str], value: float | None) -> dict[str, float]:
    return {} if value is None else dict.fromkeys(names, value)
