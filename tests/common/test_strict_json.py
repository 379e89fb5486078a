"""The declared reader of JSON: what it takes, what it refuses and where, and what it describes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from suffice import strict_json
from suffice.errors import CorruptFileError, ParameterError


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    epsilon: float
    name: str = "auto"

    def __post_init__(self) -> None:
        if self.epsilon <= 0:
            raise ParameterError("Epsilon must be above 0.")


@dataclass(frozen=True)
class Outer:
    inner: Inner
    count: Annotated[int, ("minimum", 1), ("maximum", 9)]
    classes: tuple[str | int | float | bool, ...]
    colour: Colour = Colour.RED
    flag: bool = False
    pair: tuple[str, float] | None = None
    table: Mapping[str, Inner] = field(default_factory=dict)
    digest: strict_json.Digest | None = None
    mode: Literal["x", 1] = "x"
    bits: bytes = b""
    place: Path | None = None
    anything: Any = None


DIGEST = "sha256:" + 64 * "0"
SMALL = {"inner": {"epsilon": 1}, "count": 2, "classes": ["a", 1, 1.5, True]}
LARGE = Outer(
    Inner(1.0, "laplace"),
    9,
    ("a", 1),
    Colour.BLUE,
    flag=True,
    pair=("p", 2.0),
    table={"t": Inner(0.5)},
    digest=DIGEST,
    mode=1,
    bits=b"\x00\xff",
    anything=[1, {"a": None}],
)


def test_reads_by_annotations():
    small = strict_json.read(Outer, SMALL, defaults=True)
    assert small == Outer(Inner(1.0), 2, ("a", 1, 1.5, True))
    assert type(small.inner.epsilon) is float
    assert [type(c) for c in small.classes] == [str, int, float, bool]


def test_what_is_written_is_read():
    written = strict_json.plain(LARGE)
    assert strict_json.parse(strict_json.canonical(written)) == written
    assert strict_json.read(Outer, written) == LARGE
    assert strict_json.read(Outer, {**written, "place": "a/b"}).place == Path("a/b")


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"secret": 1}, r"at secret: there is no such member"),
        ({"\x1b[2J" + 100 * "x": 1}, r"at \\x1b\[2Jx{53}: there is no such member"),
        ({"inner": {"epsilon": 1, "other": 2}}, r"at inner\.other: there is no such member"),
        ({"inner": {}}, r"at inner\.epsilon: this member is missing"),
        ({"inner": []}, r"at inner: an object"),
        ({"inner": {"epsilon": True}}, r"at inner\.epsilon: a number"),
        ({"inner": {"epsilon": "1"}}, r"at inner\.epsilon: a number"),
        ({"inner": {"epsilon": 10**400}}, r"at inner\.epsilon: a number"),
        ({"inner": {"epsilon": -1}}, r"at inner: Epsilon must be above 0\.$"),
        ({"count": True}, r"at count: a whole number"),
        ({"count": 2.0}, r"at count: a whole number"),
        ({"count": 0}, r"at count: its minimum is 1"),
        ({"count": 10}, r"at count: its maximum is 9"),
        ({"classes": "ab"}, r"at classes: a list"),
        ({"classes": ["a", None]}, r"at classes\[1\]"),
        ({"colour": "secret"}, r"at colour: it must be one of red, blue\.$"),
        ({"colour": ["red"]}, r"at colour: it must be one of"),
        ({"mode": True}, r"at mode: it must be one of x, 1"),
        ({"flag": 1}, r"at flag: true or false"),
        ({"pair": ["a"]}, r"at pair: a list of 2"),
        ({"pair": ["a", "b"]}, r"at pair\[1\]: a number"),
        ({"table": {"k": {"epsilon": None}}}, r"at table\.k\.epsilon: a number"),
        ({"digest": DIGEST + "\n"}, r"at digest: its pattern"),
        ({"bits": "a"}, r"at bits: a text in base64"),
        ({"bits": "é"}, r"at bits: a text in base64"),
        ({"place": 1}, r"at place: a text"),
    ],
)
def test_one_error_with_the_path(change, error):
    with pytest.raises(CorruptFileError, match=r"^The file is not valid " + error) as caught:
        strict_json.read(Outer, {**SMALL, **change}, defaults=True)
    assert "secret" not in str(caught.value).replace("at secret", "")


def test_members_with_defaults_are_needed_unless_allowed():
    with pytest.raises(CorruptFileError, match=r"inner\.name: this member is missing"):
        strict_json.read(Outer, {**strict_json.plain(LARGE), "inner": {"epsilon": 1}})


def test_the_caller_chooses_the_error():
    with pytest.raises(ParameterError, match=r"^The policy is not valid: an object"):
        strict_json.read(Inner, [], "policy", error=ParameterError)


def test_duplicates_end_before():
    with pytest.raises(CorruptFileError, match="twice"):
        strict_json.parse(b'{"epsilon": 1, "epsilon": 2}')


def test_schema_says_what_is_read():
    inner = {
        "type": "object",
        "properties": {"epsilon": {"type": "number"}, "name": {"type": "string"}},
        "required": ["epsilon"],
        "additionalProperties": False,
    }
    schema = strict_json.schema(Outer, defaults=True)
    assert schema["required"] == ["inner", "count", "classes"]
    assert schema["additionalProperties"] is False
    scalars = [{"type": name} for name in ("string", "integer", "number", "boolean")]
    assert schema["properties"] == {
        "inner": inner,
        "count": {"type": "integer", "minimum": 1, "maximum": 9},
        "classes": {"type": "array", "items": {"anyOf": scalars}},
        "colour": {"enum": ["red", "blue"]},
        "flag": {"type": "boolean"},
        "pair": {
            "anyOf": [
                {
                    "type": "array",
                    "prefixItems": [{"type": "string"}, {"type": "number"}],
                    "minItems": 2,
                    "items": False,
                },
                {"type": "null"},
            ]
        },
        "table": {"type": "object", "additionalProperties": inner},
        "digest": {
            "anyOf": [{"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}, {"type": "null"}]
        },
        "mode": {"enum": ["x", 1]},
        "bits": {"type": "string"},
        "place": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "anything": {},
    }
    complete = strict_json.schema(Outer)
    assert complete["required"] == list(complete["properties"])
