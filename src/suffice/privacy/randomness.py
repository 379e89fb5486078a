"""Private randomness: the operating system's, and exact samples of K-norm noise from it.

The source is the operating system, stretched by AES-256-CTR.
Every call takes a fresh key from the operating system, so there is no state that a fork, a snapshot
or a second thread could repeat, and nothing that could be stored or published as a seed.
Discrete Laplace and Gaussian noise is drawn inside opendp, which reads the operating system itself.

K-norm noise: exact samples of P[k] ~ e^(-||k||_2 / scale) on the integer lattice. Why our own:
opendp has no 2-norm mechanism, and a float sampler with rounding is not pure.

A point eta with density e^(-||eta|| / scale) is a uniform direction times a Gamma(dimension)
radius. It is rounded to the nearest lattice point k and accepted with probability

    exp(-(||k|| - ||eta|| + sqrt(dimension)/2) / scale),

which leaves exactly e^(-||k|| / scale) for every k (proofs/knorm.md). The uniform variables behind
eta are known to a number of bits; interval arithmetic says whether that settles every rounding and
the acceptance. If it does not, more bits are drawn for the same variables: no decision is ever
taken on a rounded number.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KEY_BYTES = 32
_COUNTER_BYTES = 16
_BLOCK_WORDS = 1 << 13


def _fresh_key(size: int) -> bytes:
    return os.urandom(size)


def private_blocks(count: int) -> Iterator[NDArray[np.uint64]]:
    """Yield ``count`` independent uniform 64-bit words in blocks that fit the processor's cache.

    The array of a block is overwritten by the next one: use it, do not keep it.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = _fresh_key(_KEY_BYTES + _COUNTER_BYTES)
    stream = Cipher(algorithms.AES256(key[:_KEY_BYTES]), modes.CTR(key[_KEY_BYTES:])).encryptor()
    zeros = bytes(8 * min(count, _BLOCK_WORDS))
    words = np.empty(min(count, _BLOCK_WORDS), dtype=np.uint64)
    for start in range(0, count, _BLOCK_WORDS):
        size = min(_BLOCK_WORDS, count - start)
        stream.update_into(memoryview(zeros)[: 8 * size], words[:size].view(np.uint8).data)
        yield words[:size]


def private_words(count: int) -> NDArray[np.uint64]:
    """Return ``count`` independent uniform 64-bit words that nobody can predict or repeat."""
    blocks = [block.copy() for block in private_blocks(count)]
    return np.concatenate(blocks) if blocks else np.empty(0, dtype=np.uint64)


def private_bits(bits: int) -> int:
    """Return one uniform integer in [0, 2^bits)."""
    words = private_words((bits + 63) // 64)
    return int.from_bytes(words.tobytes(), "little") & ((1 << bits) - 1)


_FIRST_BITS = 192
_own = threading.local()


@dataclass
class _Uniforms:
    """Uniform reals in (0, 1), of which so far only the leading ``bits`` bits were looked at."""

    count: int
    bits: int = 0
    prefixes: list[int] = field(default_factory=list)

    def reveal(self, bits: int) -> None:
        """Draw the bits that are missing; those seen before stay."""
        more = bits - self.bits
        block = private_bits(more * self.count)
        mask = (1 << more) - 1
        fresh = [(block >> (more * i)) & mask for i in range(self.count)]
        old = self.prefixes or [0] * self.count
        self.prefixes = [(a << more) | b for a, b in zip(old, fresh, strict=True)]
        self.bits = bits

    def enclosures(self, iv: Any) -> list[Any]:
        """Return an interval around each variable."""
        unit = iv.mpf(2) ** -self.bits
        return [iv.mpf([p, p + 1]) * unit for p in self.prefixes]


def knorm_sample(dimension: int, scale: float) -> NDArray[np.int64]:
    """Return one lattice point drawn with probability proportional to e^(-||k||_2 / scale)."""
    while True:
        point = _attempt(dimension, scale)
        if point is not None:
            return np.array(point, dtype=np.int64)


def _attempt(dimension: int, scale: float) -> list[int] | None:
    """Return an accepted point, or None for a rejected one."""
    iv = _context()
    # radius: dimension variables; direction: a Gaussian vector by Box and Muller; acceptance: one.
    pairs = (dimension + 1) // 2
    uniforms = _Uniforms(dimension + 2 * pairs + 1)
    bits = _FIRST_BITS
    while True:
        uniforms.reveal(bits)
        iv.prec = bits + 64
        decided, point = _decide(uniforms.enclosures(iv), dimension, scale, iv)
        if decided:
            return point
        bits *= 2


def _context() -> Any:
    """Return this thread's own intervals: the global one's precision could change under us.

    To make one takes three times as long as to draw a sample with it.
    """
    from mpmath.ctx_iv import MPIntervalContext

    if not hasattr(_own, "intervals"):
        _own.intervals = MPIntervalContext()
    return _own.intervals


def _decide(
    uniforms: list[Any], dimension: int, scale: float, iv: Any
) -> tuple[bool, list[int] | None]:
    """Return (whether the bits suffice, the point if accepted)."""
    pairs = (dimension + 1) // 2
    if any(u.a <= 0 for u in uniforms):  # a logarithm cannot be enclosed yet
        return False, None
    product = iv.mpf(1)
    for u in uniforms[:dimension]:
        product *= u
    radius = -iv.log(product) * iv.mpf(scale)
    normals: list[Any] = []
    for u, v in zip(
        uniforms[dimension : dimension + pairs],
        uniforms[dimension + pairs : dimension + 2 * pairs],
        strict=True,
    ):
        length = iv.sqrt(-2 * iv.log(u))
        angle = 2 * iv.pi * v
        normals += [length * iv.cos(angle), length * iv.sin(angle)]
    normals = normals[:dimension]
    norm = iv.sqrt(sum((g**2 for g in normals), iv.mpf(0)))
    if norm.a <= 0:
        return False, None
    point = [_nearest(radius * g / norm) for g in normals]
    if any(k is None for k in point):
        return False, None
    known_values = [k for k in point if k is not None]
    length = iv.sqrt(iv.mpf(sum(k * k for k in known_values)))
    accept = iv.exp(-(length - radius + iv.sqrt(iv.mpf(dimension)) / 2) / iv.mpf(scale))
    if uniforms[-1].b < accept.a:
        return True, known_values
    return uniforms[-1].a > accept.b, None


def _nearest(x: Any) -> int | None:
    """Return the integer that every point of ``x`` rounds to, or None if there are two."""
    low, high = (_floor_of_half_more(end) for end in x._mpi_)
    return low if low == high else None


def _floor_of_half_more(end: Any) -> int:
    """Return floor(end + 1/2) of a raw mpmath number, in integers: nothing is rounded."""
    from mpmath.libmp import to_man_exp

    mantissa, exponent = to_man_exp(end, signed=True)
    if exponent >= 0:
        return int(mantissa << exponent)
    return int((2 * mantissa + (1 << -exponent)) >> (1 - exponent))
