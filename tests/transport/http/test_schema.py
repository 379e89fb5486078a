"""schemathesis against a real server: no failure of the service, and every answer as it is stated.

Whether a body that fits its schema is accepted is not checked: a schema can state neither digests
nor printable lines.
"""

from dataclasses import replace

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from parties import clinic_of_all
from people import SURVEY
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from served import Clinic, running

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
]
CALLERS = ["owner", "officer", "learner", "north", "nobody"]  # north is a party of the round
PEOPLE = "/v1/surveys/"  # who answers has no token
EXAMPLES, MANY_EXAMPLES = 3, 150  # of each route, right and wrong
DATASETS = ("diagnosis", "smoker")

pytestmark = pytest.mark.filterwarnings("ignore")  # of schemathesis, about itself


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return clinic_of_all(tmp_path_factory.mktemp("schema") / "clinic")


@pytest.fixture(scope="module")
def clinic(whole) -> Clinic:
    return whole.clinic


@pytest.fixture(scope="module")
def url(clinic):
    with running(clinic) as (address, _):
        yield address


@pytest.fixture(scope="module")
def proposals(clinic):
    """Return proposals that can be granted, countered and refused."""
    good = clinic.proposal("a study")
    alike = [replace(good, purpose=f"study {k}") for k in range(8)]
    return [*alike, clinic.proposal(epsilon=4.0), replace(good, features=("diagnosis",))]


def fuzz(whole, url: str, proposals: list, caller: str, examples: int) -> set[int]:
    """Send cases of every route, fitting and not, with one token; return the statuses."""
    schema = schemathesis.openapi.from_dict(httpx.get(f"{url}/openapi.json").json())
    token = {**whole.clinic.tokens, **whole.tokens}.get(caller)
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    statuses: set[int] = set()
    with requests.Session() as session:

        def send(case) -> None:
            response = case.call(base_url=url, session=session, headers=headers)
            statuses.add(response.status_code)
            case.validate_response(response, checks=CHECKS)

        for result in schema.get_all_operations():
            operation = result.ok()
            there = [(proposal.digest, proposal.to_json()) for proposal in proposals]
            for part, digest in (("/v1/rounds/", whole.made.id), (PEOPLE, SURVEY.id)):
                there = [(digest, None)] if operation.path.startswith(part) else there
            attack(operation, GenerationMode.POSITIVE, send, there, examples)
            if "{" in operation.path or operation.method == "post":  # something can be wrong
                attack(operation, GenerationMode.NEGATIVE, send, there, examples)
    return statuses


def attack(operation, mode, send, there: list, examples: int) -> None:
    @settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(generation_mode=mode),
        dataset=st.sampled_from(DATASETS),
        known=st.sampled_from(there),
        real=st.integers(0, 3),
    )
    def run(case, dataset, known, real) -> None:
        if mode is GenerationMode.POSITIVE and real:  # most cases are about what is there
            actual = {"dataset": dataset, "digest": known[0]}
            names = case.path_parameters or {}
            case.path_parameters = {name: actual.get(name, names[name]) for name in names}
            if operation.method == "post" and operation.path.endswith("/proposals"):
                case.body = known[1]
        send(case)

    run()


@pytest.mark.parametrize("caller", CALLERS)
def test_answers_are_what_the_schema_says(whole, url, proposals, caller):
    statuses = fuzz(whole, url, proposals, caller, EXAMPLES)
    expected = {"owner": {422}, "officer": {403}, "learner": {403, 422}, "nobody": {401}}
    expected["north"] = {403, 422}
    assert statuses >= {200} | expected[caller]


@pytest.mark.audit
@pytest.mark.parametrize("caller", CALLERS)
def test_many_answers_are_what_the_schema_says(whole, url, proposals, caller):
    fuzz(whole, url, proposals, caller, MANY_EXAMPLES)


def test_the_document_states_tokens_problems_and_lengths(url):
    document = httpx.get(f"{url}/openapi.json").json()
    assert document["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path in {"/health", "/ready"} or path.startswith(PEOPLE):
                continue
            assert operation["security"] == [{"HTTPBearer": []}]
            responses = operation["responses"]
            failures = {"401", "403", "404", "422", "429", "503"}
            if method == "post":
                failures |= {"400", "408", "409", "413", "415"}
                ((kind, body),) = operation["requestBody"]["content"].items()
                shapes = body["schema"].get("anyOf", [body["schema"]])
                if path.endswith("/log/verify"):  # the lines of a checkpoint
                    assert (kind, shapes) == ("text/plain", [{"type": "string", "maxLength": 4096}])
                else:
                    assert kind == "application/json"
                    assert all(shape["additionalProperties"] is False for shape in shapes)
            assert failures <= responses.keys()
            for status in failures:
                assert set(responses[status]["content"]) == {"application/problem+json"}
            assert "Retry-After" in responses["429"]["headers"]


def test_every_method_of_a_path_is_named_where_another_is_refused(url):
    for path, methods in httpx.get(f"{url}/openapi.json").json()["paths"].items():
        place = path.format(dataset="diagnosis", digest="sha256:" + "0" * 64, identity="a")
        response = httpx.patch(f"{url}{place}")
        assert response.status_code == 405
        assert response.headers["content-type"] == "application/problem+json"
        allowed = set(response.headers["allow"].split(", "))
        assert allowed == {method.upper() for method in methods}, path
