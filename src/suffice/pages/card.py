"""A card for a release: one page for those who decide about it and do not compute.

It is made from the release alone, which everybody may read, and from what its writer adds in words.
The same content is a page of HTML, Markdown, or a record in JSON. The record has the members of the
deployments registry of OpenDP and NIST (``deployment``) and of model cards (Mitchell et al. 2019;
``model_card``). What the release does not know (who, for what, when) stays empty unless it is said.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from suffice import strict_json
from suffice.errors import ParameterError
from suffice.pages.report import PageTable, page, prose, table_html
from suffice.plain_text import escaped, listed, markup, name, phrase, quoted
from suffice.privacy.guarantee import (
    PRACTICALLY_NONE,
    WEAK,
    Guarantee,
    Unit,
    cost_phrase,
    explain,
    guarantee_sentences,
    lists,
    words_for,
)
from suffice.releases.codec import load
from suffice.releases.kinds import kind_named
from suffice.releases.release import Release, encode
from suffice.releases.signing import fingerprint

_PRINT = """<style>dl { display: grid; grid-template-columns: 10rem 1fr; gap: .2rem 1rem;
margin: .6rem 0; font-size: .9rem; } dt { color: var(--soft); } dd { margin: 0; }
@media print { @page { margin: 1cm 1.5cm; }
body { font-size: 8pt; line-height: 1.25; max-width: none; margin: 0; padding: 0; }
h1 { font-size: 13pt; margin: 0; } h2 { font-size: 10pt; margin: .4rem 0 .1rem; }
p { margin: .15rem 0; } dl { margin: .15rem 0; gap: 0 .6rem; }
.table { margin: .2rem 0; } th, td { padding: .05rem .4rem; }
h2 { break-after: avoid; } table { break-inside: avoid; } }</style>"""
Part = str | PageTable | list[tuple[str, str]]
_NO_ROWS = ("label-responses", "responses", "reports")  # kinds that answer row by row
_MEASURED = {
    "accuracy": "proportion of rows whose class is predicted correctly",
    "balanced_accuracy": "the same, where each class counts alike",
    "auc": "area under the ROC curve",
    "log_loss": "log loss",
    "brier": "Brier score",
    "r2": "R^2",
    "mean_absolute_error": "mean absolute error",
}


# --- the record


@dataclass(frozen=True)
class Flavour:
    """Which kind of differential privacy, over which data."""

    name: Literal["Pure DP", "Approximate DP", "None"]
    data_domain: str
    unprotected_quantities: str


@dataclass(frozen=True)
class Parameters:
    """Epsilon and delta; None where nothing is promised."""

    epsilon: float | None
    delta: float | None


@dataclass(frozen=True)
class PrivacyLoss:
    """The guarantee of the largest epsilon; all of them are in ``guarantees``."""

    privacy_unit: str
    privacy_unit_description: str
    privacy_parameters: Parameters
    privacy_parameters_description: str


@dataclass(frozen=True)
class Model:
    """Who is trusted, and how often something is published."""

    model_name: Literal["Central", "Local"]
    actors: str
    is_many_release: bool
    is_interactive: bool
    is_dynamic: bool


@dataclass(frozen=True)
class Accounting:
    """What is added to what."""

    composition: str
    post_processing: str


@dataclass(frozen=True)
class Implementation:
    """What was done to the data."""

    mechanisms: str
    pre_processing_eda_hyperparameter_tuning: str
    justification: str


@dataclass(frozen=True)
class Deployment:
    """What the deployments registry asks."""

    name: str
    data_curator: str | None
    description: str
    intended_use: str | None
    data_product_type: Literal["Summary statistics", "Machine learning model", "Microdata"]
    dp_flavor: Flavour
    privacy_loss: PrivacyLoss
    model: Model
    accounting: Accounting
    implementation: Implementation
    additional_information: str


@dataclass(frozen=True)
class ModelCard:
    """What a model card asks, as texts."""

    model_details: tuple[str, ...]
    intended_use: str | None
    metrics: Mapping[str, float]
    evaluation_data: str
    training_data: str
    ethical_considerations: str
    caveats_and_recommendations: tuple[str, ...]


@dataclass(frozen=True)
class Stated:
    """One guarantee of the release, in words and as the file states it."""

    unit: str
    words: str
    epsilon: float | None
    delta: float
    kind: str
    scope: str
    public: tuple[str, ...]
    assumptions: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """A card for programs."""

    card: Literal[1]
    release: str  # the SHA-256 of the file
    status: Literal["Draft"]  # whoever publishes the record changes it
    deployment: Deployment
    guarantees: tuple[Stated, ...]
    model_card: ModelCard
    anonymity: tuple[str, ...]
    impact_assessment: str


# --- the card


@dataclass(frozen=True, eq=False)
class Card:
    """Describes a release for officers, ethics boards and output checkers; nothing private is read.

    Parameters
    ----------
    release : Release
        What is published.
    curator : str, optional
        Who publishes it.
    purpose : str, optional
        What it is for.
    audience : str, optional
        Who gets it. Default: everybody.
    quality : mapping, optional
        What ``suffice score --json`` printed for rows of a learner's own.
    """

    release: Release
    curator: str | None = None
    purpose: str | None = None
    audience: str | None = None
    quality: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        rows = (self.quality or {"rows": 1}).get("rows")
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ParameterError(
                "The quality must be what `suffice score --json` prints: it lacks the number of"
                " rows."
            )

    @property
    def widest(self) -> Guarantee:
        """The guarantee that is weakest: none first, else the largest epsilon."""
        return max(
            self.release.guarantees,
            key=lambda g: (not g.protected, float("inf") if g.epsilon is None else g.epsilon),
        )

    @property
    def shown(self) -> tuple[Guarantee, ...]:
        """The guarantees on the page, of which a file may have many; the record has all."""
        return self.release.guarantees[:20]

    @property
    def metrics(self) -> dict[str, float]:
        """The figures that a learner measured."""
        stated = self.quality or {}
        kept = {key: stated.get(key) for key in _MEASURED}
        return {
            key: float(value)
            for key, value in kept.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }

    # Each part is plain text; HTML and Markdown escape it.

    def published(self) -> list[tuple[str, str]]:
        """Return what is published, and for whom."""
        release, kind = self.release, kind_named(self.release.kind)
        counted = release.parts[0].counted
        owners = f", of {len(release.parts):,} owners" if len(release.parts) > 1 else ""
        signed = release.signature
        return [
            ("published", kind.title),
            ("computed from", f"{release.rows:,} {counted}{owners}"),
            ("columns", listed([column.name for column in release.pipeline.columns])),
            *([("classes", listed(release.classes))] if release.classes else []),
            ("by", self.curator or "not stated"),
            ("for", self.audience or "everybody: whoever has the file may pass it on"),
            ("purpose", self.purpose or "not stated"),
            ("signed", "no" if signed is None else f"by key {fingerprint(signed)}"),
        ]

    def forecast(self) -> list[tuple[str, str]]:
        """Return what the file says of its noise, and of its own quality."""
        kind = kind_named(self.release.kind)
        noise = self.release.noise.form != "none"
        return [*([("noise", kind.noise_words(self.release))] if noise else []),
                *kind.words(self.release)]  # fmt: skip

    def measured(self) -> list[str]:
        """Return the quality that a learner measured."""
        if self.quality is None:
            return [
                (
                    "Nobody has measured it yet. A learner measures it on rows of its own with"
                    " `suffice score --json`; never on the private table, since a score tells"
                    " of its labels."
                )
            ]
        rows = self.quality["rows"]
        figures = [f"{_MEASURED[key]}: {value:.3g}" for key, value in self.metrics.items()]
        return [
            (
                f"A learner measured it on {rows:,} rows of its own, which are not the private"
                f" table. {'; '.join(figures)}."
            )
        ]

    def limits(self) -> list[str]:
        """Return what the release does not do, in sentences."""
        epsilon = self.widest.epsilon
        weak = epsilon is not None and epsilon > WEAK
        return [
            ("It does not hide what the data as a whole say about a group, nor what a reader may"
            " conclude from that about a person whose data were never used."),
            ("Other releases of the same data add to what this one reveals. Only the owner's ledger"
            " knows their sum."),
            ("The guarantee is a statement of whoever wrote the file. A signature shows who that"
            " is. Nothing in the file proves that the data were handled as it says."),
            *(["The guarantee is weak: an epsilon above 3 lets a reader become much more sure."]
              if weak else []),
        ]  # fmt: skip

    def anonymity(self) -> list[str]:
        """Return what the guarantee says about the three questions that lawyers ask."""
        guarantee = self.widest
        words, epsilon = words_for(guarantee), guarantee.epsilon
        first = (
            "Anonymous is a word of the law, and depends on who holds the file and what else they"
            " have. This page states facts for that decision; it does not take it. Opinion 05/2014"
            " of the Article 29 Working Party asks three questions."
        )
        if not guarantee.protected or epsilon is None:
            return [
                first,
                (
                    "Singling out, linking, inference: at least one guarantee of this release is no"
                    f" differential privacy. A reader may find out {words.any_unit}. Treat the file"
                    " as personal data."
                ),
            ]
        rows = (
            "The file has one line for each record, changed at random."
            if self.release.kind in _NO_ROWS
            else "The file holds sums with noise and no line about a single record."
        )
        strength = (
            "" if epsilon <= PRACTICALLY_NONE else " At this epsilon the limit is no barrier."
        )
        after = dict(explain(guarantee).rows).get("10 %", "")
        rarely = ", but for rare results (see the table)" if guarantee.delta else ""
        limit = (
            f"{words.any_unit}: who believed it with 10 % before can believe it with at most"
            f" {after} after{rarely} ({cost_phrase(epsilon, guarantee.delta)})"
        )
        public = (
            f" What the guarantee names as public ({listed(guarantee.public, each=phrase)}) is not"
            " protected by it, and has to be judged without it."
            if guarantee.public
            else ""
        )
        return [
            first,
            (
                f"Singling out: {rows} The limit below holds for each {words.noun} alike, so that"
                f" nobody stands out by more.{public}"
            ),
            (
                "Linking: the limit holds whatever other data, now or later, a reader puts beside"
                " this file. For several releases of the same data, limits add up."
            ),
            (
                f"Inference: the file limits what a reader may conclude about {limit}.{strength} It"
                " leaves conclusions that follow from the data of others."
            ),
        ]

    def impact(self) -> str:
        """Return a paragraph for a data protection impact assessment (Article 35 GDPR)."""
        guarantee, kind = self.widest, kind_named(self.release.kind)
        words = words_for(guarantee)
        found = dict.fromkeys(str(a) for g in self.release.guarantees for a in g.assumptions)
        assumed = listed(found, last="; ", each=str) if found else "none are stated"
        who = name(self.curator) if self.curator else "The controller"
        what = (
            f"for this purpose: {quoted(self.purpose)}"
            if self.purpose
            else "for a purpose to be stated here"
        )
        measure = (
            f"The measure is differential privacy for {words.each_unit}"
            f" ({cost_phrase(guarantee.epsilon or 0, guarantee.delta)}), proven for the mechanism"
            " and not only tested."
            if guarantee.protected
            else "The release has no guarantee of differential privacy, so that other measures have"
            " to carry the risk."
        )
        remaining = (
            "The risk that remains is inference within that limit, and what the data reveal about"
            " groups."
            if guarantee.protected
            else "The risk that remains is that a reader works out private values."
        )
        return (
            f"{who} publishes {kind.title}, computed from {self.release.rows:,}"
            f" {self.release.parts[0].counted}, {what}. The private data stay where they are; a"
            f" reader gets this file alone. {measure} {remaining} It depends on these assumptions:"
            f" {assumed}. What other releases of these data add to it, the owner's ledger says."
        )

    def record(self) -> Record:
        """Return the card for programs."""
        release, guarantee, kind = self.release, self.widest, kind_named(self.release.kind)
        words = words_for(guarantee)
        is_model = "learner" in release.details
        by_row = release.kind in _NO_ROWS
        flavour: Literal["Pure DP", "Approximate DP", "None"] = "None"
        if guarantee.protected:
            flavour = "Approximate DP" if guarantee.delta else "Pure DP"
        public = dict.fromkeys(str(item) for g in release.guarantees for item in g.public)
        local = guarantee.unit is Unit.PERSON and by_row
        parameters = Parameters(guarantee.epsilon, guarantee.delta)
        if not guarantee.protected:
            parameters = Parameters(None, None)
        details = [f"{head}: {text}" for head, text in (*self.published(), *self.forecast())]
        return Record(
            card=1,
            release=f"sha256:{hashlib.sha256(encode(release)).hexdigest()}",
            status="Draft",
            deployment=Deployment(
                name=kind.title,
                data_curator=self.curator,
                description=f"{kind.title}, from {release.rows:,} {release.parts[0].counted}",
                intended_use=self.purpose,
                data_product_type=(
                    "Machine learning model" if is_model
                    else "Microdata" if by_row else "Summary statistics"
                ),
                dp_flavor=Flavour(
                    flavour,
                    f"columns: {listed([c.name for c in release.pipeline.columns])}",
                    "; ".join(public) or "none",
                ),
                privacy_loss=PrivacyLoss(
                    str(guarantee.unit),
                    f"Adjacent data sets differ in {words.changed_unit}, which is replaced.",
                    parameters,
                    " ".join(guarantee_sentences(guarantee)),
                ),
                model=Model(
                    "Local" if local else "Central",
                    "each person changes the answer before it is sent" if local
                    else "the owner of the data is trusted; readers are not",
                    is_many_release=False,
                    is_interactive=False,
                    is_dynamic=False,
                ),
                accounting=Accounting(
                    "This record is about one release. The owner's ledger adds up all of them.",
                    "Whatever is computed from the file alone has the same guarantee.",
                ),
                implementation=Implementation(
                    f"{guarantee.event.to_json()['event']}; {release.library}",
                    f"scaling from {release.pipeline.origin}",
                    "not stated",
                ),
                additional_information=" ".join(self.limits()),
            ),
            guarantees=tuple(
                Stated(
                    str(g.unit), str(g), g.epsilon, g.delta, str(g.kind), str(g.scope),
                    tuple(map(str, g.public)), tuple(map(str, g.assumptions)),
                )
                for g in release.guarantees
            ),
            model_card=ModelCard(
                tuple(map(escaped, details)),
                self.purpose,
                self.metrics,
                "rows of a learner's own; never the private table" if self.quality else "none yet",
                f"{release.rows:,} {release.parts[0].counted} of"
                f" {len(release.parts):,} owner{'s' if len(release.parts) > 1 else ''}",
                " ".join(self.anonymity()),
                tuple(self.limits()),
            ),
            anonymity=tuple(self.anonymity()),
            impact_assessment=self.impact(),
        )  # fmt: skip

    def beliefs(self) -> list[str | PageTable]:
        """Return how sure a reader may become, in one table, and what to know about it."""
        odds = {explain(g).title: explain(g) for g in self.shown}
        tables = [odd for odd in odds.values() if odd.rows]
        notes = list(dict.fromkeys(note for odd in odds.values() for note in odd.notes))
        if not tables:
            return [" ".join(notes)]
        common = "How sure a reader may become of any "
        heads = [odd.title.removeprefix(common) for odd in tables]
        rows = zip(*(odd.rows for odd in tables), strict=True)
        cells = tuple((row[0][0], *(after for _, after in row)) for row in rows)
        title = "How sure a reader may become, at most, who believed something before."
        return [PageTable(title, ("belief before", *heads), cells), " ".join(notes)]

    def parts(self) -> list[tuple[str, list[Part]]]:
        """Return the page as headings with paragraphs, facts and tables below them."""
        shown = self.shown
        said = dict.fromkeys(" ".join(guarantee_sentences(g)) for g in shown)
        rest = dict.fromkeys(line for g in shown for line in lists(g.public, g.assumptions))
        forecast = self.forecast()
        return [
            ("What is published, and for whom", [self.published()]),
            ("What it guarantees", [*said, *self.beliefs()]),
            ("What is public, and what is assumed", list(rest) or ["Nothing is stated."]),
            ("What it is good for", [*([forecast] if forecast else []), *self.measured()]),
            ("Is it anonymous?", list(self.anonymity())),
            ("Limits", list(self.limits())),
            ("For the data protection impact assessment", [self.impact()]),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values."""
        plain: dict[str, Any] = strict_json.plain(self.record())
        return plain

    def to_html(self) -> str:
        """Return the page, which needs no other file."""
        return page("Card of a release", _PRINT + self._markup("h2"))

    def _markup(self, level: str) -> str:
        body = ""
        for heading, content in self.parts():
            body += f"<{level}>{heading}</{level}>"
            for item in content:
                if isinstance(item, str):
                    body += prose([escaped(item)])
                elif isinstance(item, PageTable):
                    body += table_html(item)
                else:
                    cells = (
                        f"<dt>{markup(head)}</dt><dd>{markup(text)}</dd>" for head, text in item
                    )
                    body += f"<dl>{''.join(cells)}</dl>"
        return body

    def to_markdown(self) -> str:
        """Return the page as Markdown, in which no text from the file is markup."""
        lines = ["# Card of a release"]
        for heading, content in self.parts():
            lines += ["", f"## {heading}"]
            for item in content:
                if isinstance(item, str):
                    lines += ["", _plain_markdown(item)]
                elif isinstance(item, PageTable):
                    heads = map(_plain_markdown, item.columns)
                    lines += ["", _plain_markdown(item.title), "", f"| {' | '.join(heads)} |"]
                    lines.append("|---" * len(item.columns) + "|")
                    lines += [f"| {' | '.join(map(_plain_markdown, row))} |" for row in item.rows]
                else:
                    facts = (tuple(map(_plain_markdown, pair)) for pair in item)
                    lines += ["", *(f"- {head}: {text}" for head, text in facts)]
        return "\n".join(lines) + "\n"

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the card as its name ends: .html, .md or .json.

        Parameters
        ----------
        path : str or Path
            The file to write.
        overwrite : bool, default=False
            Whether a file of that name is replaced.
        """
        from suffice.releases.file import write_whole

        forms: Mapping[str, Callable[[], str]] = {
            ".html": self.to_html,
            ".md": self.to_markdown,
            ".json": lambda: json.dumps(self.to_json(), indent=2, ensure_ascii=True) + "\n",
        }
        suffix = Path(path).suffix
        if suffix not in forms:
            raise ParameterError("The name of a card must end in .html, .md or .json.")
        write_whole(Path(path), forms[suffix]().encode(), overwrite=overwrite)

    def __str__(self) -> str:
        return self.to_markdown()

    def _repr_html_(self) -> str:
        """Return the card for a notebook."""
        return f'<div style="text-align:left;max-width:46rem">{self._markup("h4")}</div>'


def _plain_markdown(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", escaped(text))


def card(
    release: Release | str | Path,
    *,
    curator: str | None = None,
    purpose: str | None = None,
    audience: str | None = None,
    quality: Mapping[str, Any] | None = None,
) -> Card:
    """Return a card for a release: one page for those who decide about it.

    The release file alone is read, and no private data.

    Parameters
    ----------
    release : Release, str or Path
        The release, or its file.
    curator, purpose, audience : str, optional
        Who publishes it, what for, and for whom.
    quality : mapping, optional
        What ``suffice score --json`` printed for rows of a learner's own.

    Returns
    -------
    Card
        ``save("card.html")`` writes it; ``to_json()`` is a record for a registry.

    Examples
    --------
    >>> import numpy as np, suffice as sf
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> release = sf.MeanOperator(1.0, map=None).release(X, (X[:, 0] > 0) * 1, ledger=None)
    >>> record = sf.card(release, purpose="Teach students.").to_json()
    >>> record["deployment"]["privacy_loss"]["privacy_parameters"]
    {'epsilon': 1.0, 'delta': 0.0}
    """
    loaded = release if isinstance(release, Release) else load(release)
    return Card(loaded, curator, purpose, audience, quality)
