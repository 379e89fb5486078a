"""The party's side of Flower: it answers a request with its contribution and nothing else."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suffice.errors import ParameterError
from suffice.transport.flower.settings import QUESTION, RECORD, audience, choice, text

__all__ = ["answer", "client_app"]


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

    Parameters
    ----------
    node
        The party's own configuration.
    run
        The configuration of the run, written by the server's side.

    Raises
    ------
    ParameterError
        If a setting is missing or not valid.
    ReleaseError
        If the file is not a contribution.
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
    from suffice.owner.parties.mechanism import METHODS
    from suffice.owner.parties.records import PartyTable

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
