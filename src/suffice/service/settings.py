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
    """Where the service listens. Anything but loopback needs TLS or a proxy that adds it."""

    host: str = "127.0.0.1"
    port: int = 8765
    certificate: Path | None = None
    certificate_key: Path | None = None
    behind_proxy: bool = False  # which adds TLS
    proxies: str = "127.0.0.1,::1"  # only they say whose request it is (X-Forwarded-For)
    prefix: str = ""  # of the address, before /v1

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
    """How much one token may ask for, and how much may wait for an answer at the same time."""

    requests_per_minute: int = 120  # of one token, or of one address without a token
    waiting_proposals: int = 1000  # of one data set
    waiting_of_one_token: int = 100
    proposals_of_one_token: int = 2000  # at all: the service keeps them

    def __post_init__(self) -> None:
        for limit in fields(self):
            if getattr(self, limit.name) < 1:
                raise ParameterError(f"The limit {limit.name} must be a positive integer.")


@dataclass(frozen=True)
class ServedData:
    """One data set that learners may send proposals to.

    Granted by hand, the owner decides on each proposal that the policy allows; automatically, the
    policy decides alone.
    """

    table: str  # as on the command line
    label: str  # the column that holds the private labels
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
    """Everything that a service needs to know, from one TOML file."""

    organisation: str  # as learners and officers are shown it
    ledger: str  # is charged; tokens and proposals are in its database too
    key: Path  # the private key that signs releases
    datasets: Mapping[str, ServedData]  # by their name in the ledger
    server: Server = field(default_factory=Server)
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if not self.datasets:
            raise ParameterError("The settings name no data set. Add a part [datasets.NAME].")

    @classmethod
    def load(cls, folder: str | Path) -> "Settings":
        """Return the settings in ``suffice.toml`` of a folder, after checking them completely."""
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
