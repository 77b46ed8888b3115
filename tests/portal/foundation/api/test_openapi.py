"""The OpenAPI document: tidy, true to the parser, and no request made from it is answered by a 5xx."""

import json
import re

import pytest
import schemathesis
from django.db import transaction
from django.test.client import ClientHandler
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

from portal.foundation.api import throttles
from portal.foundation.api.base import ApiView
from portal.people.tenants.models import User
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.api import logs as api_logs
from portal.work.jobs.declaration.openapi import EXAMPLES
from portal.work.jobs.description import description_parse
from tests.portal.foundation.api.conftest import world_make

pytestmark = pytest.mark.django_db
EXAMPLES_EACH = 12
HANDLER = ClientHandler(enforce_csrf_checks=False)


@pytest.fixture(scope="module")
def document():
    GENERATOR_STATS.reset()
    document = SchemaGenerator().get_schema(request=None, public=True)
    assert not GENERATOR_STATS._warn_cache, GENERATOR_STATS._warn_cache
    assert not GENERATOR_STATS._error_cache, GENERATOR_STATS._error_cache
    return json.loads(json.dumps(document, default=str))


def test_the_document_is_valid_and_complete(document):
    validate_schema(document)
    ours = {path: item for path, item in document["paths"].items() if path.startswith("/api/v1")}
    assert {"/api/v1/jobs", "/api/v1/jobs/{number}/logs", "/api/v1/nodes/{name}/drain", "/api/v1/me"} <= set(ours)
    for item in ours.values():
        for operation in item.values():
            assert operation["summary"]
            assert operation["security"] == [{"token": []}, {"session": []}]
            assert {"400", "401", "403"} <= set(operation["responses"])


def test_no_description_is_a_note_for_developers(document):
    described = [item.get("description", "") for path in document["paths"].values() for item in path.values()]
    assert ApiView.__doc__ not in described
    assert re.findall(r"`(?:portal|workers|scheduler)\.[\w.]+`", json.dumps(document)) == []


def test_what_checks_and_tuning_tell_is_explained(document):
    plain = {"index", "uuid", "memory_mib", "allocated", "steps", "begun_at", "done_at"}
    for name in ("Gpu", "NodeFinding", "CoreStep", "CoreSearch"):
        fields = document["components"]["schemas"][name]["properties"].items()
        assert [field for field, schema in fields if field not in plain and not schema.get("description")] == [], name


def test_its_examples_parse():
    assert all(description_parse(example.value) for example in EXAMPLES)


def test_it_is_served_with_its_page_from_here(client, monkeypatch):
    served = client.get("/api/v1/schema")
    assert served.json()["info"]["title"] == "Berth"
    assert served.headers["Content-Type"] == "application/vnd.oai.openapi+json"
    monkeypatch.setattr(SchemaGenerator, "get_schema", None)  # whoever asks again costs nothing
    assert client.get("/api/v1/schema?version=2&lang=de").content == served.content
    page = client.get("/api/v1/docs").content.decode()
    assert "swagger-ui" in page
    assert "https://" not in page.replace("https://www.w3.org", "")


def wsgi_application(environ, start_response):
    """Django's whole stack; its test handler leaves the test's database connection open between requests."""
    response = HANDLER(environ)
    start_response(f"{response.status_code} {response.reason_phrase}", list(response.items()))
    return [response.content]


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker, document):
    """A cluster where something ran, in a transaction around those of the tests, and REST's operations on it."""
    with django_db_blocker.unblock(), transaction.atomic():
        world = world_make()
        yield world, *operations_of(world, document)
        transaction.set_rollback(True)


@pytest.fixture
def world(built, db):
    return built[0]


@pytest.fixture
def operations(built, db):
    """The REST API's operations by label, and the ids of jobs."""
    return built[1:]


def operations_of(world, document):
    ids = [world.owner.submit(gpus=2)["id"], world.outsider.submit()["id"], world.owner.submit(array={"size": 2})["id"]]
    planning_run()
    document = document | {"paths": {p: v for p, v in document["paths"].items() if p.startswith("/api/v1")}}
    schema = schemathesis.openapi.from_dict(document)
    schema.app = wsgi_application
    schema.config.base_url = None
    return {o.ok().label: o.ok() for o in schema.get_all_operations()}, ids


@pytest.fixture
def no_limits(monkeypatch):
    """As many requests as there are, and one follower of logs more than there may be: each is answered at once."""
    monkeypatch.setattr(throttles.PlanThrottle, "rate", "100000/min")
    monkeypatch.setattr(throttles.LaboratoryThrottle, "rate", "100000/min")
    monkeypatch.setattr(api_logs, "FOLLOW_PERIOD_S", 0.01)
    monkeypatch.setattr(api_logs, "MAX_FOLLOWERS", 0)
    monkeypatch.setattr(api_logs, "_followers", api_logs.threading.BoundedSemaphore(1))
    api_logs._followers.acquire()


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.name.lower())
def test_no_request_is_answered_by_a_5xx_and_answers_conform(world, operations, no_limits, subtests, mode):
    found, ids = operations
    assert len(found) > 60
    for label, operation in found.items():
        with subtests.test(label), transaction.atomic():
            cases = operation.as_strategy(generation_mode=mode)
            attempts(world, cases, [*map(str, ids), "rtx-01", "1", None], mode)()
            transaction.set_rollback(True)


def attempts(world, cases, known, mode):
    """Return a test of one operation that makes requests from its description and looks at the answers."""

    @settings(
        max_examples=EXAMPLES_EACH,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases, st.sampled_from(known))
    def attempt(case, known):
        if known and case.path_parameters and mode == schemathesis.GenerationMode.POSITIVE:
            case.path_parameters = dict.fromkeys(case.path_parameters, known)
        # What carries the requests in process undoes no compression.
        response = case.call(headers=world.operator.headers | {"Accept-Encoding": "identity"})
        case.validate_response(
            response, checks=[not_a_server_error, status_code_conformance, response_schema_conformance]
        )

    return attempt


@pytest.mark.django_db
def test_its_page_stands_in_the_frame_of_who_is_signed_in_and_without_one_for_a_stranger(client):
    assert 'class="b-topbar"' not in client.get("/api/v1/docs").content.decode()
    client.force_login(User.objects.create(username="reader"), backend="django.contrib.auth.backends.ModelBackend")
    page = client.get("/api/v1/docs").content.decode()
    assert 'class="b-topbar"' in page
    assert page.count('data-action="theme"') == 2, "the bar's and its menu's; Swagger UI brings none"
