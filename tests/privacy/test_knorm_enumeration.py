"""2-norm noise derived a second time, by enumeration on tiny lattices, and bounded from both sides.

`proofs/knorm.md` derives the law of the sampler with integrals and its cost with a triangle
inequality. Here both are counted. Every outcome of the sampler is a set of uniform reals, and the
bits that it looks at cut the cube of those reals into boxes: what `_decide` says of a box counts
towards one lattice point, and a box that it does not decide counts as slack. Nothing is drawn, so
nothing fails by chance.
"""

import inspect
import itertools
import math
from collections import defaultdict
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest

from suffice.privacy import randomness
from suffice.privacy.noise import KNormNoise, Sensitivity

DEEP = 160  # bits of a real that is not cut any further
CUTS = {0.03: 8, 0.55: 5}  # of a box on its shorter side, by the direction: of +1 and of -1
EPSILON = 1.25
SHIFT = " + iv.sqrt(iv.mpf(dimension)) / 2"


def without_shift():
    """Return a broken copy of `_decide`: its acceptance probabilities may exceed one."""
    source = inspect.getsource(randomness._decide)
    assert SHIFT in source
    names = dict(vars(randomness))
    exec(source.replace(SHIFT, ""), names)  # our own source
    return names["_decide"]


def intervals():
    iv = randomness._context()
    iv.prec = DEEP + 64
    return iv


def enclosed(iv, prefix: int, bits: int):
    return iv.mpf([prefix, prefix + 1]) * iv.mpf(2) ** -bits


def deep(value: float) -> tuple[int, int]:
    """Return a real by so many of its leading bits that nothing hangs on the others."""
    return int(mpmath.floor(mpmath.mpf(value) * 2**DEEP)), DEEP


def reached(radius: tuple[int, int], scale: float) -> range:
    """Return the distances that a radius of -scale ln(U) can be rounded to, U in a box."""
    prefix, bits = radius
    nearest = math.floor(-scale * math.log((prefix + 1) / 2**bits) + 0.5)
    if prefix == 0:
        return range(nearest, 2**62)  # without end
    return range(nearest, math.floor(-scale * math.log(prefix / 2**bits) + 0.5) + 1)


def counted(decide, scale: float, direction: float) -> dict[int, list[float]]:
    """Return the least and the largest volume of (radius, acceptance) that each point can have.

    One dimension; the Gaussian variable of the direction is given. Boxes are halved until they are
    decided or small: in the radius while that leaves the point open, else on their longer side.
    """
    iv, cuts = intervals(), CUTS[direction]
    gaussian = [enclosed(iv, *deep(u)) for u in (0.4, direction)]
    mass: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    tail = 0.0
    waiting = [((0, 0), (0, 0))]
    while waiting:
        radius, accept = waiting.pop()
        volume = 2.0 ** -(radius[1] + accept[1])
        reals = [enclosed(iv, *radius), *gaussian, enclosed(iv, *accept)]
        decided, point = decide(reals, 1, scale, iv)
        if decided:
            if point is not None:
                mass[point[0]][0] += volume
                mass[point[0]][1] += volume
            continue
        distances = reached(radius, scale)
        if len(distances) > 1 and radius[1] < 2 * cuts:
            waiting += [((2 * radius[0] + bit, radius[1] + 1), accept) for bit in (0, 1)]
        elif min(radius[1], accept[1]) < cuts:
            halve = radius[1] <= accept[1]
            waiting += [
                ((2 * radius[0] + bit, radius[1] + 1), accept)
                if halve
                else (radius, (2 * accept[0] + bit, accept[1] + 1))
                for bit in (0, 1)
            ]
        elif len(distances) > 8:
            tail += volume
        else:
            sign = 1 if math.cos(2 * math.pi * direction) > 0 else -1
            for distance in distances:
                mass[sign * distance][1] += volume
    return {k: [low, high + tail] for k, (low, high) in mass.items()}


def exact_in_one(k: int, scale: float) -> float:
    """Return the volume of all reals of one direction for which k is accepted, by the proof.

    The density is e^(-|eta| / s) / s on half a line, the acceptance e^(-(|k| - |eta| + 1/2) / s),
    and the cell of 0 is cut in halves.
    """
    return math.exp(-(abs(k) + 0.5) / scale) / scale * (0.5 if k == 0 else 1.0)


@pytest.fixture(scope="module")
def volumes() -> dict[float, dict[int, list[float]]]:
    noise = KNormNoise.calibrated(Sensitivity(1, 1.0, 1), EPSILON)
    return {direction: counted(randomness._decide, noise.scale, direction) for direction in CUTS}


@pytest.mark.parametrize(("direction", "slack"), [(0.03, 0.02), (0.55, 0.15)])
def test_counted_bits_bracket_the_law_of_one_dimension(volumes, direction, slack):
    volume, sign = volumes[direction], 1 if direction < 0.25 else -1
    for k in range(4):
        low, high = volume[sign * k]
        assert low <= exact_in_one(k, 1 / EPSILON) <= high
        assert high - low < slack * exact_in_one(0, 1 / EPSILON)
    assert all(sign * k >= 0 for k in volume)
    thin = [exact_in_one(k, 0.9 / EPSILON) for k in range(4)]  # a tenth too little noise
    assert any(not volume[sign * k][0] <= thin[k] <= volume[sign * k][1] for k in range(4))


def test_counted_bits_notice_acceptance_without_its_shift():
    broken = counted(without_shift(), 1 / EPSILON, 0.55)
    total_low, total_high = (sum(pair[i] for pair in broken.values()) for i in (0, 1))
    shares = [(low / total_high, high / total_low) for low, high in (broken[-k] for k in range(3))]
    law = [exact_in_one(k, 1 / EPSILON) for k in range(60)]
    assert any(not low <= law[k] / sum(law) <= high for k, (low, high) in enumerate(shares))


def test_the_loss_of_counted_bits_is_epsilon_and_no_more(volumes):
    """One step more or less costs at most epsilon, and as much: from the volumes alone."""
    law = {k: volumes[0.03][k] for k in range(4)}
    law[0] = [2 * bound for bound in law[0]]  # half of its cell lies on the other side
    least = [math.log(law[k][0] / law[k + 1][1]) for k in range(3)]
    most = [math.log(law[k][1] / law[k + 1][0]) for k in range(3)]
    assert all(
        low <= EPSILON <= high < EPSILON + 0.3 for low, high in zip(least, most, strict=True)
    )
    assert max(least) > 0.97 * EPSILON


def test_each_sign_has_half_of_the_bits_of_an_angle():
    iv = intervals()
    radius, length, accept = (enclosed(iv, *deep(x)) for x in (0.01, 0.4, 1e-9))
    signs = defaultdict(list)
    for prefix in range(64):
        reals = [radius, length, enclosed(iv, (2 * prefix + 1) << 40, 47), accept]
        decided, point = randomness._decide(reals, 1, 1.0, iv)
        assert decided
        signs[int(np.sign(point[0]))].append(prefix)
    assert signs == {1: [*range(16), *range(48, 64)], -1: [*range(16, 48)]}


# In two dimensions the real numbers are enumerated in polar cells; what the sampler decides is
# then compared with the same formulas at single points.


def polar_law(scale: float, shift: float, cells: int) -> dict[tuple[int, int], list[float]]:
    """Return the least and the largest probability of each accepted point, from polar cells."""
    ends = np.linspace(0, 12 * scale, cells + 1)
    gamma = 1 - (1 + ends / scale) * np.exp(-ends / scale)  # Gamma(2): the radius
    angles = np.linspace(0, 2 * np.pi, cells + 1)  # a multiple of four: sine and cosine monotone
    share = np.diff(gamma)[:, None] / cells
    near, far = ends[:-1, None], ends[1:, None]
    codes = []
    for wave in (np.cos(angles), np.sin(angles)):
        low, high = np.minimum(wave[:-1], wave[1:]), np.maximum(wave[:-1], wave[1:])
        least = np.where(low < 0, far * low, near * low)
        most = np.where(high > 0, far * high, near * high)
        slack = 1e-9
        codes.append((np.floor(least - slack + 0.5), np.floor(most + slack + 0.5)))
    law: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    decided = np.logical_and(*(one == other for one, other in codes))
    for i, j in itertools.product((0, 1), repeat=2):
        x, y = codes[0][i], codes[1][j]
        length = np.hypot(x, y)
        accept = [np.minimum(1, np.exp(-(length - r + shift) / scale)) for r in (near, far)]
        for a, b in itertools.product(range(-3, 4), repeat=2):
            at_point = (x == a) & (y == b)
            if (i, j) == (0, 0):
                law[a, b][0] += float((share * accept[0])[at_point & decided].sum())
                law[a, b][1] += float((share * accept[1])[at_point & decided].sum())
            law[a, b][1] += float((share * accept[1])[at_point & ~decided].sum())
    return law


def fits_two_dimensions(law: dict[tuple[int, int], list[float]], scale: float) -> bool:
    """Say whether all of the law's shares, relative to that of the origin, can be e^(-|k| / s)."""
    low, high = law[0, 0]
    return all(
        law[k][0] / high <= math.exp(-math.hypot(*k) / scale) <= law[k][1] / low for k in law
    )


def test_polar_cells_bracket_the_law_of_two_dimensions():
    scale = 1.0
    law = polar_law(scale, math.sqrt(2) / 2, 800)
    assert len(law) == 49
    assert fits_two_dimensions(law, scale)
    factor = math.exp(-math.sqrt(2) / (2 * scale)) / (2 * math.pi * scale**2)
    for k, (low, high) in law.items():
        assert low <= math.exp(-math.hypot(*k) / scale) * factor <= high < 1.4 * low
    assert not fits_two_dimensions(polar_law(scale, 0.0, 800), scale)
    assert not fits_two_dimensions(polar_law(scale, math.sqrt(2) / 2, 800), 0.9 * scale)


def outcome(reals: list, dimension: int, scale: float) -> tuple[bool, list[int]]:
    """Return (whether it is accepted, the nearest point), by the formulas, at single reals."""
    mp = mpmath.mp
    pairs = (dimension + 1) // 2
    radius = -scale * sum(mp.log(u) for u in reals[:dimension])
    normals = []
    for u, v in zip(reals[dimension:][:pairs], reals[dimension + pairs :][:pairs], strict=True):
        size, turn = mp.sqrt(-2 * mp.log(u)), 2 * mp.pi * v
        normals += [size * mp.cos(turn), size * mp.sin(turn)]
    normals = normals[:dimension]
    norm = mp.sqrt(sum(g**2 for g in normals))
    point = [int(mp.floor(radius * g / norm + 0.5)) for g in normals]
    length = mp.sqrt(sum(k**2 for k in point))
    return reals[-1] < mp.exp(-(length - radius + mp.sqrt(dimension) / 2) / scale), point


def prefixes(dimension: int, count: int) -> list[list[int]]:
    rng = np.random.default_rng(dimension)
    number = dimension + 2 * ((dimension + 1) // 2) + 1
    words = rng.integers(0, 2**32, (count, number, DEEP // 32))
    return [[int("".join(f"{w:08x}" for w in x), 16) for x in row] for row in words.tolist()]


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_what_is_decided_is_what_the_formulas_say(dimension):
    iv, broken, differ = intervals(), without_shift(), 0
    with mpmath.workprec(DEEP + 64):
        for numbers in prefixes(dimension, 60):
            accepted, point = outcome([mpmath.mpf(n) / 2**DEEP for n in numbers], dimension, 1.5)
            boxes = [enclosed(iv, n, DEEP) for n in numbers]
            settled = (True, point if accepted else None)
            assert randomness._decide(boxes, dimension, 1.5, iv) == settled
            differ += broken(boxes, dimension, 1.5, iv) != (True, point if accepted else None)
    assert differ > 5


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_few_bits_at_first_change_no_outcome(dimension, monkeypatch):
    """The bits that decide are those of the same reals, however many were looked at before."""
    supply = SimpleNamespace(numbers=[], given=0)

    def bits_of_known(count: int) -> int:
        more = count // len(supply.numbers)
        supply.given += more
        parts = [(n >> (DEEP - supply.given)) & ((1 << more) - 1) for n in supply.numbers]
        return sum(part << (more * i) for i, part in enumerate(parts))

    monkeypatch.setattr(randomness, "private_bits", bits_of_known)
    outcomes, steps = {}, []
    for first in (5, 40):
        monkeypatch.setattr(randomness, "_FIRST_BITS", first)
        for place, numbers in enumerate(prefixes(dimension, 25)):
            supply.numbers, supply.given = numbers, 0
            outcomes[first, place] = randomness._attempt(dimension, 3.0)
            steps.append(supply.given)
    assert {*steps} >= {10, 20, 40}
    assert all(outcomes[5, place] == outcomes[40, place] for place in range(25))
    assert any(volume is not None for volume in outcomes.values())


# The cost, from exact probabilities.

NEIGHBOURS = {  # how one unit may move the statistic, in all directions
    1: [(2,), (1,)],
    2: [(1, 1), (2, 0), (2, 1)],
    3: [(1, 1, 1), (2, 1, 0)],
}
REACH = {1: 9, 2: 7, 3: 5}  # of the outputs that are enumerated


def delta_at(epsilon: float, scale: float, dimension: int) -> list[float]:
    """Return bounds on the largest delta of any neighbours, over all outputs of a box.

    delta(v) = sum over outputs o of (P[o] - e^epsilon P[o - v])_+, P[k] = e^(-||k|| / scale) / Z;
    what Z has outside of the box is below an integral.
    """
    side = np.arange(-REACH[dimension], REACH[dimension] + 1)
    outputs = np.stack(np.meshgrid(*[side] * dimension), axis=-1).reshape(-1, dimension)
    weights = np.exp(-np.linalg.norm(outputs, axis=1) / scale)
    # A cell reaches sqrt(D)/2 from its point: e^(-||k|| / s) is below its integral, moved so far.
    corner = math.sqrt(dimension) / 2
    sphere = 2 * math.pi ** (dimension / 2) / math.gamma(dimension / 2)
    beyond = mpmath.gammainc(dimension, (REACH[dimension] + 1 - corner) / scale)
    tail = math.exp(corner / scale) * sphere * scale**dimension * float(beyond)
    interval = (float(weights.sum()), float(weights.sum()) + tail)
    bounds = [0.0, 0.0]
    for move in NEIGHBOURS[dimension]:
        for signs in itertools.product((1, -1), repeat=dimension):
            other = np.exp(-np.linalg.norm(outputs - np.multiply(move, signs), axis=1) / scale)
            inside = float(np.maximum(weights - math.exp(epsilon) * other, 0).sum())
            bounds[0] = max(bounds[0], inside / interval[1])
            bounds[1] = max(bounds[1], inside / interval[0])
    return bounds


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.7, 2.0])
def test_delta_is_zero_at_epsilon_and_not_below(dimension, epsilon):
    longest = max(math.hypot(*move) for move in NEIGHBOURS[dimension])
    steps = max(sum(move) for move in NEIGHBOURS[dimension])
    noise = KNormNoise.calibrated(Sensitivity(steps, longest, dimension), epsilon)
    assert delta_at(epsilon, noise.scale, dimension)[1] < 1e-14
    assert delta_at(0.98 * epsilon, noise.scale, dimension)[0] > 1e-5


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_wrong_norm_is_noticed(dimension):
    """The longest coordinate of a move bounds it in one dimension only."""
    wrong = float(max(max(move) for move in NEIGHBOURS[dimension]))
    noise = KNormNoise.calibrated(Sensitivity(3, wrong, dimension), 1.0)
    assert delta_at(1.0, noise.scale, dimension)[0] > 1e-4
