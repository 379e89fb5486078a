"""Randomised response over 10M records against drawing the bits it uses (claim: <= 4 times)."""

import numpy as np
from harness import claim, ratio_of

RECORDS = 10_000_000


def draw_bits() -> None:
    from suffice.privacy.randomness import private_blocks

    for _ in private_blocks(RECORDS):
        pass


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
    return results
