"""The shapes of what the routes under /v1 take and return, as /openapi.json states them."""

from http import HTTPStatus
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from suffice.owner.ledger.tokens import Role
from suffice.transport.http.problems import problem_responses

__all__ = [
    "CHOICE_BODY",
    "FAILURES",
    "FAILURES_OF_BODIES",
    "PROPOSAL_BODY",
    "TOKEN_BODY",
    "WAITING",
    "AnswerDocument",
    "BalanceDocument",
    "ComparisonDocument",
    "DataDocument",
    "EntryDocument",
    "FiledDocument",
    "HealthDocument",
    "MintedDocument",
    "PolicyDocument",
    "RowsDocument",
    "TermsDocument",
    "TokenDocument",
]

_DIGEST = "^sha256:[0-9a-f]{64}$"
Moment = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
Day = Annotated[str, Field(json_schema_extra={"format": "date"})]
DigestText = Annotated[str, Field(pattern=_DIGEST)]
FAILURES = problem_responses(
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
FAILURES_OF_BODIES = problem_responses(
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class HealthDocument(_Document):
    """That the service is up."""

    status: Literal["ok"]
    version: str


class PolicyDocument(_Document):
    """What an owner grants, request by request."""

    largest_epsilon: float
    largest_delta: float
    mechanisms: list[str]
    kinds: list[str]
    features: list[str]
    least_rows: int
    maps: bool
    most_coordinates: int
    classes: None


class DataDocument(_Document):
    """A data set, and what a learner needs to know before it proposes."""

    name: str
    organisation: str
    label: str
    classes: list[str | int]
    grants: Literal["by-hand", "automatic"]
    policy: PolicyDocument
    largest_epsilon: float


class BalanceDocument(_Document):
    """One budget of a data set."""

    unit: str
    epsilon: float
    delta: float
    spent: float
    left: float
    charges: int


class FiledDocument(_Document):
    """A proposal that arrived, and what became of it."""

    dataset: str
    proposal: DigestText
    received: Moment
    state: Literal["received", "waiting", "approved", "granted", "countered", "refused"]
    purpose: str


class TokenDocument(_Document):
    """A token, without its secret."""

    id: str
    role: Role
    scope: list[str]
    holder: str
    made: Moment
    expires: Moment
    revoked: Moment | None
    used: Day | None


class MintedDocument(TokenDocument):
    """A new token, with the text that its holder gets."""

    token: str


class EntryDocument(_Document):
    """An entry of the audit log; a token for some data sets is shown no digest."""

    number: int
    time: str
    kind: str
    digest: str | None
    facts: dict[str, Any]


class ComparisonDocument(_Document):
    """What became of an older checkpoint."""

    verdict: Literal["agrees", "lost", "altered", "another-ledger"]
    agrees: bool
    words: list[str]
    entries: int | None
    head: str | None
    frozen: str | None
    checkpoint_key: str
    service_key: str


class TermsDocument(_Document):
    """Epsilon, delta and mechanism."""

    epsilon: float
    delta: float
    mechanism: str


class RowsDocument(_Document):
    """The number of rows, and their hash."""

    count: int
    hash: str


def _answer(name: str, **fields: Any) -> type[BaseModel]:
    """Return the shape of a message of this name."""
    common: dict[str, Any] = {
        "message": (Literal[name], ...),
        "version": (Literal[1], ...),
        "digest": (DigestText, ...),
    }
    return create_model(f"{name.title()}Document", __base__=_Document, **common, **fields)


GrantedDocument = _answer("granted", proposal=(DigestText, ...), release=(DigestText, ...))
CounteredDocument = _answer(
    "countered", proposal=(DigestText, ...), terms=(TermsDocument, ...), reasons=(list[str], ...)
)
RefusedDocument = _answer("refused", proposal=(DigestText, ...), reasons=(list[str], ...))
AnswerDocument: Any = GrantedDocument | CounteredDocument | RefusedDocument
ProposalDocument = _answer(
    "proposal",
    kind=(str, ...),
    terms=(TermsDocument, ...),
    rows=(RowsDocument, ...),
    features=(list[str], ...),
    classes=(list[str | int | float | bool], ...),
    map=(str | None, ...),
    missing=(str, ...),
    pipeline=(DigestText | None, ...),
    purpose=(Annotated[str, Field(max_length=1000)], ...),
)
WAITING: dict[int | str, dict[str, Any]] = {
    202: {
        "model": FiledDocument,
        "description": "There is no answer yet.",
        "headers": {"Retry-After": {"schema": {"type": "integer"}, "required": True}},
    }
}


class _TokenWish(_Document):
    role: Role
    scope: list[str] = []
    holder: Annotated[str, Field(max_length=200)] = ""
    days: Annotated[int, Field(ge=1, le=3660)] = 90


class _Grant(_Document):
    grant: Literal[True]


class _Refusal(_Document):
    grant: Literal[False]
    reason: Annotated[str, Field(max_length=1000)]


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}


def _inlined(kind: type[BaseModel]) -> dict[str, Any]:
    """Return a JSON schema without references, which could not stand in the middle of another."""
    schema = kind.model_json_schema()
    parts = schema.pop("$defs", {})

    def resolve(value: Any) -> Any:
        if isinstance(value, dict):
            if "$ref" in value:
                return resolve(parts[value["$ref"].rpartition("/")[2]])
            return {name: resolve(item) for name, item in value.items()}
        return [resolve(item) for item in value] if isinstance(value, list) else value

    return dict(resolve(schema))


PROPOSAL_BODY = _body(_inlined(ProposalDocument))
TOKEN_BODY = _body(_inlined(_TokenWish))
CHOICE_BODY = _body({"oneOf": [_inlined(_Grant), _inlined(_Refusal)]})
