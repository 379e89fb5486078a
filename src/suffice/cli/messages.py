"""How proposals and answers of the two-agent protocol are printed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from suffice.cli.output import show_json, show_pairs
from suffice.plain_text import listed, name, phrase

__all__ = ["describe_message", "show_message"]

_NAMES_PER_LINE = 50  # a printed line has at most 4000 characters
_REASONS = 8  # of many
_TITLES = {
    "proposal": "a learner's proposal",
    "granted": "an owner's answer: the proposal is granted",
    "countered": "an owner's answer: a counter-proposal; nothing was released or charged",
    "refused": "an owner's answer: the proposal is refused; nothing was released or charged",
}

Pair = tuple[str, str]


def show_message(message: Any, more: Mapping[str, Sequence[str]], *, json: bool) -> None:
    """Print a proposal or an answer; ``more`` comes first."""
    if json:
        show_json({**more, **message.to_json()})
        return
    show_pairs([*((key, "; ".join(lines)) for key, lines in more.items())])
    show_pairs(list(describe_message(message)))


def describe_message(message: Any) -> Iterator[Pair]:
    """Yield what a proposal or an answer says, line by line."""
    content = message.to_json()
    yield "holds", _TITLES[message.name]
    if message.name == "proposal":
        yield from _proposal_lines(message)
    else:
        yield "answer", message.digest
        yield "to proposal", _shortened(content["proposal"])
    if "release" in content:
        yield "release", _shortened(content["release"])
    if message.name == "countered":
        yield "would grant", _terms(content["terms"])
    reasons = content.get("reasons", ())
    if reasons:
        more = len(reasons) - _REASONS
        lines = [phrase(str(reason)) for reason in reasons[:_REASONS]]
        yield "reasons", "; ".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def _proposal_lines(proposal: Any) -> Iterator[Pair]:
    yield "proposal", proposal.digest
    yield "asks for", phrase(proposal.kind)
    yield "terms", _terms(proposal.to_json()["terms"])
    yield "rows", f"{proposal.rows.count:,} ({_shortened(proposal.rows.hash)})"
    heading = f"{len(proposal.features):,} columns"
    for start in range(0, len(proposal.features), _NAMES_PER_LINE):
        names = proposal.features[start : start + _NAMES_PER_LINE]
        yield heading, ", ".join(map(name, names))
        heading = ""
    yield "classes", listed(proposal.classes)
    yield "missing values", phrase(proposal.missing)
    if proposal.map is not None:
        yield "feature map", phrase(proposal.map)
    if proposal.pipeline is not None:
        yield "scaled as", f"an earlier release (pipeline {_shortened(proposal.pipeline)})"
    if proposal.purpose:
        yield "purpose", phrase(proposal.purpose)


def _terms(terms: Mapping[str, Any]) -> str:
    mechanism = phrase(str(terms["mechanism"]))
    return f"epsilon {terms['epsilon']:g}, delta {terms['delta']:g}, mechanism {mechanism}"


def _shortened(digest: str) -> str:
    return f"{digest[:23]}..."
