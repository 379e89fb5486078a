"""The one door: every release of this package leaves through `publish`."""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from suffice.errors import ParameterError, PrivacyError, UnprotectedError
from suffice.owner.ledger import DatasetCharge, Ledger, Request
from suffice.owner.scaling import as_scaled, stated_trouble
from suffice.privacy.guarantee import Assumption, Guarantee, Kind, Scope
from suffice.release.artifact import Release
from suffice.release.codec import decode, encode
from suffice.strict_json import canonical

__all__ = ["of_versions", "publish"]

_VERSIONS = Assumption(
    "the data of this name may have been changed between releases: a person with k rows, over all"
    " versions of them together, has k times the epsilon",
    "declared by the owner",
)


def of_versions(guarantee: Guarantee, *, data_changed: bool) -> Guarantee:
    """Return the guarantee with what must be said of data that were changed, if they were."""
    if not data_changed:
        return guarantee
    return replace(guarantee, assumptions=(*guarantee.assumptions, _VERSIONS))


def publish(
    draw: Callable[[], Release],
    guarantees: Sequence[Guarantee],
    *,
    ledger: Ledger | None,
    dataset: str | None,
    request: str | None,
    parameters: Mapping[str, Any],
    fingerprint: bytes | Mapping[str, bytes],
    content: bytes = b"",
    also: Sequence[DatasetCharge] = (),
    unprotected: bool = False,
    data_changed: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Release:
    """Let a release leave, paid for first.

    ``draw`` adds the noise and is called at most once, after the debit is durable. ``parameters``
    are public and describe the request; ``fingerprint`` identifies the private data, by algorithm
    where there are several (the request is bound to the first), and is stored only under the
    ledger's own key. ``content`` identifies private cells beyond that: the request is bound to
    them, the budget is not, since other cells of the same people share it. ``also`` is
    what the release states about further data sets, which are charged with the same debit; the
    release must state ``guarantees``, and then those. Without a ``request`` name the parameters
    name it themselves, so asking twice for the same thing gives the same bytes and costs once.
    ``data_changed`` and ``tell`` are those of `Ledger.debit`.
    """
    stated = [*guarantees, *(guarantee for charge in also for guarantee in charge.guarantees)]
    if not guarantees:
        raise ParameterError(
            "a release must state at least one guarantee, if only that it has none."
        )
    if not unprotected and not all(guarantee.protected for guarantee in stated):
        raise UnprotectedError(
            f"{_shortfall(stated)} To publish it anyway, use --unprotected (Python:"
            " unprotected=True)."
        )
    if ledger is None:
        return _as_promised(draw(), stated)
    if not dataset:
        raise ParameterError("a ledger needs the name of the data set (dataset=..., --dataset).")
    secret = ledger.secret()
    prints = {"contents-1": fingerprint} if isinstance(fingerprint, bytes) else fingerprint
    data = {algorithm: _keyed(secret, b"data", value) for algorithm, value in prints.items()}
    first = next(iter(data.values())).encode()  # as requests were bound from the beginning
    others = [_under(secret, charge) for charge in also]
    cells = b"".join(canonical([c.dataset, c.fingerprint]) for c in others) + content
    bound = _keyed(secret, b"request", canonical(dict(parameters)) + first + cells)
    asked = Request(request or bound[:16], bound, data, parameters)
    stored = ledger.debit(dataset, guarantees, asked, others, data_changed=data_changed, tell=tell)
    if stored is not None:
        return decode(stored)
    try:
        release = _as_promised(draw(), stated)
        ledger.finish(dataset, asked.name, encode(release))
    except BaseException:
        ledger.abandon(dataset, asked.name)
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


def _under(secret: bytes, charge: DatasetCharge) -> DatasetCharge:
    """Return a charge whose fingerprint is hidden under the ledger's key."""
    return replace(charge, fingerprint=_keyed(secret, b"data", charge.fingerprint.encode()))


def _keyed(secret: bytes, purpose: bytes, content: bytes) -> str:
    return hmac.new(secret, purpose + b"\0" + content, hashlib.sha256).hexdigest()
