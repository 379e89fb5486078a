"""What a service serves: one TOML file, checked completely before anything listens."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from suffice import strict_json
from suffice.errors import ParameterError, StorageError
from suffice.owner.ledger.tokens import SIGNED_IN, Role
from suffice.owner.policy import Policy
from suffice.privacy.guarantee import Budget, Unit
from suffice.releases.file import read_bounded
from suffice.tables.columns import Classes
from suffice.tables.data_sheet import DataSheet
from suffice.tables.files import TableFile

FILE_NAME = "suffice.toml"
_MOST_BYTES = 2**20
_LOOPBACK = ("127.0.0.1", "::1", "localhost")

EXAMPLE = """\
# The settings of `suffice serve`. Paths are relative to the folder of this file.

# What learners and officers are told about who you are.
organisation = "Clinic of Example"
# Every release is charged to this ledger. Set budgets in it on the pages, or with `suffice ledger
# init`.
# Several servers can share one in a database: "postgresql://HOST/DATABASE".
ledger = "clinic.ledger"
# Signs every release. Several servers need the same key.
key = "clinic.key"
# People answer surveys here (`suffice survey open`). Their answers have a file of their own, or
# a schema of their own: "postgresql://HOST/DATABASE#answers".
answers = "clinic.answers"
# Parties send contributions to rounds here (`suffice round open`), in a place like that.
rounds = "clinic.rounds"

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

[operation]
# Counts for Prometheus at /metrics, and at /ready what fails. On this machine, or at a host of a
# private network: no token is asked there.
# port = 8766
# The log on stderr: one JSON object a line, or text.
log = "json"
# Is sent an empty POST when a proposal begins to wait for you.
# webhook = "https://chat.example/hook"

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
# The data sheet: columns, ranges, categories and classes, as docs/service.md has it. Learners see
# it. Releases of private records need one.
# sheet = "columns.json"
# How a CSV file is written, where its first line and public columns do not say it.
# read = { delimiter = ";", decimal = ",", encoding = "latin-1" }
# by-hand: you decide on each proposal. automatic: the policy decides.
grants = "by-hand"
# Two owners of [sign_in] have to agree to each grant and each budget. No token agrees.
# approvers = 2
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
class Operation:
    """What whoever runs the service is told, and where.

    Whoever reaches the address reads counts, durations and failures, so it is one of this machine
    or of a private network. Port 0 opens none.
    """

    host: str = "127.0.0.1"
    port: int = 0
    log: Literal["json", "text"] = "json"
    webhook: str | None = None

    def __post_init__(self) -> None:
        try:
            where = ip_address("127.0.0.1" if self.host == "localhost" else self.host)
        except ValueError:
            where = None
        if where is None or where.is_unspecified or not where.is_private:
            raise ParameterError(
                "The host of operation must be an address of this machine or of a private network:"
                " no token is asked there."
            )
        if not 0 <= self.port < 2**16:
            raise ParameterError("The port of operation must be a number from 0 to 65535.")
        if self.webhook is not None:
            check_secure("The webhook", self.webhook)


def check_secure(what: str, address: str) -> None:
    """Raise unless an address that the service asks has TLS, or is on this machine."""
    parts = urlsplit(address)
    on_loopback = parts.scheme == "http" and parts.hostname in _LOOPBACK
    if parts.scheme != "https" and not on_loopback:
        raise ParameterError(f"{what} must begin with https://, unless it is on this machine.")


@dataclass(frozen=True)
class Person:
    """Somebody who signs in at the provider, known by issuer and subject alone."""

    issuer: str
    subject: str  # as the provider calls this person for ever; never an e-mail address
    name: str  # for the log, in the owner's words
    role: Role
    scope: tuple[str, ...] = ()  # the data sets that the person sees; empty for all

    def __post_init__(self) -> None:
        if self.role not in (Role.OWNER, Role.OFFICER, Role.ORGANISER):
            raise ParameterError("A person who signs in must be an owner, officer or organiser.")
        for what in ("issuer", "subject", "name"):
            text = getattr(self, what)
            if not text or not text.isprintable():
                raise ParameterError(f"The {what} of a person who signs in must be a line of text.")
        if len(self.holder) > 200:  # letters of a token's holder
            raise ParameterError("Issuer, subject and name of a person must be shorter.")

    @property
    def holder(self) -> str:
        """Who holds the tokens that this person's sign-ins make, as log and pages say it."""
        return f"{SIGNED_IN}{self.name}{self.identity}"

    @property
    def identity(self) -> str:
        """How a holder ends that is this person, whatever the name was in earlier settings."""
        return f", {self.subject} of {self.issuer}"


@dataclass(frozen=True)
class SignIn:
    """A provider of OpenID Connect, and who may come from there."""

    issuer: str
    client_id: str
    address: str  # where readers reach the service, with its prefix
    people: tuple[Person, ...]
    client_secret: Path | None = None  # a file

    def __post_init__(self) -> None:
        check_secure("The issuer of sign_in", self.issuer)
        check_secure("The address of sign_in", self.address)
        if self.address.endswith("/"):
            raise ParameterError("The address of sign_in must not end in a slash.")
        if self.client_secret is not None and not self.client_secret.name:
            raise ParameterError("The client_secret of sign_in must be the name of a file.")

    def secret(self) -> str | None:
        """Return what the service proves itself with to the provider, if anything."""
        if self.client_secret is None:
            return None
        return read_bounded(self.client_secret, _MOST_BYTES).decode().strip()


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
    sheet: DataSheet | None = None  # all that learners see of private records
    approvers: Literal[1, 2] = 1  # people who have to agree to a grant
    budget: Budget | None = None  # of all releases, while the ledger has none for the data set
    # How a CSV file is written; a decimal mark "" is one that the owner still has to state.
    read: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.read.keys() <= {"delimiter", "decimal", "encoding"}:
            raise ParameterError("A table is read with a delimiter, a decimal mark or an encoding.")
        if self.approvers == 2 and self.grants == "automatic":
            raise ParameterError("A data set with two approvers is granted by hand.")
        if self.policy.features is None and self.sheet is None:
            raise ParameterError(
                "The policy of a served data set must name its features: the columns that are"
                " public. Or give the data set a sheet."
            )
        if self.sheet is not None and self.sheet.label != self.label:
            raise ParameterError("The label of a data sheet must be that of its data set.")

    @property
    def file(self) -> TableFile:
        """The table, as it is written."""
        if self.read.get("decimal") == "":
            raise ParameterError(
                f'State the decimal mark of {self.table} in {FILE_NAME}: read = {{ decimal = "," }}'
                ' or ".". suffice never reads it from private cells.'
            )
        return TableFile(self.table, **self.read)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that a proposal may name: those of the sheet, or of the policy."""
        return tuple(self.policy.features or ()) if self.sheet is None else self.sheet.features

    @property
    def unit(self) -> Unit:
        """What a budget must be about, so that every kind that is granted can be charged to it."""
        from suffice.protocol.grant import protected_unit

        units = {protected_unit(kind, self.policy) for kind in self.policy.kinds}
        return next(unit for unit in units if all(wide.covers(unit) for wide in units))

    @property
    def classes(self) -> Classes | None:
        """The classes that policy or sheet state, for the ledger to declare; None if neither."""
        stated = None if self.sheet is None else self.sheet.classes
        return self.policy.classes or stated


@dataclass(frozen=True)
class Settings:
    """Everything that a service needs to know, from one TOML file."""

    organisation: str  # as learners and officers are shown it
    ledger: str  # is charged; tokens and proposals are in its database too
    key: Path  # the private key that signs releases
    datasets: Mapping[str, ServedData] = field(default_factory=dict)  # by name in the ledger
    answers: str | None = None  # where people's answers to surveys are; without it, nobody answers
    rounds: str | None = None  # where contributions of parties are; without it, nobody contributes
    server: Server = field(default_factory=Server)
    operation: Operation = field(default_factory=Operation)
    limits: Limits = field(default_factory=Limits)
    sign_in: SignIn | None = None  # owners and officers sign in with tokens

    def __post_init__(self) -> None:
        if not self.datasets and self.answers is None and self.rounds is None:
            raise ParameterError("The settings name no data set. Add a part [datasets.NAME].")
        for name, served in self.datasets.items():
            if served.approvers > 1 and served.approvers > len(self.owners(name)):
                raise ParameterError(
                    f"Data set {name!r} needs two approvers. Name two owners in sign_in.people."
                )

    def owners(self, dataset: str) -> set[tuple[str, str]]:
        """Return the owners of a data set who can sign in, by issuer and subject."""
        people = () if self.sign_in is None else self.sign_in.people
        return {
            (p.issuer, p.subject)
            for p in people
            if p.role is Role.OWNER and (not p.scope or dataset in p.scope)
        }

    @classmethod
    def load(cls, folder: str | Path) -> "Settings":
        """Return the settings in ``suffice.toml`` of a folder, after checking them completely."""
        folder = Path(folder)
        path = folder / FILE_NAME
        if not path.is_file():
            raise StorageError(
                f"{path} does not exist. Write it first; `suffice serve --task example` prints one."
            )
        try:
            data = tomllib.loads(read_bounded(path, _MOST_BYTES).decode())
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ParameterError(f"{path} is not TOML: {error}.") from None
        datasets = data.get("datasets")
        for served in datasets.values() if isinstance(datasets, dict) else ():
            if isinstance(served, dict) and isinstance(served.get("sheet"), str):
                sheet = read_bounded(folder / served["sheet"], _MOST_BYTES)
                served["sheet"] = strict_json.parse(sheet)  # its content is read with the rest
        settings = strict_json.read(
            cls, data, f"file {FILE_NAME}", defaults=True, error=ParameterError
        )
        server = settings.server
        certificate, key = server.certificate, server.certificate_key
        sign_in = settings.sign_in
        if sign_in is not None and sign_in.client_secret is not None:
            sign_in = replace(sign_in, client_secret=folder / sign_in.client_secret)
        return replace(
            settings,
            ledger=_place(settings.ledger, folder),
            key=folder / settings.key,
            answers=settings.answers and _place(settings.answers, folder),
            rounds=settings.rounds and _place(settings.rounds, folder),
            datasets={
                name: replace(served, table=_place(served.table, folder))
                for name, served in settings.datasets.items()
            },
            server=replace(
                server,
                certificate=certificate and folder / certificate,
                certificate_key=key and folder / key,
            ),
            sign_in=sign_in,
        )


def _place(text: str, folder: Path) -> str:
    """Return an address as it is, and a path from the folder of the settings."""
    return text if "://" in text else str(folder / text)
