"""The source of our own private randomness: the operating system, stretched by AES-256-CTR.

Every call takes a fresh key from the operating system, so there is no state that a fork, a snapshot
or a second thread could repeat, and nothing that could be stored or published as a seed.
Discrete Laplace and Gaussian noise is drawn inside opendp, which reads the operating system itself.
"""

import os
from collections.abc import Iterator

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
