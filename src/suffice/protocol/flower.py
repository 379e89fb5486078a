"""Parties and their aggregator over Flower, with settings that both read and check.

A party answers a request with its contribution and nothing else. The aggregator asks every node
once, aggregates, releases and reports.

Flower carries the bytes of ``*.part`` files and nothing else. The aggregator sees every one of
them: this is transport, not secure aggregation (extra ``[flower]``; docs/parties.md).
"""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from suffice.errors import ParameterError
from suffice.plain_text import escaped

QUESTION = "contribute"  # the action that the server asks of a node
RECORD = "part"  # where a reply holds the bytes of a contribution


def text(config: Mapping[str, Any], name: str) -> str:
    """Return a setting that must be text, and not empty."""
    value = config.get(name)
    if not isinstance(value, str) or not value:
        raise ParameterError(f"The configuration lacks {name!r}, which must be text. Add it.")
    return value


def choice(config: Mapping[str, Any], name: str, choices: Iterable[str]) -> str:
    """Return a setting that is one of ``choices``; the first of them if it is missing."""
    names = list(choices)
    value = config.get(name, names[0])
    if value not in names:
        raise ParameterError(
            f"The setting {name} in the configuration must be one of {', '.join(names)}."
        )
    return str(value)


def audience(path: str, run: Mapping[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """Return the auxiliary rows at ``path``, and the classes from the configuration of the run."""
    from suffice.owner.parties.contribution import AuxiliaryRows
    from suffice.tables.columns import check_classes

    names = [item.strip() for item in text(run, "classes").split(",")]
    are_integers = all(item.lstrip("-").isdecimal() for item in names)
    classes = check_classes([int(item) for item in names] if are_integers else names)
    return AuxiliaryRows.read(Path(path)), classes


def client_app() -> Any:
    """Return Flower's ClientApp of one party.

    The party's own node configuration names its files; the server never does. It has ``part`` (a
    file that ``suffice contribute`` wrote), or ``party``, ``records``, ``label`` and ``aux``. The
    run configuration, which the server's side writes, has ``classes``, ``method`` and ``lam``.
    """
    from flwr.app import ConfigRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def contribute(message: Message, context: Context) -> Message:
        data = answer(context.node_config, context.run_config)
        content = RecordDict({RECORD: ConfigRecord({RECORD: data})})
        return Message(content=content, reply_to=message)

    app.query(QUESTION)(contribute)
    return app


def answer(node: Mapping[str, Any], run: Mapping[str, Any]) -> bytes:
    """Return the bytes of the party's contribution: from its file, or computed from its records.

    The party writes the configuration of its node, the server's side that of the run.
    """
    from suffice.owner.parties.contribution import PartyContribution, encode_part

    if "part" in node:
        # Read before it is sent: only a contribution is ever sent.
        return encode_part(PartyContribution.load(Path(text(node, "part"))))
    missing = [name for name in ("party", "records", "label", "aux") if name not in node]
    if missing:
        raise ParameterError(
            f"The configuration of the node lacks {missing[0]!r}. Add it, or name a part file."
        )
    from suffice.owner.parties.ensemble import METHODS
    from suffice.owner.parties.gathering import PartyTable

    auxiliary, classes = audience(text(node, "aux"), run)
    records = PartyTable.read(
        Path(text(node, "records")),
        auxiliary,
        label=text(node, "label"),
        classes=classes,
        party=None,
    )
    statistic = METHODS[choice(run, "method", METHODS)]
    lam = float(run.get("lam", 1e-4))
    samples = int(run.get("samples", 1))
    part = records.contribution(text(node, "party"), auxiliary, statistic, lam, samples)
    return encode_part(part)


_LOG = logging.getLogger("suffice.flower")


def server_app() -> Any:
    """Return Flower's ServerApp of the aggregator.

    The run configuration has ``aux``, ``classes``, ``enrolled``, ``epsilon``, ``delta``,
    ``method``, ``lam``, ``output``, and ``ledger`` with ``dataset`` (or ``no-ledger = true``).
    ``nodes`` is the number of nodes to wait for, ``timeout`` the time in seconds to wait for them
    and again for their answers.
    """
    from flwr.app import Context
    from flwr.serverapp import Grid, ServerApp

    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        run = context.run_config
        parts, silent = gather_bytes(grid, int(run["nodes"]), float(run["timeout"]))
        for node, reason in silent:
            _LOG.warning("counted as zero: node %s: %s", node, reason)
        outcome = release_of(parts, run)
        for rejected in outcome.rejected:
            _LOG.warning("counted as zero: %s", escaped(str(rejected)))
        _LOG.warning("%s parties counted; %s sent nothing", outcome.accepted, outcome.absent)
        outcome.release.save(Path(text(run, "output")))

    app.main()(main)
    return app


def gather_bytes(
    grid: Any, nodes: int, timeout: float
) -> tuple[list[bytes], list[tuple[int, str]]]:
    """Return the bytes that nodes sent, and the id of every other node with the reason.

    ``timeout`` is in seconds: so long it waits for ``nodes`` nodes, and again for their answers.
    """
    from flwr.app import Message, RecordDict

    until = time.monotonic() + timeout
    while len(ids := list(grid.get_node_ids())) < nodes and time.monotonic() < until:
        time.sleep(0.5)
    requests = [
        Message(content=RecordDict(), dst_node_id=node, message_type=f"query.{QUESTION}")
        for node in ids
    ]
    replies = list(grid.send_and_receive(requests, timeout=timeout))
    parts: list[bytes] = []
    silent: list[tuple[int, str]] = []
    for reply in replies:
        contribution = _bytes_of(reply)
        if contribution is None:
            silent.append((reply.metadata.src_node_id, "it answered with an error, or no bytes"))
        else:
            parts.append(contribution)
    answered = {reply.metadata.src_node_id for reply in replies}
    silent += [(node, "it did not answer in time") for node in ids if node not in answered]
    return parts, silent


def _bytes_of(reply: Any) -> bytes | None:
    """Return the bytes of a reply, or None if the node sent anything else."""
    if reply.has_error() or RECORD not in reply.content.config_records:
        return None
    data = reply.content.config_records[RECORD].get(RECORD)
    return data if isinstance(data, bytes) else None


def release_of(parts: Sequence[bytes], run: Mapping[str, Any]) -> Any:
    """Return the aggregation of contributions as the configuration of the run describes it."""
    from suffice.owner.ledger import Ledger
    from suffice.owner.parties.ensemble import METHODS, PrivateEnsemble

    ledger = run.get("ledger")
    if bool(ledger) == bool(run.get("no-ledger", False)):
        raise ParameterError(
            "Choose a ledger: set ledger and dataset. To release without a budget, set no-ledger ="
            " true."
        )
    auxiliary, classes = audience(text(run, "aux"), run)
    ensemble = PrivateEnsemble(
        epsilon=float(run["epsilon"]),
        delta=float(run["delta"]),
        method=choice(run, "method", METHODS),
        classes=classes,
        lam=float(run.get("lam", 1e-4)),
        samples=int(run["samples"]) if "samples" in run else None,
    )
    return ensemble.aggregate(
        parts,
        auxiliary,
        enrolled=int(run["enrolled"]),
        ledger=Ledger(text(run, "ledger")) if ledger else None,
        dataset=text(run, "dataset") if ledger else None,
    )
