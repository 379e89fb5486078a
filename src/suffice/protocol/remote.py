"""The other side of a service, for learners and officers: believe nothing unchecked."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from suffice import strict_json
from suffice.errors import ForeignAnswerError, ParameterError, ReleaseError, ServiceError
from suffice.owner.ledger.log import Checkpoint
from suffice.owner.ledger.tokens import parse
from suffice.plain_text import quoted
from suffice.protocol.export import MOST_BYTES as MOST_EXPORT_BYTES
from suffice.protocol.export import Export
from suffice.protocol.grant import check_answer
from suffice.protocol.messages import MOST_BYTES, Answer, Granted, Proposal
from suffice.releases.file import MOST_BYTES as MOST_RELEASE_BYTES
from suffice.releases.file import read_bounded
from suffice.releases.release import Release
from suffice.releases.signing import check_signer, verify
from suffice.tables.data_sheet import DataSheet

if TYPE_CHECKING:
    import httpx

    from suffice.owner.parties.rounds import SignedRound

_TRIES = 5
_SECONDS = 30.0
_LONGEST_RESPONSE = 600.0
_LONGEST_PAUSE = 10.0
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_LONGEST_TOKEN_FILE = 1000
_TEMPORARY = {429, 502, 503, 504}


def read_token(path: Path | None) -> str:
    """Return the token in a file, or in SUFFICE_TOKEN. On a command line, others could read it."""
    text = os.environ.get("SUFFICE_TOKEN", "") if path is None else None
    if text is None:
        text = read_bounded(Path(path or ""), _LONGEST_TOKEN_FILE).decode("ascii", "replace")
    if not text.strip():
        raise ParameterError(
            "A service needs a token. Write it to a file and name that with --token, or set"
            " SUFFICE_TOKEN."
        )
    return text.strip()


class Remote:
    """Talks to an owner's service, and checks what comes back before it is believed.

    Learners send proposals. Officers and owners read the log, keep checkpoints and export all that
    the service has to account for. A request that fails on the way is sent again. That is safe:
    the same proposal gets the same answer, and is charged once. It needs ``suffice[service]``.

    Parameters
    ----------
    url : str
        The address of the service, for example ``https://clinic.example/suffice``.
    token : str
        The token that the owner gave you.
    key : str or Path, optional
        The file of the owner's public key, or of several that you trust. With it, a release,
        checkpoint or export that none of them signed is an error.
    transport : optional
        An httpx transport, for tests and proxies.

    Raises
    ------
    ParameterError
        If the address would send the token over a network without TLS.

    Examples
    --------
    >>> from suffice import Remote
    >>> remote = Remote("http://127.0.0.1:8765", "suffice_id_secret")
    >>> remote
    Remote('http://127.0.0.1:8765')
    """

    def __init__(
        self, url: str, token: str, key: str | Path | None = None, *, transport: Any = None
    ) -> None:
        plain = url.isascii() and url.isprintable() and not {*url} & {*" @\\?#"}
        try:
            parts = urlsplit(url)
            plain = plain and parts.scheme in ("http", "https") and bool(parts.hostname)
            plain = plain and parts.port != 0
        except ValueError:
            plain = False
        if not plain:  # an address names a host and a path, and nothing else
            raise ParameterError("The address of a service must read https://HOST, without a user.")
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ParameterError(
                "Over http, others on the network would read your token. Use https."
            )
        if parse(token) is None:
            raise ParameterError("This is not a token of a suffice service. Ask the owner for one.")
        self.url, self.key = url.rstrip("/"), key
        self._token, self._transport = token, transport

    def __repr__(self) -> str:
        return f"Remote({self.url!r})"

    def datasets(self) -> list[dict[str, Any]]:
        """Return the data sets that the token covers, with the owner's policy for each."""
        listed = strict_json.parse(self._get("/v1/datasets").content)
        if not isinstance(listed, list):
            raise ServiceError("The service answered something else than a list of data sets.")
        return listed

    def sheet(self, dataset: str) -> DataSheet:
        """Return the owner's data sheet of a data set, for `suffice.propose`.

        Parameters
        ----------
        dataset : str
            The owner's data set.

        Raises
        ------
        ServiceError
            If the token covers no such data set, or it has no data sheet.
        """
        for served in self.datasets():
            if served.get("name") == dataset and served.get("sheet") is not None:
                try:
                    return DataSheet.from_json(served["sheet"])
                except ParameterError:
                    raise ServiceError("The service sent a data sheet that is not valid.") from None
        raise ServiceError("The service has no data sheet of this data set for your token.")

    def propose(
        self,
        proposal: Proposal,
        dataset: str,
        *,
        wait: float = 600.0,
        tell: Callable[[str], None] | None = None,
    ) -> tuple[Answer, Release | None]:
        """Send a proposal and return the owner's answer, with the release if it grants one.

        Parameters
        ----------
        proposal : Proposal
            The request, from `suffice.propose`.
        dataset : str
            The owner's data set.
        wait : float
            How many seconds to wait for an answer. The proposal stays with the owner: propose it
            again later and you get the answer.
        tell : callable, optional
            Gets a sentence when the owner has to decide.

        Raises
        ------
        ServiceError
            If the service cannot be reached, refuses the token, or has no answer yet.
        ForeignAnswerError
            If the answer or the release belongs to another proposal.
        SignatureError
            If the release is not signed with ``key``.
        """
        place = f"/v1/datasets/{quote(dataset, safe='')}/proposals"
        response = self._send("POST", place, proposal.encode())
        deadline = time.monotonic() + wait
        while response.status_code == 202:
            if time.monotonic() > deadline:
                raise ServiceError(
                    "The owner has not answered yet. Propose the same again later: it is not"
                    " charged twice."
                )
            if tell is not None and _member(response, "state") == "waiting":
                tell("The owner has to decide about this proposal.")
                tell = None
            time.sleep(_pause(response))
            response = self._get(f"{place}/{proposal.digest}")
        try:
            answer = Answer.load(response.content)
        except ReleaseError:
            raise ServiceError("The service answered something else than an answer.") from None
        if not isinstance(answer, Granted):
            if answer.proposal != proposal.digest:
                raise ForeignAnswerError("This answer belongs to another proposal.")
            return answer, None
        data = self._get(f"{place}/{proposal.digest}/release", MOST_RELEASE_BYTES).content
        release = check_answer(proposal, answer, data)
        if self.key is not None:
            verify(release, self.key)
        return answer, release

    def contribute(self, made: "SignedRound", data: bytes) -> None:
        """Send a party's contribution to a round; the same bytes may be sent again.

        Parameters
        ----------
        made : SignedRound
            The round. Its address must be that of this service.
        data : bytes
            The file that the party's `PartyContribution` is saved as.

        Raises
        ------
        ServiceError
            If the service rejects it, with the reason, or holds another contribution.
        """
        kind = "application/octet-stream"
        self._send("PUT", _part_of(made), data, kind=kind)

    def withdraw(self, made: "SignedRound") -> None:
        """Delete what the party sent, while the round is open.

        Parameters
        ----------
        made : SignedRound
            The round.
        """
        self._send("DELETE", _part_of(made), None)

    def log(self, dataset: str) -> list[dict[str, Any]]:
        """Return the entries of the audit log about a data set, oldest first (for officers).

        Parameters
        ----------
        dataset : str
            The owner's data set.
        """
        place = f"/v1/datasets/{quote(dataset, safe='')}/log"
        listed = strict_json.parse(self._get(place, MOST_EXPORT_BYTES).content)
        if not isinstance(listed, list):
            raise ServiceError("The service answered something else than a log.")
        return listed

    def checkpoint(self) -> Checkpoint:
        """Return a signed checkpoint of the ledger, to keep in other hands (for officers).

        Raises
        ------
        SignatureError
            If it is not signed with ``key``.
        """
        text = self._get("/v1/log/checkpoint").content.decode("ascii", "replace")
        checkpoint = Checkpoint.from_text(text)
        if self.key is not None:
            check_signer(checkpoint.signature, self.key, "checkpoint")
        return checkpoint

    def compare(self, checkpoint: Checkpoint) -> dict[str, Any]:
        """Return whether the ledger still contains an older checkpoint (for officers).

        The service itself answers. To check it without believing the service, use `export` and
        `Export.check_continues`.

        Parameters
        ----------
        checkpoint : Checkpoint
            The older checkpoint.

        Returns
        -------
        dict
            ``agrees``, ``verdict``, ``words`` and more, as ``/openapi.json`` says.
        """
        response = self._send(
            "POST", "/v1/log/verify", checkpoint.to_text().encode(), kind="text/plain"
        )
        outcome = strict_json.parse(response.content)
        if not isinstance(outcome, dict) or type(outcome.get("agrees")) is not bool:
            raise ServiceError("The service answered something else than a comparison.")
        return outcome

    def export(self) -> Export:
        """Return everything that the token shows, as a signed document (for officers).

        Raises
        ------
        ReleaseError
            If it is no export, was altered, or its log is not one unbroken chain.
        SignatureError
            If it is not signed with ``key``.
        """
        return Export.load(self._get("/v1/export", MOST_EXPORT_BYTES).content, self.key)

    def _get(self, path: str, most: int = MOST_BYTES) -> "httpx.Response":
        return self._send("GET", path, None, most)

    def _send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        most: int = MOST_BYTES,
        kind: str = "application/json",
    ) -> "httpx.Response":
        """Return the response to a request, sent again while the failure may be temporary."""
        import httpx

        headers = {
            "Authorization": f"Bearer {self._token}",
            "Content-Type": kind,
            "Accept-Encoding": "identity",
        }
        with httpx.Client(
            headers=headers, timeout=_SECONDS, transport=self._transport, follow_redirects=False
        ) as client:
            for attempt in range(_TRIES):
                try:
                    response = _bounded(client, method, f"{self.url}{path}", body, most)
                except httpx.HTTPError:
                    if attempt == _TRIES - 1:
                        raise ServiceError(
                            f"The service {self.url} cannot be reached. Nothing is lost: the same"
                            " can be sent again."
                        ) from None
                    time.sleep(min(2.0**attempt / 4, _LONGEST_PAUSE))
                    continue
                if response.status_code not in _TEMPORARY or attempt == _TRIES - 1:
                    break
                time.sleep(_pause(response))
        if response.is_success:
            return response
        status, detail = response.status_code, _member(response, "detail")
        if detail is None:
            raise ServiceError(f"The service answered {status} and gave no reason.")
        says = quoted(detail[:300])  # it comes from a stranger
        raise ServiceError(f"The service answered {status}. It says: {says}")


def _part_of(made: "SignedRound") -> str:
    return f"/v1/rounds/{made.id}/part"


def _bounded(
    client: "httpx.Client", method: str, url: str, body: bytes | None, most: int
) -> "httpx.Response":
    """Return a response whose body was read up to ``most`` bytes; a larger one is an error.

    The bytes are taken as they come: what is unpacked can be a thousand times as large.
    """
    import httpx

    deadline = time.monotonic() + _LONGEST_RESPONSE
    with client.stream(method, url, content=body) as response:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise ServiceError("The service sent a compressed answer, and was asked not to.")
        chunks, size = list[bytes](), 0
        for chunk in response.iter_raw():
            size += len(chunk)
            if size > most:
                raise ServiceError("The service sent more than a message can hold.")
            if time.monotonic() > deadline:
                raise ServiceError("The service sends its answer too slowly. Try again later.")
            chunks.append(chunk)
    headers = {
        name: response.headers[name] for name in ("retry-after",) if name in response.headers
    }
    return httpx.Response(
        response.status_code, headers=headers, content=b"".join(chunks), request=response.request
    )


def _pause(response: "httpx.Response") -> float:
    text = response.headers.get("retry-after", "1")
    return min(float(text) if text.isdigit() else 1.0, _LONGEST_PAUSE)


def _member(response: "httpx.Response", name: str) -> str | None:
    """Return a text in the JSON object of a response, None if it holds none."""
    try:
        return strict_json.text(strict_json.parse(response.content)[name])
    except (ReleaseError, KeyError, TypeError):
        return None
