"""What is kept of a file that the program wrote: readable, small, and enough to notice any byte.

The files are taken apart here by their published layout (docs/decisions/release-file.md), not by
the package: what it writes must stay what others read.
"""

import hashlib
import json
import math
import struct
from itertools import pairwise
from typing import Any

import numpy as np
import safetensors.numpy

__all__ = ["about", "digest", "parts_of", "plain", "release_record"]

MOST_NUMBERS = 48  # of an array that is written down whole; of a longer one, its ends
ENDS = 4
DIGITS = 8  # of numbers that may differ by machine; two more than are compared


def digest(data: bytes) -> str:
    """Return a SHA-256, shortened to 128 bits: half the lines, and still no two are alike."""
    return hashlib.sha256(data).hexdigest()[:32]


def parts_of(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray], bytes]:
    """Return manifest, arrays and signature block of a ``*.suffice`` file."""
    if data[:8] != b"suffice\x01":
        raise ValueError("not a release")
    manifest, payload, signature = struct.unpack_from("<QQQ", data, 8)
    ends = [32, 32 + manifest, 32 + manifest + payload, 32 + manifest + payload + signature]
    pieces = [data[start:end] for start, end in pairwise(ends)]
    return json.loads(pieces[0]), safetensors.numpy.load(pieces[1]), pieces[2]


def release_record(data: bytes, before: bytes, draws: list[Any], *, exact: bool) -> dict[str, Any]:
    """Return what is kept of a release, made with seeded noise and made without noise."""
    manifest, arrays, signature = parts_of(data)
    clean = parts_of(before)[1]
    composed = _round_composed(manifest)
    if exact:
        seeded: dict[str, Any] = {"signature bytes": len(signature)}
        if not composed:
            seeded["file"] = digest(data)
        seeded["arrays"] = {name: digest(a.tobytes()) for name, a in sorted(arrays.items())}
        silent = {name: about(array) for name, array in sorted(clean.items())}
    else:
        manifest.pop("payload")
        seeded = {"arrays": {name: values(a) for name, a in sorted(arrays.items())}}
        silent = {name: values(array) for name, array in sorted(clean.items())}
    return {"manifest": manifest, "before noise": silent, "draws": draws, "seeded": seeded}


def _round_composed(manifest: dict[str, Any]) -> bool:
    """Say whether losses were composed, and keep fewer digits of their epsilon.

    It is computed by a Fourier transform, whose last digits differ by machine.
    """
    promises = [promise for part in manifest["parts"] for promise in part["guarantees"]]
    composed = [promise for promise in promises if promise["event"]["event"] == "composed"]
    for promise in composed:
        promise["epsilon"] = float(f"{promise['epsilon']:.{DIGITS}g}")
    return bool(composed)


def about(array: np.ndarray) -> dict[str, Any]:
    """Return type, shape and bytes of an array, as numbers or, if it is long, as a digest."""
    told: dict[str, Any] = {"type": array.dtype.str, "shape": list(array.shape)}
    numbers = array.ravel().tolist()
    if len(numbers) <= MOST_NUMBERS:
        return {**told, "values": numbers}
    return {**told, "ends": numbers[:ENDS] + numbers[-ENDS:], "digest": digest(array.tobytes())}


def values(array: np.ndarray) -> dict[str, Any]:
    """Return an array whose last digits may differ by machine."""
    return {"shape": list(array.shape), "values": plain(array.ravel().tolist())}


def plain(value: Any) -> Any:
    """Return JSON values in which a float has as many digits as are kept of it."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and math.isfinite(value):
        return float(f"{value:.{DIGITS}g}")
    return value if isinstance(value, int | str | type(None)) else repr(value)
