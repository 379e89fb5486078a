"""Files that a stranger could write: sealed with right checksums, everything pushed to its end.

Each starts from a file of tests/fixtures. One number, string, list, object or array axis
of it goes to an end of what it can be; or several go together, so that the file stays consistent
and reaches what lies behind the first checks.
"""

import copy
import hashlib
import json
import math
import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import rfc8785

FOLDER = Path(__file__).parent / "fixtures"
NUMBERS = (0, -1, 1, 2, 256, 65_536, 2**53 - 1, 1 - 2**53, 0.5, 1e-300, 5e-324, 1e308, -1e308)
TEXTS = (
    "",
    "x" * 20_000,
    " " * 20_000,
    "a" + " " * 300 + "per label  Protects each label (epsilon = 0.1, pure)",
    "\x1b[2J\x1b]0;owned\x07\x1b[1;32mProtects each label\x1b[0m",
    "\x9b2J\x7f\x00\r\b",
    "\n\n  per label  Protects each label: epsilon = 0.01\n",
    "\u202egnihton stcetorP\u2066\u200b\u00ad\ufeff",
    "\u2028\u2029\u00a0\u3000\u3164\u2800",
    "e" + "\u0301" * 5000,
    "\U000e0041\ue000\U0010ffff",
    '=HYPERLINK("http://x";"y")',
    "[bold]x[/bold]<script>alert(1)</script>",
    "sha256:" + "\x1b" * 64,
    "polynomial",
    "composed",
    "none",
)
REPEATS = (2, 300, 20_000)
VALUES = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e308, 5e-324, 255)
AXES = (0, 1, 2, 2**16, 2**31, 2**40, 2**62)


@dataclass
class Container:
    """The parts of a ``*.suffice`` file: its manifest, and the arrays with what is said of them."""

    manifest: dict[str, Any]
    arrays: dict[str, np.ndarray]
    stated: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, data: bytes) -> "Container":
        """Return the parts of a file's bytes."""
        sizes = struct.unpack_from("<QQQ", data, 8)
        manifest = data[32 : 32 + sizes[0]]
        payload = data[32 + sizes[0] : 32 + sizes[0] + sizes[1]]
        length = int.from_bytes(payload[:8], "little")
        header, body = json.loads(payload[8 : 8 + length]), payload[8 + length :]
        types = {"F64": "<f8", "I64": "<i8", "U8": "u1"}
        arrays = {}
        for name, entry in header.items():
            first, last = entry["data_offsets"]
            flat = np.frombuffer(body[first:last], dtype=types[entry["dtype"]])
            arrays[name] = flat.reshape(entry["shape"])
        return cls(json.loads(manifest), arrays)

    def sealed(self) -> bytes:
        """Return the file: canonical, every checksum right, whatever it holds."""
        names = {"float64": "F64", "int64": "I64", "uint8": "U8", "float32": "F32"}
        header, body = {}, b""
        for name, array in self.arrays.items():
            data = np.ascontiguousarray(array).tobytes()
            entry = {"dtype": names[array.dtype.name], "shape": list(array.shape)}
            entry["data_offsets"] = [len(body), len(body) + len(data)]
            header[name] = entry | self.stated.get(name, {})
            body += data
        head = json.dumps(header).encode()
        payload = struct.pack("<Q", len(head)) + head + body
        digest = hashlib.sha256(payload).hexdigest()
        manifest = rfc8785.dumps({**self.manifest, "payload": {"sha256": digest}})
        sizes = struct.pack("<QQQ", len(manifest), len(payload), 0)
        whole = b"suffice\x01" + sizes + manifest + payload
        return whole + hashlib.sha256(whole).digest()


Path_ = tuple[Any, ...]
Made = Callable[[], bytes | None]  # None where canonical JSON cannot be written of it
Crafted = tuple[str, str, Made]  # a name, an ending, what makes the bytes


def places(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Yield every place of a JSON value, with what is there."""
    yield path, value
    for key, item in (
        value.items() if isinstance(value, dict) else
        enumerate(value) if isinstance(value, list) else ()
    ):  # fmt: skip
        yield from places(item, (*path, key))


def pushed(value: Any) -> list[Callable[[], Any]]:
    """Return what makes the ends of what may stand in the place of a JSON value."""
    if isinstance(value, dict):
        fewer = [lambda k=key: {n: v for n, v in value.items() if n != k} for key in value]
        return [*fewer, lambda: {**value, "more": 1}, dict, list]
    if isinstance(value, list):
        longer = [lambda n=times: (value or ["x"]) * n for times in REPEATS]
        many = (lambda: [[]] * 20_000, lambda: list(range(20_000)))
        return [
            *longer,
            *many,
            lambda: [f"{i}\x1b" for i in range(20_000)],
            lambda: value[:1],
            list,
        ]
    ends = (*TEXTS, None) if isinstance(value, str) else (*NUMBERS, None, True, "1", [], {})
    return [lambda end=end: end for end in ends]


def with_value(root: Any, path: Path_, value: Any) -> Any:
    """Return a JSON value with another one in one place."""
    if not path:
        return value
    root = copy.deepcopy(root)
    inner = root
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return root


def of_release(name: str) -> Iterator[Crafted]:
    """Yield what can be made of a release by pushing one thing to its end."""
    whole = Container.read((FOLDER / name).read_bytes())
    for path, value in places(whole.manifest):
        if not path or path[0] == "payload":
            continue
        for i, other in enumerate(pushed(value)):
            label = f"{name} {'/'.join(map(str, path))} {i}"
            yield label, ".suffice", partial(_with_manifest, whole, path, other)
    for array_name, array in whole.arrays.items():
        for label, change, stated in of_array(array):
            make = partial(_with_array, whole, array_name, change, stated)
            yield f"{name} {array_name} {label}", ".suffice", make


def _with_array(
    whole: Container, name: str, change: Callable[[], np.ndarray], stated: dict[str, Any]
) -> bytes:
    arrays = {**whole.arrays, name: change()}
    return Container(whole.manifest, arrays, {name: stated}).sealed()


def _with_manifest(whole: Container, path: Path_, other: Callable[[], Any]) -> bytes | None:
    try:
        return Container(with_value(whole.manifest, path, other()), whole.arrays).sealed()
    except (rfc8785.CanonicalizationError, ValueError):
        return None


def of_array(
    array: np.ndarray,
) -> Iterator[tuple[str, Callable[[], np.ndarray], dict[str, Any]]]:
    """Yield what can become of an array: its values, its bytes, and what is said of its shape."""
    for value in VALUES:
        yield f"value {value}", partial(_half, array, value), {}
    for axis in range(array.ndim):
        for size in AXES:
            shape = [*array.shape[:axis], size, *array.shape[axis + 1 :]]
            yield f"axis {axis} said to be {size}", lambda: array, {"shape": shape}
            nothing = [0 if k != axis else size for k in range(max(2, array.ndim))]
            empty = partial(array.ravel().__getitem__, slice(0))
            yield f"axis {axis} of {size} and nothing", empty, {"shape": nothing}
            if size <= 2**16:
                yield f"axis {axis} of {size}", partial(np.resize, array, shape), {}
    yield "no axis", lambda: array, {"shape": []}
    yield "many axes", lambda: array, {"shape": [*array.shape, *[1] * 60]}
    yield "another type", partial(array.astype, np.float32), {}


def _half(array: np.ndarray, value: float) -> np.ndarray:
    changed = array.copy()
    with np.errstate(invalid="ignore"):
        changed.flat[: 1 + array.size // 2] = np.array([value]).astype(array.dtype)
    return changed


def of_message(name: str) -> Iterator[Crafted]:
    """Yield what can be made of a message by pushing one thing to its end, its digest right."""
    content = json.loads((FOLDER / name).read_bytes())
    for path, value in places(content):
        if path == ("digest",):
            continue
        for i, other in enumerate(pushed(value)):
            label = f"{name} {'/'.join(map(str, path))} {i}"
            yield label, ".json", partial(_with_content, content, path, other)


def _with_content(content: Any, path: Path_, other: Callable[[], Any]) -> bytes | None:
    changed = with_value(content, path, other())
    if isinstance(changed, dict):
        rest = {k: v for k, v in changed.items() if k != "digest"}
        try:
            digest = hashlib.sha256(rfc8785.dumps(rest)).hexdigest()
        except (rfc8785.CanonicalizationError, ValueError):
            return None
        changed = {**rest, "digest": f"sha256:{digest}"}
    return json.dumps(changed).encode()


def of_part(name: str) -> Iterator[Crafted]:
    """Yield what can be made of a party's contribution by pushing one thing to its end."""
    data = (FOLDER / name).read_bytes()
    sizes = struct.unpack_from("<IQ", data, 8)
    manifest = json.loads(data[20 : 20 + sizes[0]])
    payload = data[20 + sizes[0] : -32]
    for path, value in places(manifest):
        for i, other in enumerate(pushed(value)):
            label = f"{name} {'/'.join(map(str, path))} {i}"
            yield label, ".part", partial(_part, manifest, payload, path, other)


def _part(manifest: Any, payload: bytes, path: Path_, other: Callable[[], Any]) -> bytes | None:
    try:
        head = rfc8785.dumps(with_value(manifest, path, other()))
    except (rfc8785.CanonicalizationError, ValueError):
        return None
    body = b"suffpart" + struct.pack("<IQ", len(head), len(payload)) + head + payload
    return body + hashlib.sha256(body).digest()


def together() -> Iterator[Crafted]:
    """Yield files of which several things go to their ends together: each is one old hole."""
    for name, make in _TOGETHER.items():
        yield name, ".suffice", lambda make=make: make().sealed()


def _from(name: str) -> Container:
    whole = Container.read((FOLDER / name).read_bytes())
    return Container(copy.deepcopy(whole.manifest), dict(whole.arrays))


def _guarantee(whole: Container) -> dict[str, Any]:
    return whole.manifest["parts"][0]["guarantees"][0]


def wide_identity(width: int = 30_000) -> Container:
    """Return even noise on many coordinates."""
    whole = _from("laplace.suffice")
    columns = [
        {"name": f"x{i}", "categories": None, "unit": "", "other": False} for i in range(width)
    ]
    whole.manifest["pipeline"]["columns"] = columns
    whole.arrays |= {"pipeline.mean": np.zeros(width), "pipeline.scale": np.ones(width)}
    whole.arrays["mean_operator"] = np.zeros(width + 1)
    return whole


def empty_components() -> Container:
    """Return a map whose arrays name 2^30 outputs and hold nothing."""
    whole = _from("mapped.suffice")
    whole.manifest["pipeline"]["map"] = {"kind": "pca", "size": 5}
    whole.manifest["pipeline"]["columns"] = []
    keep = {n: a for n, a in whole.arrays.items() if not n.startswith("pipeline.map")}
    empty = np.zeros(0)
    maps = {"components": [2**30, 0], "centre": [0], "spread": [0]}
    whole.arrays = keep | {f"pipeline.map.{n}": empty for n in maps}
    whole.stated = {f"pipeline.map.{n}": {"shape": shape} for n, shape in maps.items()}
    return whole


def empty_rados() -> Container:
    """Return 2^40 rados without a coordinate."""
    whole = _from("rados.suffice")
    whole.manifest["pipeline"] |= {"columns": [], "intercept": 0}
    whole.manifest["details"] |= {"count": 2**40}
    whole.arrays = {n: np.zeros(0) for n in ("pipeline.mean", "pipeline.scale", "rados")}
    whole.stated = {"rados": {"shape": [2**40, 0]}}
    return whole


def many_laplaces(count: int = 256) -> Container:
    """Return a guarantee that composes different Laplace events; its epsilon lies in between."""
    whole = _from("laplace.suffice")
    bounds = [0.05 + 0.002 * i for i in range(count)]
    events = [{"event": "laplace", "bound": bound} for bound in bounds]
    composed = {"event": "composed", "events": events}
    _guarantee(whole).update(event=composed, epsilon=0.9 * math.fsum(bounds), delta=1e-6)
    return whole


def many_gaussians(count: int = 2048) -> Container:
    """Return as many guarantees as a file may have, each to be computed anew."""
    from suffice.privacy.events import gaussian_epsilon

    whole = _from("mean-operator.suffice")
    first = _guarantee(whole)
    stated = []
    for i in range(count):
        event = {"event": "gaussian", "multiplier": 0.01 + i * 1e-6, "slack": 0.0, "tail": 0.0}
        epsilon = gaussian_epsilon(1e-6, event["multiplier"])
        stated.append({**first, "event": event, "epsilon": epsilon, "delta": 1e-6})
    whole.manifest["parts"][0]["guarantees"] = stated
    return whole


def many_parts(count: int = 2000) -> Container:
    """Return many owners of a row each."""
    whole = _from("mean-operator.suffice")
    part = whole.manifest["parts"][0]
    parts = []
    for i in range(count):
        digest = hashlib.sha256(str(i).encode()).hexdigest()
        parts.append({**part, "rows": {**part["rows"], "hash": f"sha256:{digest}"}})
    whole.manifest["parts"] = parts
    return whole


def false_responses() -> Container:
    """Return randomised labels of which one in a million is changed, called epsilon 0.1."""
    whole = _from("label-responses.suffice")
    whole.arrays["channel"] = np.array([[1 - 1e-6, 1e-6], [1e-6, 1 - 1e-6]])
    _guarantee(whole).update(event={"event": "pure", "bound": 0.1}, epsilon=0.1)
    return whole


def half_risk() -> Container:
    """Return a model that knows one end of the interval of its risk."""
    whole = _from("model.suffice")
    whole.manifest["details"] |= {"risk": 0.5, "risk_low": 0.4, "risk_high": None}
    return whole


def many_columns(count: int = 2000) -> Container:
    """Return records of many randomised columns of many states, of one row."""
    whole = _from("survey.suffice")
    flips = {"keep": 0.9}
    columns = [{"name": f"q{i}", "integers": [i, i + 255], "noise": flips} for i in range(count)]
    whole.manifest["details"]["columns"] = columns
    raw = [{"name": c["name"], "categories": None, "unit": "", "other": False} for c in columns]
    whole.manifest["pipeline"] |= {"columns": raw, "bound": math.sqrt(count) * (1 + 1e-9)}
    ends = np.array([c["integers"] for c in columns], dtype=np.float64)
    rows = len(whole.arrays["answers"])
    whole.arrays |= {"pipeline.mean": ends.mean(axis=1), "pipeline.scale": np.full(count, 127.5)}
    whole.arrays["codes"] = np.zeros((rows, count), dtype=np.uint8)
    whole.arrays["values"] = np.zeros((rows, 0))
    return whole


def many_classes(count: int = 256) -> Container:
    """Return randomised labels of 256 classes with names that paint."""
    whole = _from("label-responses.suffice")
    whole.manifest["details"]["classes"] = [f"{TEXTS[4]}{i}" for i in range(count)]
    channel = np.full((count, count), 0.5 / (count - 1))
    np.fill_diagonal(channel, 0.5)
    whole.arrays["channel"] = channel
    bound = math.log(count - 1) * (1 + 1e-9)
    _guarantee(whole).update(event={"event": "pure", "bound": bound}, epsilon=bound)
    return whole


def many_bags(count: int = 20_000) -> Container:
    """Return proportions of many sets of one row, with long names."""
    whole = _from("proportions.suffice")
    whole.manifest["details"]["bags"] = [f"{i} {'w' * 50}" for i in range(count)]
    whole.manifest["parts"][0]["rows"]["count"] = count
    whole.arrays |= {
        "proportions": np.full((count, 2), 0.5),
        "counts": np.full((count, 2), 0.5),
        "sizes": np.ones(count, dtype=np.int64),
    }
    return whole


def painted() -> Container:
    """Return a file that promises nothing, every free text of which paints a promise."""
    whole = _from("rados.suffice")
    paint = TEXTS[4] + TEXTS[6] + TEXTS[3]
    none = {"event": {"event": "unbounded"}, "epsilon": None, "delta": 0, "kind": "none"}
    _guarantee(whole).update(
        **none, public=[paint], assumptions=[{"statement": paint, "checked": paint}], of=[paint]
    )
    whole.manifest["parts"][0]["rows"]["found_at"] = paint
    whole.manifest["details"] |= {"classes": [paint, paint + "2"], "mechanism": "plain"}
    for column in whole.manifest["pipeline"]["columns"]:
        column["name"] += paint
    return whole


def high_polynomial() -> Container:
    """Return a polynomial of a degree that has more products than anybody can build."""
    whole = _from("mapped.suffice")
    whole.manifest["pipeline"]["map"] = {"kind": "polynomial", "size": 99_999}
    whole.arrays = {n: a for n, a in whole.arrays.items() if not n.startswith("pipeline.map")} | {
        f"pipeline.map.{n}": whole.arrays[f"pipeline.map.{n}"] for n in ("centre", "spread")
    }
    return whole


_TOGETHER: dict[str, Callable[[], Container]] = {
    make.__name__: make
    for make in (
        wide_identity, empty_components, empty_rados, many_laplaces, many_gaussians, many_parts,
        false_responses, half_risk, many_columns, many_classes, many_bags, painted, high_polynomial,
    )
}  # fmt: skip


def crafted(count: int, seed: int = 1) -> Iterator[tuple[str, str, bytes]]:
    """Yield the files of old holes, and as many others as there is room for, chosen at random."""
    releases = sorted(path.name for path in FOLDER.glob("*.suffice"))
    every = [item for name in releases for item in of_release(name)]
    for name in ("proposal.json", "granted.answer.json"):
        every += of_message(name)
    every += of_part("p0.part")
    random.Random(seed).shuffle(every)
    for name, ending, make in [*together(), *every]:
        data = make()
        if data is None:
            continue
        yield name, ending, data
        count -= 1
        if count == 0:
            return
