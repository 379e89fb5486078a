"""One seed for all private noise in tests; ``conftest`` installs it, the package has no switch.

Three sources are replaced, in this process and not in those that a test starts:

- the draws of opendp (`suffice.privacy.noise._opendp`), by samplers of the same law and scale, both
  read off the measurement that the package built;
- the operating system's bytes under our own stream (`suffice.privacy.randomness._fresh_key`), so
  that the K-norm sampler, randomised response, urns and signs run as they are;
- the participant's ``secrets``, under samplers that run as they are.

A draw depends on the seed, the sampler, its scale, the length of the array and how often the same
was drawn before. What else was drawn in between changes nothing. The samplers are told no names:
two arrays of one law, scale and length would swap their noise if their draws swapped places.
"""

import math
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import shake_256
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suffice import participant
from suffice.privacy import noise, randomness

MOST_CHANCE = 1e-4  # a run of the whole suite fails by chance less often
RATES = pytest.StashKey[dict[str, float]]()  # of all tests that were collected, by their names


class Stream:
    """Bytes that follow from a seed, the name of a draw, and how often that name was drawn."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._drawn: Counter[str] = Counter()
        self._lock = threading.Lock()

    def name(self, draw: str) -> str:
        """Return a name that no other draw has."""
        with self._lock:
            self._drawn[draw] += 1
            return f"{self.seed}/{draw}/{self._drawn[draw]}"

    def bytes(self, draw: str, size: int) -> bytes:
        return shake_256(self.name(draw).encode()).digest(size)

    def uniforms(self, draw: str, count: int) -> np.ndarray:
        """Return numbers in (0, 1) of 53 bits."""
        words = np.frombuffer(self.bytes(draw, 8 * count), dtype="<u8")
        return ((words >> np.uint64(11)) + 0.5) * 2.0**-53


_stream: Stream | None = None  # None: noise is real
_inner = threading.local()  # the stream of a sampler that draws more than once


def _current() -> Stream | None:
    return getattr(_inner, "stream", None) or _stream


@contextmanager
def seeded(seed: object) -> Iterator[None]:
    """Make all noise of this process repeat itself: the same seed, the same noise."""
    with _drawing_from(Stream(str(seed))):
        yield


@contextmanager
def _drawing_from(stream: Stream | None) -> Iterator[None]:
    global _stream  # noqa: PLW0603  # servers draw in threads of their own
    before, _stream = _stream, stream
    try:
        yield
    finally:
        _stream = before


@contextmanager
def noise_of(item: pytest.Item) -> Iterator[None]:
    """Draw real noise in a test that is marked ``chance``, and repeated noise in all others."""
    real = item.get_closest_marker("chance") is not None
    with _drawing_from(None if real else Stream(item.nodeid)):
        yield


def chance_of(item: pytest.Item) -> float:
    """Return the probability with which a correct package fails a test."""
    marker = item.get_closest_marker("chance")
    if marker is None:
        return 0.0
    (rate,) = marker.args
    if not 0 <= rate < MOST_CHANCE:
        raise pytest.UsageError(f"{item.nodeid}: chance({rate}) is not between 0 and {MOST_CHANCE}")
    return float(rate)


def laplace_noise(stream: Stream, scale: float, count: int) -> np.ndarray:
    """Return integers n with probability proportional to e^(-|n| / scale).

    They are differences of two geometric numbers, floor(-scale log u).
    """
    uniforms = stream.uniforms(f"laplace {scale:.6g} {count}", 2 * count)
    up, down = np.floor(scale * _coarse(-np.log(uniforms))).astype(np.int64).reshape(2, count)
    return up - down


def gaussian_noise(stream: Stream, scale: float, count: int) -> np.ndarray:
    """Return normal numbers (Box and Muller), rounded; on a fine grid that is the discrete law."""
    first, second = stream.uniforms(f"gaussian {scale:.6g} {count}", 2 * count).reshape(2, count)
    normal = np.sqrt(-2 * np.log(first)) * np.cos(2 * math.pi * second)
    return np.rint(scale * _coarse(normal)).astype(np.int64)


def _coarse(values: np.ndarray) -> np.ndarray:
    """Round to 30 bits after the point: processors differ in the last bits of a logarithm."""
    return np.rint(values * 2.0**30) * 2.0**-30


_real_opendp, _real_sample = noise._opendp, randomness.knorm_sample
_real_key, _real_secrets = randomness._fresh_key, participant.secrets


def _opendp(values: np.ndarray, measurement: Any) -> np.ndarray:
    stream = _current()
    if stream is None:
        return _real_opendp(values, measurement)
    if str(measurement.output_measure) == "MaxDivergence":
        return values + laplace_noise(stream, 1 / measurement.map(1), values.size)
    scale = 1 / math.sqrt(2 * measurement.map(1.0))  # rho = 1 / (2 scale^2)
    return values + gaussian_noise(stream, scale, values.size)


def _sample(dimension: int, scale: float) -> np.ndarray:
    """Draw by the real sampler, from bits that no other draw uses up."""
    stream = _current()
    if stream is None:
        return _real_sample(dimension, scale)
    _inner.stream = Stream(stream.name(f"knorm {scale:.6g} {dimension}"))
    try:
        return _real_sample(dimension, scale)
    finally:
        _inner.stream = None


def _fresh_key(size: int) -> bytes:
    stream = _current()
    if stream is None:
        return _real_key(size)
    words = sys._getframe(1).f_locals["count"]  # of `private_blocks`, the only caller
    return stream.bytes(f"stream of {words} words", size)


def _token_bytes(size: int) -> bytes:
    stream = _current()
    if stream is None:
        return _real_secrets.token_bytes(size)
    return stream.bytes(f"{size} bytes", size)


def _draw_really() -> None:
    global _stream  # noqa: PLW0603
    _stream = _inner.stream = None


def install() -> None:
    """Put the replacements in place; a process that forks off has real noise again."""
    noise._opendp, randomness.knorm_sample, randomness._fresh_key = _opendp, _sample, _fresh_key
    participant.secrets = SimpleNamespace(token_bytes=_token_bytes)
    os.register_at_fork(after_in_child=_draw_really)
