"""The one door: every release of this package leaves through `publish`."""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from suffice.errors import ParameterError, PrivacyError, UnprotectedError
from suffice.owner.ledger import Ledger, Request
from suffice.owner.scaling import as_scaled, stated_trouble
from suffice.privacy.guarantee import Guarantee, Kind, Scope
from suffice.release.artifact import Release
from suffice.release.codec import decode, encode
from suffice.strict_json import canonical

__all__ = ["publish"]


def publish(
    draw: Callable[[], Release],
    guarantees: Sequence[Guarantee],
    *,
    ledger: Ledger | None,
    dataset: str | None,
    request: str | None,
    parameters: Mapping[str, Any],
    fingerprint: bytes,
    content: bytes = b"",
    unprotected: bool = False,
) -> Release:
    """Let a release leave, paid for first.

    ``draw`` adds the noise and is called at most once, after the debit is durable. ``parameters``
    are public and describe the request; ``fingerprint`` identifies the private data and is stored
    only under the ledger's own key. ``content`` identifies private cells beyond that: the request
    is bound to them, the budget is not, since other cells of the same people share it. Without a
    ``request`` name the parameters name it themselves, so asking twice for the same thing gives
    the same bytes and costs once.
    """
    if not guarantees:
        raise ParameterError(
            "a release must state at least one guarantee, if only that it has none."
        )
    if not unprotected and not all(guarantee.protected for guarantee in guarantees):
        raise UnprotectedError(
            f"{_shortfall(guarantees)} To publish it anyway, use --unprotected (Python:"
            " unprotected=True)."
        )
    if ledger is None:
        return _as_promised(draw(), guarantees)
    if not dataset:
        raise ParameterError("a ledger needs the name of the data set (dataset=..., --dataset).")
    secret = ledger.secret()
    data = _keyed(secret, b"data", fingerprint)
    bound = _keyed(secret, b"request", canonical(dict(parameters)) + data.encode() + content)
    name = request or bound[:16]
    stored = ledger.debit(dataset, guarantees, Request(name, bound, data, parameters))
    if stored is not None:
        return decode(stored)
    try:
        release = _as_promised(draw(), guarantees)
        ledger.finish(dataset, name, encode(release))
    except BaseException:
        ledger.abandon(dataset, name)
        raise
    return release


def _as_promised(release: Release, guarantees: Sequence[Guarantee]) -> Release:
    """Return the release if it states exactly what was paid for, and its scaling allows that."""
    if release.guarantees != tuple(guarantees):
        raise PrivacyError("the release does not state the guarantees that were paid for.")
    origin = release.pipeline.origin
    if any(as_scaled(guarantee, origin).kind is not guarantee.kind for guarantee in guarantees):
        raise PrivacyError("the release shows scales of private rows, and does not say so.")
    return release


def _shortfall(guarantees: Sequence[Guarantee]) -> str:
    """Return what keeps a release from being differentially private, as a sentence."""
    if any(guarantee.kind is not Kind.GLOBAL for guarantee in guarantees):
        why = stated_trouble(guarantees)
        return f"This release is not differentially private{': ' + why if why else ''}."
    columns = dict.fromkeys(c for g in guarantees if g.scope is Scope.MARGINAL for c in g.of)
    return (
        f"This release protects only what column {', '.join(columns)} shows when read alone; a"
        " reader who combines it with other columns may recover its values."
    )


def _keyed(secret: bytes, purpose: bytes, content: bytes) -> str:
    return hmac.new(secret, purpose + b"\0" + content, hashlib.sha256).hexdigest()
