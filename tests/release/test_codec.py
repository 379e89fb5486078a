"""Files from strangers: every way to be wrong is a clear error of the library."""

import hashlib
import json
import struct

import numpy as np
import pytest
import rfc8785
import safetensors.numpy

from suffice.errors import CorruptFileError, StorageError, UnsupportedFileError
from suffice.releases import codec, file
from suffice.releases.codec import decode, load
from suffice.releases.release import encode

HEAD = 32


def parts_of(data: bytes) -> tuple[dict, bytes]:
    manifest, payload, _ = struct.unpack_from("<QQQ", data, 8)
    return json.loads(data[HEAD : HEAD + manifest]), data[
        HEAD + manifest : HEAD + manifest + payload
    ]


def sealed(manifest: dict | bytes, payload: bytes, *, hashed: bool = True) -> bytes:
    """Return a file around these contents, with all checksums right."""
    if isinstance(manifest, dict):
        if hashed:
            manifest["payload"] = {"sha256": hashlib.sha256(payload).hexdigest()}
        manifest = rfc8785.dumps(manifest)
    body = b"suffice\x01" + struct.pack("<QQQ", len(manifest), len(payload), 0) + manifest + payload
    return body + hashlib.sha256(body).digest()


@pytest.fixture
def data(release) -> bytes:
    return encode(release)


def test_the_sealer_itself_makes_good_files(data, release):
    assert decode(sealed(*parts_of(data))) == release


def test_a_file_that_was_cut_off_at_any_place_is_noticed(data):
    for size in range(0, len(data), 7):
        with pytest.raises(CorruptFileError):
            decode(data[:size])
    with pytest.raises(CorruptFileError):
        decode(data + b"\0")


def test_a_single_flipped_bit_anywhere_is_noticed(data):
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(data), 400):
        broken = bytearray(data)
        broken[position] ^= 1 << int(rng.integers(8))
        with pytest.raises((CorruptFileError, UnsupportedFileError)):
            decode(bytes(broken))


def test_a_swapped_payload_is_noticed_even_with_a_right_checksum(data):
    manifest, payload = parts_of(data)
    arrays = safetensors.numpy.load(payload)
    arrays["mean_operator"] = arrays["mean_operator"] + 1
    with pytest.raises(CorruptFileError, match="payload is not the one"):
        decode(sealed(manifest, safetensors.numpy.save(arrays), hashed=False))


def test_a_duplicate_key_in_the_manifest_is_refused(data):
    manifest, payload = parts_of(data)
    text = rfc8785.dumps(manifest).replace(b'"kind":', b'"kind":"model","kind":', 1)
    with pytest.raises(CorruptFileError, match="twice"):
        decode(sealed(text, payload))


def test_a_duplicate_array_in_the_payload_is_refused(data):
    manifest, payload = parts_of(data)
    size = int.from_bytes(payload[:8], "little")
    header = payload[8 : 8 + size].rstrip()
    doubled = header[:-1] + b"," + header[1:]
    broken = len(doubled).to_bytes(8, "little") + doubled + payload[8 + size :]
    with pytest.raises(CorruptFileError, match="twice"):
        decode(sealed(manifest, broken))


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"1e999", b"123456789012345678901"])
def test_a_number_that_is_none_is_refused(data, text):
    manifest, payload = parts_of(data)
    broken = rfc8785.dumps(manifest).replace(b'"bound":1', b'"bound":' + text, 1)
    assert text in broken
    with pytest.raises(CorruptFileError, match=r"finite|too large"):
        decode(sealed(broken, payload))


def test_another_spelling_of_the_same_manifest_is_refused(data):
    manifest, payload = parts_of(data)
    with pytest.raises(CorruptFileError, match="canonical"):
        decode(sealed(json.dumps(manifest).encode(), payload))
    with pytest.raises(CorruptFileError):
        decode(sealed(b"[" * 100_000, payload))
    with pytest.raises(CorruptFileError):
        decode(sealed(b"\xff\xfe", payload))


def change(manifest: dict, path: str, value: object) -> None:
    *way, last = path.split("/")
    for key in way:
        manifest = manifest[int(key) if key.isdigit() else key]
    manifest[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("parts", []),
        ("parts", "all"),
        ("parts/0/guarantees", []),
        ("parts/0/guarantees/0/epsilon", 0.1),
        ("parts/0/guarantees/0/epsilon", -1),
        ("parts/0/guarantees/0/event/bound", 0),
        ("parts/0/guarantees/0/event/bound", -1),
        ("parts/0/guarantees/0/unit", "nobody"),
        ("parts/0/rows/count", 0),
        ("parts/0/rows/count", True),
        ("parts/0/rows/count", "60"),
        ("parts/0/rows/hash", "sha1:00"),
        ("parts/0/rows/hash", 5),
        ("parts/0/rows/found_at", 5),
        ("parts/0/rows/more", 5),
        ("parts/0/more", 5),
        ("pipeline", None),
        ("pipeline/bound", -1),
        ("pipeline/bound", "1"),
        ("pipeline/missing", "maybe"),
        ("pipeline/columns/0/name", 3),
        ("pipeline/columns/0/categories", [1.5]),
        ("pipeline/more", 1),
        ("noise", {}),
        ("noise/form", "dense"),
        ("noise/form", "factor"),
        ("noise/form", ["identity"]),
        ("noise/variance", -1),
        ("noise/variance", "1"),
        ("details", []),
        ("details/classes", [1]),
        ("details/classes", [1, 1]),
        ("details/step", 0),
        ("library", 7),
        ("payload", None),
    ],
)
def test_a_manifest_that_makes_no_sense_is_corrupt(data, path, value):
    manifest, payload = parts_of(data)
    change(manifest, path, value)
    with pytest.raises(CorruptFileError):
        decode(sealed(manifest, payload, hashed=path != "payload"))


@pytest.mark.parametrize(
    ("path", "value"),
    [("kind", "future"), ("kind", 3), ("kind_version", 2), ("kind_version", True), ("more", 1)],
)
def test_another_version_is_named_as_such(data, path, value):
    manifest, payload = parts_of(data)
    change(manifest, path, value)
    with pytest.raises(UnsupportedFileError):
        decode(sealed(manifest, payload))


def test_another_container_version_is_named_as_such(data):
    with pytest.raises(UnsupportedFileError, match="this version of the file format"):
        decode(b"suffice\x02" + data[8:])


def test_an_array_too_many_of_another_type_or_size_is_refused(data):
    manifest, payload = parts_of(data)
    good = safetensors.numpy.load(payload)
    for broken in (
        {**good, "more": np.zeros(3)},
        {**good, "mean_operator": good["mean_operator"].astype(np.float32)},
        {**good, "mean_operator": np.full_like(good["mean_operator"], np.nan)},
        {**good, "pipeline.scale": -good["pipeline.scale"]},
        {**good, "pipeline.mean": good["pipeline.mean"][:-1]},
        {name: array for name, array in good.items() if name != "pipeline.mean"},
    ):
        with pytest.raises(CorruptFileError):
            decode(sealed(manifest, safetensors.numpy.save(broken)))


def test_a_header_that_claims_more_than_there_is_allocates_nothing(data):
    manifest, payload = parts_of(data)
    size = int.from_bytes(payload[:8], "little")
    header = json.loads(payload[8 : 8 + size])
    header["mean_operator"]["shape"] = [2**40]
    header["mean_operator"]["data_offsets"] = [0, 2**43]
    text = json.dumps(header).encode()
    with pytest.raises(CorruptFileError):
        decode(sealed(manifest, len(text).to_bytes(8, "little") + text + payload[8 + size :]))
    with pytest.raises(CorruptFileError):
        decode(sealed(manifest, (2**60).to_bytes(8, "little") + payload[8:]))
    with pytest.raises(CorruptFileError):
        decode(sealed(manifest, b"short"))


def test_an_oversized_file_is_not_even_read(tmp_path, monkeypatch, data):
    path = tmp_path / "big.suffice"
    path.write_bytes(data)
    monkeypatch.setattr(codec, "MOST_BYTES", len(data) - 1)
    with pytest.raises(StorageError, match="larger"):
        load(path)


def test_a_missing_file_and_a_folder_are_storage_errors(tmp_path):
    for path in (tmp_path / "nothing.suffice", tmp_path):
        with pytest.raises(StorageError):
            load(path)


def test_saving_is_whole_or_not_at_all(tmp_path, release):
    path = tmp_path / "a.suffice"
    release.save(path)
    assert load(path) == release
    with pytest.raises(StorageError):
        release.save(tmp_path / "missing" / "a.suffice")
    (tmp_path / "taken").mkdir()
    with pytest.raises(StorageError):
        release.save(tmp_path / "taken")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.suffice", "taken"]


def test_a_full_disk_leaves_the_old_file_and_no_rest(tmp_path, release):
    """A file system of 64 KiB would need root; a file size limit refuses the same write."""
    import resource
    import signal

    path = tmp_path / "a.suffice"
    path.write_bytes(b"old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        with pytest.raises(StorageError):
            release.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.suffice"]


def test_a_manifest_is_not_longer_than_people_read(data, monkeypatch):
    length = struct.unpack_from("<Q", data, 8)[0]
    monkeypatch.setattr(file, "_MOST_MANIFEST_BYTES", length)
    decode(data)
    monkeypatch.setattr(file, "_MOST_MANIFEST_BYTES", length - 1)
    with pytest.raises(CorruptFileError, match="impossible length"):
        decode(data)


@pytest.mark.parametrize("length", [1, 95, 97, 192])
def test_a_signature_block_has_one_length(data, length):
    body = data[:24] + struct.pack("<Q", length) + data[HEAD:-32] + bytes(length)
    with pytest.raises(CorruptFileError, match="impossible length"):
        decode(body + hashlib.sha256(body).digest())


def test_a_file_ends_where_it_says(data):
    body = data[:-32] + b"more"
    with pytest.raises(CorruptFileError, match="longer than it states"):
        decode(body + hashlib.sha256(body).digest())


@pytest.mark.parametrize(
    ("name", "shape", "good"),
    [
        ("mean_operator", (0,), False),
        ("mean_operator", (0, 2**40), False),
        ("channel", (3, 0), False),
        ("codes", (0, 3), False),
        ("codes", (3, 0), True),
        ("values", (3, 0), True),
        ("pipeline.mean", (0,), True),
    ],
)
def test_an_array_is_empty_only_where_a_release_may_lack_it(name, shape, good):
    """A shape of a few bytes could name axes of any length where one of them is zero."""
    payload = file.payload_of({name: np.zeros(shape)})
    if good:
        assert file.arrays_of(payload)[name].shape == shape
        return
    with pytest.raises(CorruptFileError, match="must not be empty"):
        file.arrays_of(payload)


@pytest.mark.parametrize(
    ("shape", "ends"),
    [
        ([1, 1, 1], [0, 8]),
        ([], [0, 8]),
        ([True], [0, 8]),
        ([-1, -1], [0, 8]),
        ([1.0], [0, 8]),
        ([1], [0, 8, 8]),
        ([2], [0, 8]),
    ],
)
def test_a_shape_is_one_or_two_lengths_of_the_bytes_that_are_there(shape, ends):
    header = json.dumps({"x": {"dtype": "F64", "shape": shape, "data_offsets": ends}}).encode()
    with pytest.raises(CorruptFileError, match="shape does not fit its bytes"):
        file.arrays_of(len(header).to_bytes(8, "little") + header + bytes(8))


def test_a_payload_holds_arrays_of_known_types_alone():
    for header in (
        {"__metadata__": {"by": "somebody"}},
        {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
        {"x": {"dtype": "F64", "shape": [1], "data_offsets": [0, 8], "more": 1}},
    ):
        text = json.dumps(header).encode()
        with pytest.raises(CorruptFileError, match="type that no kind has"):
            file.arrays_of(len(text).to_bytes(8, "little") + text + bytes(8))


@pytest.mark.parametrize(("parts", "guarantees"), [(1, 2049), (2, 1025), (2049, 1)])
def test_guarantees_of_all_owners_together_are_few(data, parts, guarantees):
    manifest, payload = parts_of(data)
    (own,) = manifest["parts"]
    own["guarantees"] *= guarantees
    manifest["parts"] = [own] * parts
    with pytest.raises(CorruptFileError, match="at most 2,048"):
        decode(sealed(manifest, payload))
