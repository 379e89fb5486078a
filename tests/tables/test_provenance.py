"""Where a pipeline's numbers came from: what is stated, what a file holds, what old files say."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from suffice.errors import CorruptFileError, ParameterError
from suffice.release.codec import encode, load
from suffice.release.signing import verify
from suffice.tables.pipeline import Column, Pipeline
from suffice.tables.provenance import (
    DECLARED,
    PRIVATE_ROWS,
    UNKNOWN,
    Origin,
    Provenance,
    public_rows,
    weakest,
)

OLD = Path(__file__).parents[1] / "fixtures" / "version1"
ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64
MADE = Pipeline((Column("a"),), "error", np.zeros(1), np.ones(1), 2.0, 1.0)
ALL = [DECLARED, public_rows(ONE), PRIVATE_ROWS, UNKNOWN]

# As the code before origins computed them, on the fixtures.
_CLINIC = "sha256:fe913f4fefa774a69872f4f10c62fed4b012f30b89f94d16aa5587b565f0172b"
DIGESTS = {
    "granted": _CLINIC,
    "label-responses": _CLINIC,
    "laplace": _CLINIC,
    "mapped": "sha256:af3a4338d369ce6fa21a1b9f011c48fa846cbcc68ed72083fa9e9e1ca3eafc1f",
    "mean-operator": _CLINIC,
    "model": _CLINIC,
    "proportions": "sha256:c64794928793bc91e9b5ab106edc9892c9a28c259a15c84ecde3aa545cccf2e1",
    "rados": "sha256:1f31f2051121dc236d0c4106b3975a6646841f9a77b96c00bb21bff85c4b0040",
    "rados-from-rows": _CLINIC,
    "responses": "sha256:90bdb4cb6af170748a96053988aa6e2650a91df194859fa8c9172f429ddf41a5",
    "signed": _CLINIC,
    "survey": "sha256:42ee2c930278c6352fe97f34ed50b96ade7a326dd5e5fc600e0b3cf291b10691",
    "votes": "sha256:755ad30ed57ee3d91247fb58bacf41133cd913d135ef0fe26c7abbba28b4817d",
}


def test_every_old_release_is_among_those_that_are_checked():
    assert {path.stem for path in OLD.glob("*.suffice")} == set(DIGESTS)


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_an_old_file_is_unknown_and_keeps_its_digest_and_its_bytes(name):
    data = (OLD / f"{name}.suffice").read_bytes()
    release = load(data)
    assert release.pipeline.origin == UNKNOWN
    assert release.pipeline.digest() == DIGESTS[name]
    for origin in ALL:
        assert replace(release.pipeline, origin=origin).digest() == DIGESTS[name]
    assert encode(release) == data


def test_an_old_signature_still_holds():
    verify(load(OLD / "signed.suffice"), OLD / "key.pub")


@pytest.mark.parametrize("origin", ALL)
def test_an_origin_travels_and_is_no_part_of_what_a_pipeline_does(origin):
    stated = replace(MADE, origin=origin)
    assert stated == MADE
    again = Pipeline.from_json(stated.to_json(), stated.arrays())
    assert again.origin == origin
    assert ("origin" in stated.to_json()) == (origin != UNKNOWN)


def test_a_pipeline_of_which_nothing_is_said_is_unknown():
    assert MADE.origin == UNKNOWN
    assert not UNKNOWN.is_public


@pytest.mark.parametrize(
    "origin",
    [
        None,
        "declared",
        {},
        {"source": "declared"},
        {"source": "declared", "rows": [], "more": 1},
        {"source": "declared", "rows": [ONE]},
        {"source": "unknown", "rows": []},
        {"source": "trusted", "rows": []},
        {"source": ["declared"], "rows": []},
        {"source": "public rows", "rows": []},
        {"source": "public rows", "rows": ONE},
        {"source": "public rows", "rows": [[ONE]]},
        {"source": "public rows", "rows": [ONE, ONE]},
        {"source": "public rows", "rows": [TWO, ONE]},
        {"source": "public rows", "rows": [ONE + "\n"]},
        {"source": "public rows", "rows": ["sha256:" + "\x1b" * 64]},
        {"source": "private rows", "rows": {}},
    ],
)
def test_an_origin_that_is_none_is_refused(origin):
    with pytest.raises(CorruptFileError, match="origin"):
        Pipeline.from_json({**MADE.to_json(), "origin": origin}, MADE.arrays())


def test_other_fields_are_checked_as_before():
    with pytest.raises(CorruptFileError, match="exactly the fields"):
        Pipeline.from_json({**MADE.to_json(), "source": "declared"}, MADE.arrays())
    with pytest.raises(ParameterError):
        Provenance(Origin.PUBLIC_ROWS)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ([DECLARED, DECLARED], DECLARED),
        ([DECLARED, public_rows(ONE)], public_rows(ONE)),
        ([public_rows(TWO), public_rows(ONE)], Provenance(Origin.PUBLIC_ROWS, (ONE, TWO))),
        ([public_rows(ONE), UNKNOWN], UNKNOWN),
        ([DECLARED, PRIVATE_ROWS], PRIVATE_ROWS),
        ([UNKNOWN, PRIVATE_ROWS], PRIVATE_ROWS),
        ([PRIVATE_ROWS, UNKNOWN], PRIVATE_ROWS),
    ],
)
def test_the_weakest_origin_wins(stated, expected):
    assert weakest(stated) == expected


def test_many_hashes_are_shown_short():
    many = weakest(public_rows(f"sha256:{n:064x}") for n in range(5))
    assert str(many).endswith("and 2 more")
    assert len(many.rows) == 5
