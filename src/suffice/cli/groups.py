"""Options that always come together: one dataclass is one parameter of a command."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from suffice.cli import options, parsing
from suffice.cli.checks import refuse_unused
from suffice.cli.output import show_json, show_pairs
from suffice.errors import ParameterError
from suffice.plain_text import listed

__all__ = ["Leaving", "MappedRows", "grouped", "write_release"]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose parameters that are dataclasses are replaced by their fields."""
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters.values()
    groups = {p.name: hints[p.name] for p in parameters if dataclasses.is_dataclass(hints[p.name])}
    fields = {name: [f.name for f in dataclasses.fields(kind)] for name, kind in groups.items()}

    @functools.wraps(command)
    def called(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field: given.pop(field) for field in fields[name]})
        command(**given)

    shown = [p.replace(annotation=hints[p.name]) for p in parameters if p.name not in groups]
    for kind in groups.values():
        of_kind = get_type_hints(kind, include_extras=True)
        shown += [
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=of_kind[field.name],
            )
            for field in dataclasses.fields(kind)
        ]
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in shown}
    return called


@dataclasses.dataclass(frozen=True)
class MappedRows:
    """How public rows become coordinates."""

    features: options.Features = None
    categories: options.Categories = None
    feature_map: options.FeatureMap = None
    clip: options.Clip = None
    intercept: options.Intercept = None
    missing: options.Missing = "error"

    @property
    def names(self) -> list[str] | None:
        """The feature columns, if they were named."""
        return parsing.names(self.features)

    @property
    def pipeline(self) -> dict[str, Any]:
        """What fits a pipeline, by the names that the library has for it."""
        return {
            "categories": parsing.lists_by_column(self.categories, "--categories"),
            "map": self.feature_map,
            "clip": self.clip,
            "intercept": self.intercept,
            "missing": self.missing,
        }


@dataclasses.dataclass(frozen=True)
class Leaving:
    """Who pays for a release, how it is signed, and how it is reported."""

    ledger: options.LedgerFile = None
    dataset: options.Dataset = None
    no_ledger: options.NoLedger = False
    request: options.Request = None
    data_changed: options.DataChanged = False
    sign: options.SigningKey = None
    json: options.Json = False

    @property
    def files(self) -> tuple[Path | None, ...]:
        """What is read on the way out, and must not be written over."""
        return self.ledger, self.sign

    def paid(self) -> dict[str, Any]:
        """Return who pays, as a mechanism wants to know it; that nobody does must be said aloud."""
        from suffice.owner.ledger import Ledger

        if (self.ledger is None) != self.no_ledger:
            raise ParameterError(
                "say who pays: --ledger FILE --dataset NAME, or --no-ledger for a release without"
                " one."
            )
        if self.no_ledger:
            unused = {
                "--dataset": self.dataset,
                "--request": self.request,
                "--data-changed": self.data_changed or None,
            }
            refuse_unused("with --no-ledger", unused)
        payer = None if self.ledger is None else Ledger(self.ledger)
        return {
            "ledger": payer,
            "dataset": self.dataset,
            "request": self.request,
            "data_changed": self.data_changed,
        }

    def classes(self, given: str | None, label: str | None) -> tuple[Any, ...]:
        """Return the classes given on the command line, else those of the ledger, else 0 and 1."""
        from suffice.owner.ledger import Ledger

        if given is not None:
            return parsing.values(given)
        if self.ledger is None or self.dataset is None:
            return (0, 1)
        return Ledger(self.ledger).classes(self.dataset, label) or (0, 1)

    def write(
        self,
        release: Any,
        output: Path,
        told: dict[str, Any] | None = None,
        *,
        shown: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Sign, save and report; ``told`` goes into the JSON, ``shown`` below what was written."""
        write_release(release, output, self.sign, told, shown=shown, json=self.json)


def write_release(
    release: Any,
    output: Path,
    key: Path | None,
    told: dict[str, Any] | None = None,
    *,
    shown: Sequence[tuple[str, str]] = (),
    json: bool,
) -> None:
    """Sign a release with ``key`` if there is one, save it, and say what it promises."""
    if key is not None:
        from suffice.release.signing import sign

        release = sign(release, key)
    release.save(output)
    if json:
        promises = [guarantee.to_json() for guarantee in release.guarantees]
        counted = {"rows": release.rows} if told is None else told
        show_json({"written": str(output), **counted, "guarantees": promises})
        return
    show_pairs(
        [
            ("written", str(output)),
            *shown,
            ("features", _some([column.name for column in release.pipeline.columns])),
            *((f"per {guarantee.unit}", str(guarantee)) for guarantee in release.guarantees),
        ]
    )


def _some(names: list[str]) -> str:
    """Return a few names and how many more there are: an id among them is soon seen."""
    return listed(names) or "none"
