"""The one door: every release of this package leaves through `publish`."""

import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from suffice.errors import ParameterError, PrivacyError, UnprotectedError
from suffice.options import budget_option, ledger_file, privacy_option
from suffice.owner.ledger import DatasetCharge, Ledger, Request
from suffice.owner.scaling import as_scaled, stated_trouble
from suffice.privacy.guarantee import Guarantee, Protection, Scope
from suffice.release.artifact import Release
from suffice.release.codec import decode, encode
from suffice.strict_json import canonical

__all__ = ["Made", "Payment", "PrivateIdentity", "publish"]


@dataclass(frozen=True)
class Made:
    """When the charge of a release was made, and whether that was an earlier call: public facts."""

    time: datetime
    repeated: bool


@dataclass(frozen=True)
class Payment:
    """What a release is charged to, and what its owner declares.

    Parameters
    ----------
    ledger : Ledger or None
        The ledger that is charged; None releases without a budget.
    dataset : str, optional
        Name of the data set in the ledger.
    request : str, optional
        Name of the request. The same name gets the same bytes.
    unprotected : bool
        The release may be made even if it is not differentially private.
    report : callable, optional
        Called with when the release was made, if it is charged to a ledger.
    """

    ledger: Ledger | None = budget_option(
        None,
        "Charge this release to this ledger: a file, or postgresql://HOST/DATABASE.",
        parse=Ledger,
        path=ledger_file,
    )
    dataset: str | None = budget_option(
        None, "Name of the data set in the ledger, for example diagnosis."
    )
    request: str | None = budget_option(
        None,
        "Name of this request. The same name returns the same file at no charge. A new name"
        " draws new noise and is charged.",
    )
    unprotected: bool = privacy_option(
        False,  # noqa: FBT003  # a default
        "Publish even if the release is not differentially private, or protects a column only"
        " when it is read alone.",
    )
    report: Callable[[Made], None] | None = None


@dataclass(frozen=True)
class PrivateIdentity:
    """What identifies private data. Nothing but notes for the owner depends on it.

    Parameters
    ----------
    fingerprint : bytes
        A digest of all private cells that the release reads. It is stored under the ledger's key.
    also : sequence of DatasetCharge
        Further data sets that the same release is about, charged together.
    """

    fingerprint: bytes = b""
    also: Sequence[DatasetCharge] = ()


def publish(
    draw: Callable[[], Release],
    guarantees: Sequence[Guarantee],
    payment: Payment,
    *,
    parameters: Mapping[str, Any],
    identity: PrivateIdentity,
) -> Release:
    """Return a release that may be published, charged before its noise is drawn.

    Parameters
    ----------
    draw : callable
        Adds the noise. It is called at most once, after the charge is durable.
    guarantees : sequence of Guarantee
        What the release must state, before the guarantees of further data sets.
    payment : Payment
        The ledger, the data set and the name of the request.
    parameters : mapping
        The public description of the request, with all that is public about the size of the data.
        Without a request name they name it, so that the same request twice gives the same bytes
        and is charged once, whatever the data are now.
    identity : PrivateIdentity
        What identifies the private data, for notes, and the other data sets that are charged.

    Returns
    -------
    Release
        The new release, or the stored one of the same request.
    """
    stated = [*guarantees, *(g for charge in identity.also for g in charge.guarantees)]
    _check_stated(guarantees, stated, payment)
    ledger, dataset = payment.ledger, payment.dataset
    if ledger is None:
        return _as_promised(draw(), stated)
    if not dataset:
        raise ParameterError(
            "A ledger needs the name of the data set (--dataset; Python: dataset=...)."
        )
    secret = ledger.secret()
    others = [_hidden(secret, charge) for charge in identity.also]
    request = Request(
        payment.request or _name(parameters, [dataset, *(c.dataset for c in others)]),
        parameters,
        _keyed(secret, identity.fingerprint),
    )
    stored = ledger.debit(dataset, guarantees, request, others)
    if payment.report is not None:
        payment.report(Made(ledger.made(dataset, request.name), stored is not None))
    if stored is not None:
        return decode(stored)
    try:
        release = _as_promised(draw(), stated)
        ledger.finish(dataset, request.name, encode(release))
    except BaseException:
        ledger.abandon(dataset, request.name)
        raise
    return release


def _check_stated(
    guarantees: Sequence[Guarantee], stated: Sequence[Guarantee], payment: Payment
) -> None:
    """Raise if no guarantee is stated, or too weak a one that the owner did not accept."""
    if not guarantees:
        raise ParameterError(
            "A release must state at least one guarantee, even if it is that there is none."
        )
    if not payment.unprotected and not all(guarantee.protected for guarantee in stated):
        raise UnprotectedError(
            f"{_shortfall(stated)} To publish it anyway, use --unprotected (Python:"
            " unprotected=True)."
        )


def _name(parameters: Mapping[str, Any], datasets: Sequence[str]) -> str:
    """Return the name of a request that has none: a hash of public parameters and data sets."""
    described = canonical({"parameters": dict(parameters), "datasets": list(datasets)})
    return hashlib.sha256(described).hexdigest()[:16]


def _as_promised(release: Release, guarantees: Sequence[Guarantee]) -> Release:
    """Return the release if it states exactly what was charged, and its scaling allows that."""
    if release.guarantees != tuple(guarantees):
        raise PrivacyError("The release does not state the guarantees that were charged.")
    origin = release.pipeline.origin
    if any(as_scaled(guarantee, origin).kind is not guarantee.kind for guarantee in guarantees):
        raise PrivacyError("The release shows scales of private rows, and does not state it.")
    return release


def _shortfall(guarantees: Sequence[Guarantee]) -> str:
    """Return what keeps a release from being differentially private, as a sentence."""
    if any(guarantee.kind is not Protection.GLOBAL for guarantee in guarantees):
        why = stated_trouble(guarantees)
        return f"This release is not differentially private{': ' + why if why else ''}."
    columns = dict.fromkeys(c for g in guarantees if g.scope is Scope.MARGINAL for c in g.columns)
    return (
        f"This release protects only what column {', '.join(columns)} shows when read alone; a"
        " reader who combines it with other columns may recover its values."
    )


def _hidden(secret: bytes, charge: DatasetCharge) -> DatasetCharge:
    """Return a charge whose fingerprint is hidden under the ledger's key."""
    return replace(charge, fingerprint=_keyed(secret, charge.fingerprint.encode()))


def _keyed(secret: bytes, content: bytes) -> str:
    return hmac.new(secret, b"data\0" + content, hashlib.sha256).hexdigest()
