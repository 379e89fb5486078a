"""What a service serves: one TOML file, checked completely before anything listens."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from suffice import strict_json
from suffice.errors import ParameterError, StorageError
from suffice.owner.policy import Policy
from suffice.release.file import read_bounded

__all__ = ["EXAMPLE", "FILE_NAME", "Limits", "ServedData", "Server", "Settings"]


FILE_NAME = "suffice.toml"
_MOST_BYTES = 2**20
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

EXAMPLE = """\
# The settings of `suffice serve`. Paths are relative to the folder of this file.

# What learners and officers are told about who you are.
organisation = "Clinic of Example"
# Every release is charged to this ledger. Set budgets in it with `suffice ledger init`.
# Several servers can share one in a database: "postgresql://HOST/DATABASE".
ledger = "clinic.ledger"
# Signs every release. Several servers need the same key.
key = "clinic.key"

[server]
# Other machines can reach the service only with TLS, or behind a proxy that adds TLS.
host = "127.0.0.1"
port = 8765
# certificate = "server.crt"
# certificate_key = "server.key"
# behind_proxy = true
# The addresses of the proxy, if it is on another machine.
# proxies = "10.0.0.2"
# The part of the address before /v1, if the service does not own the whole address.
# prefix = "/suffice"

[limits]
# Requests of one token in one minute, and proposals of a data set that may wait for an answer.
requests_per_minute = 120
waiting_proposals = 1000
# Proposals of one token that may wait, and that it may send at all.
waiting_of_one_token = 100
proposals_of_one_token = 2000

# One part for each data set; the name is that in the ledger.
[datasets.diagnosis]
table = "biopsies.parquet"
label = "diagnosis"
# by-hand: you decide on each proposal. automatic: the policy decides.
grants = "by-hand"
# What you grant, as in docs/protocol.md. Name the public columns.
[datasets.diagnosis.policy]
largest_epsilon = 1
features = ["age", "size"]
"""


@dataclass(frozen=True)
class Server:
    """Where the service listens.

    Parameters
    ----------
    host, port
        The address. Anything but loopback needs TLS or a proxy that adds it.
    certificate, certificate_key
        The files of a TLS certificate and of its key.
    behind_proxy
        Whether a proxy in front of the service adds TLS.
    proxies
        The addresses or networks of such proxies, with commas between them. Only from them does the
        service believe whose request it is (X-Forwarded-For).
    prefix
        The part of the address before ``/v1``; empty, or with a slash in front and none behind.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    certificate_key: Path | None = None
    behind_proxy: bool = False
    proxies: str = "127.0.0.1,::1"
    prefix: str = ""

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ParameterError("The server's port must be a number from 0 to 65535.")
        if (self.certificate is None) != (self.certificate_key is None):
            raise ParameterError("TLS needs both certificate and certificate_key.")
        safe = self.host in _LOOPBACK or self.behind_proxy or self.certificate is not None
        if not safe:
            raise ParameterError(
                f"Without TLS, others on the network would read tokens that go to {self.host}. Name"
                " certificate and certificate_key, or set behind_proxy = true."
            )
        for proxy in self.proxies.split(","):
            try:
                ip_network(proxy.strip())
            except ValueError:
                raise ParameterError(
                    "The server's proxies must be addresses or networks, with commas between them."
                ) from None
        if self.prefix and (not self.prefix.startswith("/") or self.prefix.endswith("/")):
            raise ParameterError("The server's prefix must begin with a slash, and not end in one.")

    @property
    def has_tls(self) -> bool:
        """Whether readers reach the service over TLS, its own or that of a proxy."""
        return self.behind_proxy or self.certificate is not None


@dataclass(frozen=True)
class Limits:
    """How much one token may ask for, and how much may wait.

    Parameters
    ----------
    requests_per_minute
        Requests of one token, or of one address without a token, in a minute.
    waiting_proposals
        Proposals of one data set that may wait for an answer at the same time.
    waiting_of_one_token
        Proposals of one token that may wait for an answer at the same time.
    proposals_of_one_token
        Proposals that one token may send at all; the service keeps them.
    """

    requests_per_minute: int = 120
    waiting_proposals: int = 1000
    waiting_of_one_token: int = 100
    proposals_of_one_token: int = 2000

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 1:
                raise ParameterError(f"The limit {limit.name} must be a positive integer.")


@dataclass(frozen=True)
class ServedData:
    """One data set that learners may send proposals to.

    Parameters
    ----------
    table
        The owner's table, as on the command line.
    label
        The column that holds the private labels.
    policy
        What the owner grants.
    grants
        "by-hand": the owner decides on each proposal that the policy allows; "automatic": the
        policy decides alone.
    """

    table: str
    label: str
    policy: Policy
    grants: Literal["by-hand", "automatic"] = "by-hand"

    def __post_init__(self) -> None:
        if self.policy.features is None:
            raise ParameterError(
                "The policy of a served data set must name its features: the columns that are"
                " public."
            )


@dataclass(frozen=True)
class Settings:
    """Everything that a service needs to know, from one TOML file.

    Parameters
    ----------
    organisation
        The name that learners and officers are shown.
    ledger
        The ledger that is charged. Tokens and proposals are in its database too.
    key
        The private key that signs releases.
    datasets
        The served data sets, by their name in the ledger.
    server
        Where the service listens.
    limits
        How much may be asked for.
    """

    organisation: str
    ledger: str
    key: Path
    datasets: Mapping[str, ServedData]
    server: Server = field(default_factory=Server)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.datasets:
            raise ParameterError("The settings name no data set. Add a part [datasets.NAME].")

    @classmethod
    def load(cls, folder: str | Path) -> "Settings":
        """Return the settings in ``suffice.toml`` of a folder, after checking them completely.

        Raises
        ------
        ParameterError
            If a field is unknown, missing or not what it must be.
        StorageError
            If there is no such file.
        """
        folder = Path(folder)
        path = folder / FILE_NAME
        if not path.is_file():
            raise StorageError(
                f"{path} does not exist. Write it first; `suffice serve --example` prints one."
            )
        try:
            data = tomllib.loads(read_bounded(path, _MOST_BYTES).decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ParameterError(f"{path} is not TOML: {error}.") from None
        settings = strict_json.read(
            cls, data, f"file {FILE_NAME}", defaults=True, error=ParameterError
        )
        return _placed(settings, folder)


def _placed(settings: Settings, folder: Path) -> Settings:
    """Return the settings with their paths from the folder of their file."""
    server, datasets = settings.server, settings.datasets
    certificate, key = server.certificate, server.certificate_key
    return replace(
        settings,
        ledger=_place(settings.ledger, folder),
        key=folder / settings.key,
        datasets={n: replace(d, table=_place(d.table, folder)) for n, d in datasets.items()},
        server=replace(
            server,
            certificate=certificate and folder / certificate,
            certificate_key=key and folder / key,
        ),
    )


def _place(text: str, folder: Path) -> str:
    """Return an address as it is, and a path from the folder of the settings."""
    return text if "://" in text else str(folder / text)
