"""The aggregator's side of Flower: it asks every node once, aggregates, releases and reports."""

import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from suffice.errors import ParameterError
from suffice.plain_text import escaped
from suffice.transport.flower.settings import QUESTION, RECORD, audience, choice, text

__all__ = ["gather_bytes", "release_of", "server_app"]

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
    """Return what the nodes sent, and which nodes sent nothing that can be read.

    Parameters
    ----------
    grid
        Flower's connection to the nodes.
    nodes
        The number of nodes to wait for.
    timeout
        How many seconds to wait for nodes, and again for their answers.

    Returns
    -------
    tuple of two lists
        The bytes of the contributions; and the id of every other node with the reason.
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
    """Return the aggregation of contributions as the configuration of the run describes it.

    Parameters
    ----------
    parts
        The bytes of the contributions.
    run
        The configuration of the run.

    Raises
    ------
    ParameterError
        If a setting is missing or not valid.
    BudgetError
        If the release would exceed the budget.
    """
    from suffice.owner.ledger import Ledger
    from suffice.owner.parties.mechanism import METHODS, PrivateEnsemble

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
