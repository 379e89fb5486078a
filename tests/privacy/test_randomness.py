"""Private randomness: the operating system's bytes, all of them, and fresh ones at every call."""

import functools
import json
import math
import operator
import os
import subprocess
import sys
from hashlib import shake_256

import numpy as np
import pytest

from suffice.privacy import randomness


def known_bytes(call: int, size: int) -> bytes:
    return shake_256(f"call {call}".encode()).digest(size)


@pytest.fixture
def asked(monkeypatch) -> list[int]:
    """Put known bytes in the operating system's place; return how many each call asked for."""
    sizes: list[int] = []

    def urandom(size: int) -> bytes:
        sizes.append(size)
        return known_bytes(len(sizes), size)

    monkeypatch.setattr(os, "urandom", urandom)
    return sizes


def slow_words(key: bytes, nonce: bytes, count: int) -> list[int]:
    """Return the stream word by word: AES-256 of nonce, nonce + 1, ..., two words in each."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    cipher = Cipher(algorithms.AES256(key), modes.ECB()).encryptor()  # one by one
    first, words = int.from_bytes(nonce, "big"), []
    for i in range(-(-count // 2)):
        block = cipher.update(((first + i) % 2**128).to_bytes(16, "big"))
        words += [int.from_bytes(half, sys.byteorder) for half in (block[:8], block[8:])]
    return words[:count]


@pytest.mark.chance(0)
@pytest.mark.parametrize("count", [1, 4, 8192, 20_001])
def test_key_and_nonce_are_the_bytes_of_the_operating_system(asked, count):
    words = randomness.private_words(count)
    assert asked == [48]  # once: 32 for the key of AES-256, 16 for the first block
    bytes_given = known_bytes(1, 48)
    assert words.tolist() == slow_words(bytes_given[:32], bytes_given[32:], count)


@pytest.mark.chance(0)
def test_every_call_asks_anew_and_uses_all_of_what_it_is_given(asked):
    bits = randomness.private_bits(100)
    blocks = [block.tolist() for block in randomness.private_blocks(3)]
    assert asked == [48, 48]
    first, second = known_bytes(1, 48), known_bytes(2, 48)
    low, high = slow_words(first[:32], first[32:], 2)
    assert bits == (low | high << 64) % 2**100
    assert blocks == [slow_words(second[:32], second[32:], 3)]


@pytest.mark.chance(2.0**-256)  # four words twice
def test_the_stream_is_never_the_same_twice():
    assert not np.array_equal(randomness.private_words(4), randomness.private_words(4))
    assert randomness.private_words(0).size == 0
    assert 0 <= randomness.private_bits(3) < 8


# A bit is the same in 80 draws with probability 2 x 2^-80, and there are at most 129 bits.
@pytest.mark.chance(129 * 2.0**-79)
@pytest.mark.parametrize("bits", [1, 2, 63, 64, 65, 128, 129])
def test_every_bit_of_a_private_integer_is_drawn(bits):
    """None is always zero or always one in 80 draws."""
    samples = [randomness.private_bits(bits) for _ in range(80)]
    largest = 2**bits - 1
    assert functools.reduce(operator.or_, samples) == largest
    assert functools.reduce(operator.and_, samples) == 0
    assert max(samples) <= largest


@pytest.mark.chance(1.3e-7)  # 6 standard deviations: 2e-9, at 64 positions
def test_private_words_are_uniform_bits():
    words = randomness.private_words(200_000)
    bits = np.unpackbits(words.view(np.uint8)).reshape(len(words), 64)
    deviation = np.abs(bits.mean(axis=0) - 0.5).max() * 2 * math.sqrt(len(words))
    assert deviation < 6


FORK = """
import json, os, sys
import numpy as np

if sys.argv[1] == "cached":
    stream = np.random.default_rng()  # what a process would keep and a fork would copy
    sources = {"cached": lambda: stream.integers(0, 2**63, 1)}
else:
    from suffice.privacy import randomness
    from suffice.privacy.noise import GaussianNoise, KNormNoise, LaplaceNoise, Sensitivity

    reach = Sensitivity(2**50, 2.0**50, 1)
    sources = {
        "words": lambda: randomness.private_words(1),
        "bits": lambda: [randomness.private_bits(64)],
        "laplace": lambda: LaplaceNoise.calibrated(reach, 1.0).add([0]),
        "gaussian": lambda: GaussianNoise.calibrated(reach, 1.0, 1e-6).add([0]),
        "knorm": lambda: KNormNoise.calibrated(reach, 1.0).add([0]),
    }


def draw():
    return {name: int(source()[0]) for name, source in sources.items()}


before = draw()  # whatever is kept from call to call exists now
ends = os.pipe()
if os.fork() == 0:
    os.write(ends[1], json.dumps(draw()).encode())
    os._exit(0)
here = draw()
os.wait()
there = json.loads(os.read(ends[0], 10_000))
print(json.dumps([before, here, there]))
"""


def draws_around_a_fork(kind: str) -> list[dict[str, int]]:
    """Return what a fresh process draws before it forks, what it draws after, and its child."""
    done = subprocess.run(
        [sys.executable, "-c", FORK, kind], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


# Three draws of five sources, each spread over 2^50 numbers or more.
@pytest.mark.chance(15 * 2.0**-50)
def test_a_forked_child_draws_other_numbers_than_its_parent():
    """Of every source of noise."""
    before, parent, child = draws_around_a_fork("fresh")
    assert len(before) == 5
    for name in before:
        assert len({before[name], parent[name], child[name]}) == 3, name


def test_a_stream_kept_by_the_process_would_be_noticed():
    before, parent, child = draws_around_a_fork("cached")
    assert parent == child != before
