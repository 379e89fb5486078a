"""The messages of the two-agent protocol (Patrini et al. 2016, Algorithm 3), as frozen values.

A learner sends a `Proposal`; the owner sends an `Answer`: `Granted`, `Countered` or `Refused`. None
of them holds a record. A message travels as canonical JSON with a digest of its own contents, so
that an altered or damaged one is noticed; who wrote it is for the channel to say. Every field is
critical: one that this version does not know is an error.
"""

import hashlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from suffice import strict_json
from suffice.errors import CorruptFileError, ParameterError, ReleaseError, UnsupportedFileError
from suffice.owner.ledger.policy import Terms
from suffice.release.artifact import RowSet
from suffice.release.files import read_bounded, write_whole
from suffice.tables.labels import check_classes
from suffice.tables.missing_rule import MissingRule

__all__ = [
    "MOST_BYTES",
    "Answer",
    "Countered",
    "Granted",
    "Message",
    "Proposal",
    "Refused",
    "digest_of",
]

MOST_BYTES = 2**20
_VERSION = 1
_HEAD = {"message", "version", "digest"}
_LONGEST_LINE = 1000


class Message:
    """Holds what both sides may know; the base of all messages."""

    name: ClassVar[str] = "message"

    def to_json(self) -> dict[str, Any]:
        """Return the message as plain JSON values, its digest among them."""
        return {**self._content(), "digest": self.digest}

    @property
    def digest(self) -> str:
        """The message's own name: ``sha256:...`` over its canonical contents."""
        return digest_of(strict_json.canonical(self._content()))

    def encode(self) -> bytes:
        """Return the canonical bytes: the same message always gives the same."""
        return strict_json.canonical(self.to_json())

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the message whole or not at all; without ``overwrite``, never over a file."""
        write_whole(Path(path), self.encode(), overwrite=overwrite)

    @classmethod
    def load(cls, source: str | Path | bytes) -> Self:
        """Return the message in a file, or raise: nothing in it is trusted before it was checked.

        ``Proposal.load`` reads proposals, ``Answer.load`` answers, ``Message.load`` both. White
        space does not matter: the digest is over the contents.
        """
        data = source if isinstance(source, bytes) else read_bounded(Path(source), MOST_BYTES)
        if len(data) > MOST_BYTES:
            raise CorruptFileError(f"a message has at most {MOST_BYTES} bytes.")
        return cls.from_json(strict_json.parse(data))

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return the message that `to_json` wrote; everything else is a `ReleaseError`."""
        if not isinstance(data, dict) or not data.keys() >= _HEAD:
            raise CorruptFileError("this is not a suffice message.")
        kind = _MESSAGES.get(strict_json.text(data["message"]))
        if kind is None or data["version"] is True or data["version"] != _VERSION:
            raise UnsupportedFileError("the message is of a kind or version that is not read here.")
        if not issubclass(kind, cls):
            raise UnsupportedFileError(f"this is no {cls.name} but a message {kind.name!r}.")
        known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # all are dataclasses
        content = {name: value for name, value in data.items() if name not in _HEAD}
        if not content.keys() >= known:
            raise CorruptFileError("the message lacks a field.")
        if content.keys() != known:
            raise UnsupportedFileError("the message has a field that this version does not know.")
        try:
            message = kind._from_content(content)  # noqa: SLF001  # one of our own
        except ReleaseError:
            raise
        except (ParameterError, TypeError, AttributeError) as error:
            raise CorruptFileError("the message's contents are not valid.") from error
        if message.digest != data["digest"]:
            raise CorruptFileError("the digest does not match: the message was altered or damaged.")
        return message

    def _content(self) -> dict[str, Any]:
        """Return everything but the digest."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        plain = {name: _plain(value) for name, value in values.items()}
        return {"message": self.name, "version": _VERSION, **plain}

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Self:
        raise NotImplementedError

    def _check_writable(self) -> None:
        """Raise if JSON cannot hold the contents, or a reader would not take the bytes."""
        try:
            size = len(self.encode())
        except ValueError:
            raise ParameterError(
                "a message holds text and numbers that JSON can write: whole characters, and"
                " integers below 2^53."
            ) from None
        if size > MOST_BYTES:
            raise ParameterError(f"a message has at most {MOST_BYTES} bytes; name fewer features.")


@dataclass(frozen=True)
class Proposal(Message):
    """Says what a learner wants, on which public rows, at which price; it holds no row.

    ``rows`` names the rows by their number and hash over the columns ``features``. ``map`` and
    ``missing`` are as for `MeanOperator`; ``pipeline`` is the digest of the pipeline of an earlier
    release that is to be used instead. ``purpose`` is for people. A proposal that differs in
    anything, if only in its purpose, is another request.
    """

    name: ClassVar[str] = "proposal"

    kind: str
    terms: Terms
    rows: RowSet
    features: tuple[str, ...]
    classes: tuple[Any, ...] = (0, 1)
    map: str | None = None
    missing: str = "error"
    pipeline: str | None = None
    purpose: str = ""

    def __post_init__(self) -> None:
        for line in (self.kind, self.terms.mechanism, self.map or "", self.purpose):
            _check_line(line)
        names = self.features
        if not names or len(set(names)) < len(names) or not all(names):
            raise ParameterError("a proposal must name its features, none of them twice.")
        check_classes(self.classes)
        if self.missing not in {*MissingRule}:
            raise ParameterError(f"missing must be one of {', '.join(MissingRule)}.")
        if self.pipeline is not None:
            _check_digest(self.pipeline)
            if self.map is not None:
                raise ParameterError("the given pipeline has its map already; leave out map.")
        self._check_writable()

    @property
    def request(self) -> str:
        """The name under which a ledger pays for it, once."""
        return f"proposal {self.digest.removeprefix('sha256:')[:32]}"

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Self:
        rows = _object(content["rows"], {"count", "hash"})
        return cls(
            kind=strict_json.text(content["kind"]),
            terms=_terms(content["terms"]),
            rows=RowSet(rows["count"], strict_json.text(rows["hash"])),
            features=_texts(content["features"]),
            classes=tuple(_list(content["classes"])),
            map=_optional_text(content["map"]),
            missing=strict_json.text(content["missing"]),
            pipeline=_optional_text(content["pipeline"]),
            purpose=strict_json.text(content["purpose"]),
        )


class Answer(Message):
    """Says what became of a proposal, which it names by its digest; depends on no label.

    ``exit_code`` is how ``suffice grant`` ends, for shells.
    """

    name: ClassVar[str] = "answer"
    exit_code: ClassVar[int]

    proposal: str


@dataclass(frozen=True)
class Granted(Answer):
    """Names the release that was made for a proposal, by the SHA-256 of its file."""

    name: ClassVar[str] = "granted"
    exit_code: ClassVar[int] = 0

    proposal: str
    release: str

    def __post_init__(self) -> None:
        _check_digest(self.proposal)
        _check_digest(self.release)

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Self:
        return cls(strict_json.text(content["proposal"]), strict_json.text(content["release"]))


@dataclass(frozen=True)
class Countered(Answer):
    """States the nearest terms that would be granted; nothing was released or spent.

    It is no promise: by the time of the next proposal somebody else may have been granted theirs.
    """

    name: ClassVar[str] = "countered"
    exit_code: ClassVar[int] = 8

    proposal: str
    terms: Terms
    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_digest(self.proposal)
        _check_line(self.terms.mechanism)
        _check_reasons(self)

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Self:
        proposal = strict_json.text(content["proposal"])
        return cls(proposal, _terms(content["terms"]), _texts(content["reasons"]))


@dataclass(frozen=True)
class Refused(Answer):
    """Says why nothing is granted; nothing was released or spent."""

    name: ClassVar[str] = "refused"
    exit_code: ClassVar[int] = 9

    proposal: str
    reasons: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_digest(self.proposal)
        _check_reasons(self)

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> Self:
        return cls(strict_json.text(content["proposal"]), _texts(content["reasons"]))


_MESSAGES: dict[str, type[Message]] = {
    kind.name: kind for kind in (Proposal, Granted, Countered, Refused)
}


def digest_of(data: bytes) -> str:
    """Return the name of a byte string: ``sha256:`` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _plain(value: Any) -> Any:
    """Return a field's value as plain JSON."""
    match value:
        case Terms():
            return {"epsilon": value.epsilon, "delta": value.delta, "mechanism": value.mechanism}
        case RowSet():
            return {"count": value.count, "hash": value.hash}
        case tuple():
            return list(value)
    return value


def _terms(value: object) -> Terms:
    terms = _object(value, {"epsilon", "delta", "mechanism"})
    return Terms(
        strict_json.number(terms["epsilon"]),
        strict_json.number(terms["delta"]),
        strict_json.text(terms["mechanism"]),
    )


def _object(value: object, names: set[str]) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != names:
        raise CorruptFileError(f"the message must state {', '.join(sorted(names))}, and no more.")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise CorruptFileError("the message holds something else where a list belongs.")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(strict_json.text, _list(value)))


def _optional_text(value: object) -> str | None:
    return None if value is None else strict_json.text(value)


def _check_line(line: str) -> None:
    """Raise unless the text can be shown: what strangers write must not steer a terminal."""
    if len(line) > _LONGEST_LINE or not line.isprintable():
        raise ParameterError(
            f"texts must be one printable line of at most {_LONGEST_LINE} letters."
        )


def _check_reasons(answer: Countered | Refused) -> None:
    if not answer.reasons:
        raise ParameterError("an answer that does not grant must say why.")
    for reason in answer.reasons:
        _check_line(reason)
    answer._check_writable()  # noqa: SLF001  # one of our own


def _check_digest(text: str) -> None:
    if not strict_json.is_digest(text):
        raise ParameterError("a digest must be written as sha256: and 64 hexadecimal digits.")
