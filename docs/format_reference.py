"""The tables of docs/format.md and the JSON schema of a manifest, from what reads a file.

``make docs`` writes both, and the tests compare them.
"""

import json
from pathlib import Path
from typing import Any

from suffice import strict_json
from suffice.privacy.guarantee import _StatedGuarantee
from suffice.releases.kinds import KINDS
from suffice.releases.release import RowSet
from suffice.tables.pipeline import _StatedPipeline

PAGE = Path(__file__).parent / "format.md"
SCHEMA = Path(__file__).parent / "format.schema.json"
_BEGIN, _END = "<!-- kinds -->\n", "<!-- end of kinds -->\n"


def kinds_table() -> str:
    """Return a section for every kind: its arrays and its details."""
    parts = []
    for kind in KINDS.values():
        parts.append(f"**`{kind.name}`**, version {kind.version}: {kind.title}.\n")
        parts.append("| array | type | axes | noise |\n|---|---|---|---|")
        for name, rule in kind.arrays.items():
            axes = ", ".join(rule.shape)
            parts.append(f"| `{name}` | {rule.dtype} | {axes} | {'yes' if rule.noisy else 'no'} |")
        listed = ", ".join(
            f"`{name}` ({' or '.join(rule.among) if rule.among else rule.check})"
            for name, rule in kind.details.items()
        )
        parts.append(f"\nDetails: {listed}.\n")
    return "\n".join(parts)


def page() -> str:
    """Return docs/format.md with the kinds as they are now."""
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    return f"{head}{_BEGIN}\n{kinds_table()}\n{_END}{rest.partition(_END)[2]}"


def manifest_schema() -> dict[str, Any]:
    """Return the JSON schema of a manifest, whatever its kind."""

    def record(**members: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": members,
            "required": list(members),
            "additionalProperties": False,
        }

    guarantee = strict_json.schema(_StatedGuarantee)
    guarantee["properties"] |= {"neighbours": {"type": "string"}}
    pipeline = strict_json.schema(_StatedPipeline)
    pipeline["required"] = [name for name in pipeline["required"] if name != "clipped"]
    part = record(
        rows=strict_json.schema(RowSet),
        guarantees={"type": "array", "items": guarantee, "minItems": 1},
    )
    noise = {
        "type": "object",
        "properties": {"form": {"enum": ["none", "identity", "diagonal", "factor"]},
                       "variance": {"type": "number", "minimum": 0}},
        "required": ["form", "variance"],
    }  # fmt: skip
    manifest = record(
        kind={"enum": list(KINDS)},
        kind_version={"type": "integer"},
        library={"type": "string", "pattern": "^[A-Za-z0-9 ._+-]{1,100}$"},
        parts={"type": "array", "items": part, "minItems": 1},
        pipeline=pipeline,
        noise=noise,
        details={"type": "object"},
        payload=record(sha256={"type": "string", "pattern": "^[0-9a-f]{64}$"}),
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The manifest of a suffice file, container version 1",
        **manifest,
    }


def schema_text() -> str:
    """Return docs/format.schema.json."""
    return json.dumps(manifest_schema(), indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    SCHEMA.write_text(schema_text(), encoding="utf-8")
