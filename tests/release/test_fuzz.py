"""Mutated release files: each loads equal or raises the library's own error, in bounded memory.

Half of the mutants are sealed again with right checksums, so that they reach the parsers behind.
"""

import hashlib
import random
import struct
import tracemalloc

import pytest

from builders import make_release
from suffice.errors import SufficeError
from suffice.releases.codec import decode
from suffice.releases.release import encode

MOST_MEMORY = 8 * 2**20
TOKENS = [b"null", b"true", b"[]", b"{}", b'""', b"-1", b"1e308", b"0", b"9" * 17, b'"x":', b"NaN"]


def mutant(data: bytes, rng: random.Random) -> bytes:
    """Return ``data`` with a few bytes flipped, cut, doubled, moved or replaced by JSON tokens."""
    broken = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(broken) + 1)
        length = rng.choice([1, 1, 2, 8, 32])
        kind = rng.randrange(6)
        if kind == 0 and at < len(broken):
            broken[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del broken[at : at + length]
        elif kind == 2:
            broken[at:at] = broken[at : at + length]
        elif kind == 3:
            broken[at : at + length] = rng.randbytes(length)
        elif kind == 4:
            broken[at : at + length] = rng.choice(TOKENS)
        else:
            source = rng.randrange(len(broken) + 1)
            broken[at : at + length] = broken[source : source + length]
    return bytes(broken)


def resealed(data: bytes, rng: random.Random) -> bytes:
    """Mutate the manifest or the payload and make every checksum right again."""
    sizes = struct.unpack_from("<QQQ", data, 8)
    manifest, payload = data[32 : 32 + sizes[0]], data[32 + sizes[0] : 32 + sizes[0] + sizes[1]]
    if rng.random() < 0.6:
        manifest = mutant(manifest, rng)
    else:
        old = hashlib.sha256(payload).hexdigest().encode()
        payload = mutant(payload, rng)
        manifest = manifest.replace(old, hashlib.sha256(payload).hexdigest().encode())
    body = b"suffice\x01" + struct.pack("<QQQ", len(manifest), len(payload), 0) + manifest + payload
    return body + hashlib.sha256(body).digest()


def fuzz(count: int) -> tuple[int, int]:
    """Return how many mutants loaded and how many were refused; anything else fails."""
    rng = random.Random(1)
    releases = [make_release(), make_release(classes=3)]
    originals = [(encode(release), release) for release in releases]
    loaded = refused = 0
    tracemalloc.start()
    for _ in range(count):
        data, release = rng.choice(originals)
        changed = mutant(data, rng) if rng.random() < 0.5 else resealed(data, rng)
        try:
            found = decode(changed)
        except SufficeError:
            refused += 1
        else:
            loaded += 1
            assert encode(found) == changed
            assert changed == data or found != release
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MOST_MEMORY
    return loaded, refused


def test_mutated_files_load_equal_or_raise_our_own_error():
    loaded, refused = fuzz(1500)
    assert refused > 1000
    assert loaded + refused == 1500


@pytest.mark.audit
def test_twenty_thousand_mutated_files():
    loaded, refused = fuzz(20_000)
    print(f"20,000 mutants: {refused} refused, {loaded} loaded as other valid files")  # noqa: T201
    assert refused > 15_000
