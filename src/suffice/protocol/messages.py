"""The messages of the two-agent protocol (Patrini et al. 2016, Algorithm 3), as frozen values.

A learner sends a `Proposal`; the owner sends an `Answer`: `Granted`, `Countered` or `Refused`. No
message contains a record. A message is a canonical JSON file with a digest of its own contents, so
that readers notice an altered or damaged one. The digest does not show who wrote it. Every field
matters: a field that this version does not know is an error.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from suffice import strict_json
from suffice.errors import CorruptFileError, ParameterError, UnsupportedFileError
from suffice.options import MissingRule
from suffice.owner.policy import Terms
from suffice.releases.file import read_bounded, write_whole
from suffice.releases.release import HashedRows
from suffice.tables.columns import check_classes

MOST_BYTES = 2**20
_VERSION = 2
_HEAD = {"message", "version", "digest"}
_LONGEST_LINE = 1000  # letters: what a terminal or a page can show
Line = Annotated[str, ("maxLength", _LONGEST_LINE)]


class Message:
    """The base of all messages.

    Attributes
    ----------
    name
        The kind of message, as its file states it.
    """

    name: ClassVar[str] = "message"

    def to_json(self) -> dict[str, Any]:
        """Return the message as plain JSON values, with its digest."""
        return {**self._content(), "digest": self.digest}

    @property
    def digest(self) -> str:
        """The SHA-256 of the canonical contents, as ``sha256:...``; it identifies the message."""
        return digest_of(strict_json.canonical(self._content()))

    def encode(self) -> bytes:
        """Return the canonical bytes: the same message always gives the same bytes."""
        return strict_json.canonical(self.to_json())

    def save(self, path: str | Path, *, overwrite: bool = True) -> None:
        """Write the message to a file, completely or not at all.

        Parameters
        ----------
        path
            The file.
        overwrite
            Whether an existing file may be replaced.

        Raises
        ------
        StorageError
            If the file cannot be written, or exists and may not be replaced.
        """
        write_whole(Path(path), self.encode(), overwrite=overwrite)

    @classmethod
    def load(cls, source: str | Path | bytes) -> Self:
        """Return the message in a file, after checking it completely.

        ``Proposal.load`` reads proposals, ``Answer.load`` answers, ``Message.load`` both. White
        space does not matter, because the digest is over the contents.

        Parameters
        ----------
        source
            A path, or the bytes themselves.

        Raises
        ------
        ReleaseError
            If this is not such a message, or it was altered or damaged.
        StorageError
            If the file cannot be read, or is too large.
        """
        data = source if isinstance(source, bytes) else read_bounded(Path(source), MOST_BYTES)
        if len(data) > MOST_BYTES:
            raise CorruptFileError(
                f"This file is larger than {MOST_BYTES} bytes, so it is not a suffice message."
            )
        return cls.from_json(strict_json.parse(data))

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return the message that `to_json` wrote.

        Parameters
        ----------
        data
            Plain JSON values.

        Raises
        ------
        CorruptFileError
            If a field is missing, unknown or not valid, or the digest does not match.
        UnsupportedFileError
            If this is a message of another kind or version.
        """
        if not isinstance(data, dict) or not data.keys() >= _HEAD:
            raise CorruptFileError("This is not a suffice message.")
        kind = _MESSAGES.get(strict_json.text(data["message"]))
        if kind is None or data["version"] is True or data["version"] != _VERSION:
            raise UnsupportedFileError(
                "This version of suffice cannot read a message of this kind or version."
            )
        if not issubclass(kind, cls):
            raise UnsupportedFileError(f"This message is not of kind {cls.name} but {kind.name!r}.")
        content = {name: value for name, value in data.items() if name not in _HEAD}
        message = strict_json.read(kind, content, "message")
        if message.digest != data["digest"]:
            raise CorruptFileError(
                "The digest does not match. The message was altered or damaged. Ask for it again."
            )
        return message

    def _content(self) -> dict[str, Any]:
        """Return everything but the digest."""
        return {"message": self.name, "version": _VERSION, **strict_json.plain(self)}

    @classmethod
    def schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of such a message, with its kind, version and digest."""
        schema = strict_json.schema(cls)
        head = {"message": {"enum": [cls.name]}, "version": {"enum": [_VERSION]}}
        digest = {"digest": strict_json.schema(strict_json.Digest)}
        schema["properties"] = {**head, **digest, **schema["properties"]}
        schema["required"] = list(schema["properties"])
        return schema

    def _check_writable(self) -> None:
        """Raise if JSON cannot hold the contents, or a reader would not take the bytes."""
        try:
            size = len(self.encode())
        except ValueError:
            raise ParameterError(
                "JSON cannot hold this message. Use only complete characters, and integers below"
                " 2^53."
            ) from None
        if size > MOST_BYTES:
            raise ParameterError(
                f"This message would be larger than {MOST_BYTES} bytes. Name fewer features."
            )


@dataclass(frozen=True)
class Proposal(Message):
    """What a learner requests, of which rows, at which epsilon and delta.

    A proposal contains no row. Two proposals that differ in anything, even in their purpose, are
    two requests.

    Parameters
    ----------
    kind
        The kind of release, as `suffice release` calls it.
    terms
        Epsilon, delta and mechanism.
    rows
        The number of public rows, and their hash over the columns ``features``; None where rows are
        private.
    features
        The names of the columns.
    classes
        The classes of the labels.
    map
        A feature map by its name, as for `MeanOperator`; never "auto".
    missing
        What to do about missing values, as for `MeanOperator`.
    pipeline
        The digest of an earlier release's pipeline that replaces ``map`` and ``missing``.
    purpose
        What the release is for, in words for the owner.
    options
        Further options of this kind, by name: ``bags`` (columns), ``bound``, ``target`` (a column)
        or ``count``.

    Raises
    ------
    ParameterError
        If a part of the proposal is not valid, or the message would be too large.
    """

    name: ClassVar[str] = "proposal"

    kind: str
    terms: Terms
    rows: HashedRows | None
    features: tuple[str, ...]
    classes: tuple[str | int | float | bool, ...] = (0, 1)
    map: str | None = None
    missing: str = "error"
    pipeline: strict_json.Digest | None = None
    purpose: Line = ""
    options: Mapping[str, int | float | tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = [self.kind, self.terms.mechanism, self.map or "", self.purpose, *self.options]
        for line in texts:
            _check_line(line)
        names = self.features
        if not names or len(set(names)) < len(names) or not all(names):
            raise ParameterError(
                "A proposal must name at least one feature, and none of them twice."
            )
        check_classes(self.classes)
        if self.map == "auto":  # whoever grants has to know how much work it is, and what leaves
            raise ParameterError("A proposal names its map, for example ranks, or none. Name one.")
        if self.missing not in {*MissingRule}:
            raise ParameterError(f"missing must be one of {', '.join(MissingRule)}.")
        if self.pipeline is not None:
            _check_digest(self.pipeline)
            if self.map is not None:
                raise ParameterError(
                    "map cannot be used with pipeline, which has its own. Remove map."
                )
        self._check_writable()

    @property
    def request(self) -> str:
        """The name of the request that the ledger charges."""
        return f"proposal {self.digest.removeprefix('sha256:')[:32]}"


class Answer(Message):
    """The owner's answer to a proposal. It does not depend on any label.

    Attributes
    ----------
    exit_code
        The exit code of ``suffice grant``.
    proposal
        The digest of the proposal.
    """

    name: ClassVar[str] = "answer"
    exit_code: ClassVar[int]

    proposal: str


@dataclass(frozen=True)
class Granted(Answer):
    """The answer that grants a proposal, and names the release."""

    name: ClassVar[str] = "granted"
    exit_code: ClassVar[int] = 0

    proposal: strict_json.Digest
    release: strict_json.Digest  # of its file

    def __post_init__(self) -> None:
        _check_digest(self.proposal)
        _check_digest(self.release)


@dataclass(frozen=True)
class Countered(Answer):
    """The answer that offers other terms. Nothing was released or charged.

    The owner may still refuse these terms later, if the budget was used for another request.
    """

    name: ClassVar[str] = "countered"
    exit_code: ClassVar[int] = 8

    proposal: strict_json.Digest
    terms: Terms  # the nearest that the owner would grant now
    reasons: tuple[str, ...]  # why the proposed terms are not granted, one sentence each

    def __post_init__(self) -> None:
        _check_digest(self.proposal)
        _check_line(self.terms.mechanism)
        _check_reasons(self)


@dataclass(frozen=True)
class Refused(Answer):
    """The answer that refuses a proposal. Nothing was released or charged."""

    name: ClassVar[str] = "refused"
    exit_code: ClassVar[int] = 9

    proposal: strict_json.Digest
    reasons: tuple[str, ...]  # one sentence each

    def __post_init__(self) -> None:
        _check_digest(self.proposal)
        _check_reasons(self)


_MESSAGES: dict[str, type[Message]] = {
    kind.name: kind for kind in (Proposal, Granted, Countered, Refused)
}


def digest_of(data: bytes) -> str:
    """Return the SHA-256 of a byte string: ``sha256:`` and 64 hexadecimal digits.

    Examples
    --------
    >>> digest_of(b"suffice")[:15]
    'sha256:0762c559'
    """
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _check_line(line: str) -> None:
    """Raise unless the text can be shown: what strangers write must not steer a terminal."""
    if len(line) > _LONGEST_LINE or not line.isprintable():
        raise ParameterError(
            f"A text in a message must be one printable line of at most {_LONGEST_LINE} letters."
        )


def _check_reasons(answer: Countered | Refused) -> None:
    if not answer.reasons:
        raise ParameterError("An answer that does not grant a proposal must give a reason.")
    for reason in answer.reasons:
        _check_line(reason)
    answer._check_writable()  # noqa: SLF001  # one of our own


def _check_digest(text: str) -> None:
    if not strict_json.is_digest(text):
        raise ParameterError("A digest must be written as sha256: and 64 hexadecimal digits.")
