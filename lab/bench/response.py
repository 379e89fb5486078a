"""Randomised response over 10M cells against drawing the bits it uses (claim: <= 4 times)."""

from typing import Any

import numpy as np
from harness import claim, ratio_of

RECORDS = 10_000_000
WIDTH = 784


def draw_bits() -> None:
    from suffice.privacy.randomness import private_blocks

    for _ in private_blocks(RECORDS):
        pass


def digits() -> Any:
    """Return a table of 784 columns of 256 states, read and checked."""
    from suffice.engines.engine import Threads
    from suffice.owner.responses import RandomizedResponse
    from suffice.owner.source import Source

    rng = np.random.default_rng(0)
    X = rng.integers(0, 256, (RECORDS // WIDTH, WIDTH), dtype=np.uint8)
    mechanism = RandomizedResponse(label_flip=0.2, states=range(256), feature_flip=0.2)
    public = mechanism.public(Source(X, X[:, 0] % 2))
    cells = mechanism.choose(public).accumulator(identified=False)
    return Threads(1).fold(public.parts(), lambda: cells)


def main() -> list[dict]:
    from suffice.privacy.response import Response

    asymmetric = np.array([[0.8, 0.1, 0.1], [0.1, 0.7, 0.3], [0.1, 0.2, 0.6]])
    responses = {
        "2 states": Response.from_epsilon(2, 1.0),
        "256 states": Response.from_epsilon(256, 1.0),
        "3 states, any matrix": Response.from_matrix(asymmetric),
    }
    results = []
    for name, response in responses.items():
        states = np.random.default_rng(0).integers(0, response.states, RECORDS).astype(np.uint8)
        response.randomise(states[:10])
        ratio = ratio_of(lambda r=response, s=states: r.randomise(s), draw_bits)
        results.append(claim(f"randomised response, {name} / bits", ratio, 4.0))
    cells = digits()
    codes = cells.result()[1]
    ratio = ratio_of(lambda: cells._randomised_codes(codes), draw_bits)  # noqa: SLF001  # as a release
    results.append(claim("randomised table, 784 columns of 256 states / bits", ratio, 4.0))
    return results


if __name__ == "__main__":
    main()
