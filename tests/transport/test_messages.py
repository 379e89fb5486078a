"""Messages from strangers: every way to be wrong is a clear error of the library."""

import dataclasses
import inspect
import json

import pytest

from suffice import errors, strict_json
from suffice.errors import (
    CorruptFileError,
    ParameterError,
    ReleaseError,
    StorageError,
    UnsupportedFileError,
)
from suffice.owner.policy import Terms
from suffice.protocol import messages
from suffice.protocol.messages import (
    MOST_BYTES,
    Answer,
    Countered,
    Granted,
    Message,
    Proposal,
    Refused,
    digest_of,
)
from suffice.releases.release import HashedRows

ROWS = HashedRows(100, digest_of(b"rows"))
PROPOSAL = Proposal("mean-operator", Terms(1.0, 1e-6), ROWS, ("age", "dose"), purpose="a study")
GRANTED = Granted(PROPOSAL.digest, digest_of(b"release"))
COUNTERED = Countered(PROPOSAL.digest, Terms(0.5, 0.0, "knorm"), ("epsilon: at most 0.5",))
REFUSED = Refused(PROPOSAL.digest, ("nothing is left",))
ALL = [PROPOSAL, GRANTED, COUNTERED, REFUSED]
OTHERS = [
    dataclasses.replace(PROPOSAL, classes=("no", "yes", "perhaps"), map="rff:64"),
    dataclasses.replace(PROPOSAL, classes=(False, True), missing="mean", purpose=""),
    dataclasses.replace(PROPOSAL, pipeline=digest_of(b"p"), features=("größe\xa0", "a\n")),
]


def forged(message: Message, /, **changes) -> bytes:
    """Return the message with other fields and a digest that is right for them."""
    content = {**message._content(), **changes}
    return json.dumps({**content, "digest": digest_of(strict_json.canonical(content))}).encode()


@pytest.mark.parametrize("message", [*ALL, *OTHERS], ids=repr)
def test_a_message_survives_the_journey(message, tmp_path):
    path = tmp_path / "message.json"
    message.save(path)
    assert path.read_bytes() == message.encode() == strict_json.canonical(message.to_json())
    for kind in (Message, type(message)):
        assert kind.load(path) == message
    assert Message.load(json.dumps(message.to_json(), indent=2).encode() + b"\n") == message
    assert type(message).from_json(message.to_json()).digest == message.digest


def test_the_forger_itself_writes_good_messages():
    for message in ALL:
        assert Message.load(forged(message)) == message


def test_every_change_of_a_message_changes_its_digest_and_its_request():
    assert len({m.digest for m in (*ALL, *OTHERS)}) == len(ALL) + len(OTHERS)
    other = dataclasses.replace(PROPOSAL, purpose="another study")
    assert other.request != PROPOSAL.request
    assert dataclasses.replace(PROPOSAL, terms=Terms(1, 1e-6)).digest == PROPOSAL.digest


@pytest.mark.parametrize("message", ALL, ids=lambda m: m.name)
def test_an_altered_message_is_noticed(message):
    for name, value in message.to_json().items():
        other = {**message.to_json(), name: "sha256:" + "0" * 64 if value != 1 else 2}
        with pytest.raises(ReleaseError):
            Message.from_json(other)


@pytest.mark.parametrize("message", ALL, ids=lambda m: m.name)
def test_fields_are_neither_missing_nor_invented(message):
    for name in message.to_json():
        fields = {n: v for n, v in message.to_json().items() if n != name}
        with pytest.raises(CorruptFileError, match=r"is missing|not a suffice message"):
            Message.from_json(fields)
    with pytest.raises(CorruptFileError, match="at extra: there is no such member"):
        Message.load(forged(message, extra=1))
    with pytest.raises(UnsupportedFileError, match="kind or version"):
        Message.load(forged(message, version=3))
    with pytest.raises(UnsupportedFileError, match="kind or version"):
        Message.load(forged(message, version=True))
    with pytest.raises(UnsupportedFileError, match="kind or version"):
        Message.load(forged(message, message="labels"))


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 1},
        {"kind": "x\ny"},
        {"terms": None},
        {"terms": {"epsilon": 1, "delta": 0}},
        {"terms": {"epsilon": 1, "delta": 0, "mechanism": "auto", "more": 1}},
        {"terms": {"epsilon": "1", "delta": 0, "mechanism": "auto"}},
        {"terms": {"epsilon": True, "delta": 0, "mechanism": "auto"}},
        {"terms": {"epsilon": 0, "delta": 0, "mechanism": "auto"}},
        {"terms": {"epsilon": 1, "delta": 1, "mechanism": "auto"}},
        {"terms": {"epsilon": 1, "delta": 0, "mechanism": ""}},
        {"terms": {"epsilon": 1, "delta": 0, "mechanism": "\x1b[2J"}},
        {"rows": {"count": 0, "hash": ROWS.hash}},
        {"rows": {"count": 1.5, "hash": ROWS.hash}},
        {"rows": {"count": 1, "hash": "md5:0"}},
        {"rows": {"count": 1, "hash": ROWS.hash, "found_at": "here"}},
        {"features": []},
        {"features": "age"},
        {"features": ["age", "age"]},
        {"features": ["age", ""]},
        {"features": [["age"]]},
        {"classes": [0]},
        {"classes": [0, 0.5]},
        {"classes": [0, [1]]},
        {"classes": {"0": 1}},
        {"map": 5},
        {"map": "rff:5", "pipeline": ROWS.hash},
        {"map": "auto"},
        {"missing": "drop"},
        {"pipeline": "sha256:" + "G" * 64},
        {"purpose": None},
        {"purpose": "two\nlines"},
        {"purpose": "x" * 1001},
    ],
    ids=str,
)
def test_a_proposal_of_the_wrong_shape_is_refused_even_with_the_right_digest(changes):
    with pytest.raises(CorruptFileError):
        Proposal.load(forged(PROPOSAL, **changes))


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        (GRANTED, {"proposal": "x"}),
        (GRANTED, {"release": 1}),
        (COUNTERED, {"terms": {}}),
        (COUNTERED, {"reasons": []}),
        (REFUSED, {"reasons": "because"}),
        (REFUSED, {"reasons": ["\x1b]0;gotcha\x07"]}),
        (REFUSED, {"proposal": PROPOSAL.digest + "\n"}),
    ],
    ids=str,
)
def test_an_answer_of_the_wrong_shape_is_refused_even_with_the_right_digest(message, changes):
    with pytest.raises(CorruptFileError):
        Answer.load(forged(message, **changes))


def test_json_that_python_would_let_pass_is_refused(tmp_path):
    text = PROPOSAL.encode().decode()
    for bad in (
        text.replace('"epsilon":1', '"epsilon":NaN'),
        text.replace('"epsilon":1', '"epsilon":1e999'),
        text.replace('"epsilon":1', '"epsilon":1,"epsilon":1'),
        text.replace('"count":100', '"count":1' + "0" * 30),
        text.replace("a study", "\\ud800"),
        text.replace('"age"', '"\\ud800"'),
        text[:-1],
        "[" * 10_000,
        "null",
        "",
        "\xff",
    ):
        with pytest.raises(CorruptFileError):
            Message.load(bad.encode("latin-1"))
    path = tmp_path / "large.json"
    path.write_bytes(b" " * (MOST_BYTES + 1))
    with pytest.raises(StorageError, match="larger"):
        Message.load(path)
    with pytest.raises(CorruptFileError, match="larger than 1048576 bytes"):
        Message.load(path.read_bytes())


def test_a_proposal_is_no_answer_and_an_answer_no_proposal():
    with pytest.raises(UnsupportedFileError, match="not of kind answer"):
        Answer.load(PROPOSAL.encode())
    with pytest.raises(UnsupportedFileError, match="not of kind proposal"):
        Proposal.load(REFUSED.encode())


def test_a_proposal_that_could_not_be_read_cannot_be_written():
    for changes in (
        {"classes": (0, 2**60)},
        {"features": ("\ud800",)},
        {"features": tuple(f"{'long' * 20}{i}" for i in range(20_000))},
        {"purpose": "two\nlines"},
    ):
        with pytest.raises(ParameterError):
            dataclasses.replace(PROPOSAL, **changes)


def test_shells_can_tell_answers_from_each_other_and_from_errors():
    codes = [answer.exit_code for answer in (GRANTED, COUNTERED, REFUSED)]
    found = [e for _, e in inspect.getmembers(errors, inspect.isclass)]
    tree = [e.exit_code for e in found if issubclass(e, errors.SufficeError)]
    assert codes[0] == 0
    assert len({*codes, *tree}) == len(codes) + len(set(tree))
    assert "8 and 9" in errors.__doc__
    assert codes[1:] == [8, 9]


def test_messages_are_frozen():
    for message in ALL:
        with pytest.raises(dataclasses.FrozenInstanceError):
            message.proposal = "other"
    assert set(messages._MESSAGES) == {"proposal", "granted", "countered", "refused"}
