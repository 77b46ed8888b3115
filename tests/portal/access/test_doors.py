"""Which key opens which door: tokens of users, nodes and joining machines, restricted, revoked and expired; CSRF; ids."""

import json
import re
from dataclasses import replace

import pytest
from django.test import Client
from django.utils import timezone

from portal.cluster.models import Node
from portal.cluster.services.operating import node_token_revoke
from portal.people.tenants.models import ApiToken
from portal.people.tenants.services import SCOPES, membership_remove, token_create, token_revoke, user_update
from portal.work.jobs.models import Allocation, Job
from tests.portal.access.routes import filled, path_of
from tests.portal.access.rows import AGENTS, HOLD, INVENTORY, PAGES, REST, TABLE
from tests.portal.access.world import send

pytestmark = pytest.mark.django_db

JOBS = tuple(f"{{{name}}}" for name in ("running", "waiting", "array", "held", "failed"))
BY_JOB = [row for row in TABLE if str(row.args.get("number")).startswith(JOBS)]


def with_bearer(secret, method, path, body=None):
    return send(Client(), method, path, body, {"Authorization": f"Bearer {secret}"})


def told(answer):
    """What an answer says, without what differs by request: the path asked for, and tokens against forgery."""
    text = b"".join(answer.streaming_content if answer.streaming else [answer.content]).decode()
    return (
        answer.status_code,
        answer.headers["Content-Type"],
        re.sub(r"(?i)(csrf\w*\W+(?:value\W+)?)\w{64}", r"\1", text),
    )


def masked(said, number):
    """The number that was asked for, where an answer repeats it."""
    return said[0], said[1], re.sub(rf"\b{number}\b", "N", said[2]).splitlines()


# ---- foreign, missing and malformed ids ------------------------------------------------------------------------------


def test_a_foreign_id_answers_exactly_as_a_missing_or_malformed_one(world):
    assert len(BY_JOB) > 20
    for row in BY_JOB:
        body = filled(row.body, world.names)
        foreign = told(world.ask("outsider", row.door, row.method, path_of(row, world.names), body))
        assert foreign[0] == 404, row
        for number in (world.names["missing"], "x", "-1", "0", "9" * 30, "1_1", "\u0663"):
            path = path_of(replace(row, args={**row.args, "number": str(number)}), world.names)
            assert told(world.ask("outsider", row.door, row.method, path, body)) == foreign, (row, number)


def test_what_names_a_job_in_a_body_or_query_tells_no_more(world):
    own, missing = world.names["zebra-name"], world.names["missing"]
    asks = [
        lambda n: ("GET", f"/jobs/new?from={n}", None),
        lambda n: ("GET", f"/search?q={n}", None),
        lambda n: ("POST", "/jobs/bulk", [("action", "cancel"), ("job", str(n))]),
        lambda n: ("POST", f"/account/tokens/{world.names['token'] if n == own else n}/revoke", []),
    ]
    for ask in asks:
        answers = [told(world.ask("outsider", "page", *ask(number))) for number in (own, missing)]
        assert masked(answers[0], own) == masked(answers[1], missing)
    rest = [
        lambda n: ("GET", f"/api/v1/jobs?array={n}", None),
        lambda n: ("POST", "/api/v1/jobs", {"command": "true", "depends_on": [{"job": n, "kind": "ok"}]}),
    ]
    for ask in rest:
        answers = [told(world.ask("outsider", "api", *ask(number))) for number in (own, missing)]
        assert masked(answers[0], own) == masked(answers[1], missing)


def test_a_foreign_tenant_or_owner_is_answered_as_an_unknown_one(world):
    for foreign, unknown in (("zebra-lab", "no-such-lab"), ("zebra.owner", "nobody")):
        for path in ("/api/v1/jobs?tenant={}", "/api/v1/jobs?owner={}"):
            answers = [
                told(world.ask("outsider", "api", "GET", path.format(name)))[2].replace(name, "N")
                for name in (foreign, unknown)
            ]
            assert answers[0] == answers[1]
    answers = [
        told(world.ask("outsider", "api", "POST", "/api/v1/jobs", {"command": "true", "tenant": name}))
        for name in ("zebra-lab", "no-such-lab")
    ]
    assert str(answers[0]).replace("zebra-lab", "N") == str(answers[1]).replace("no-such-lab", "N")


# ---- the wrong key ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["node", "join"])
def test_a_nodes_and_a_joining_machines_token_open_no_other_door(world, key):
    for row in [*PAGES, *REST]:
        if row.expected[-1] in {200, 503} or row.route in {"login", "logout"}:
            continue
        answer = with_bearer(world.bearers[key], row.method, path_of(row, world.names), filled(row.body, world.names))
        assert answer.status_code == row.expected[-1], row


@pytest.mark.parametrize("key", ["owner", "operator", "join"])
def test_only_node_tokens_open_the_agent_api(world, key):
    for row in AGENTS:
        if row.route in {"agent-register", "bridge-attach"} and key == "join":
            continue
        answer = with_bearer(world.bearers[key], row.method, path_of(row, world.names), filled(row.body, world.names))
        assert answer.status_code == 401, row


def test_a_join_token_registers_once_and_takes_no_living_nodes_name(world):
    taken = with_bearer(world.bearers["join"], "POST", "/api/agent/v1/register", INVENTORY)
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "name_taken")
    first = with_bearer(world.bearers["join"], "POST", "/api/agent/v1/register", INVENTORY | {"name": "new"})
    assert first.status_code == 201
    again = with_bearer(world.bearers["join"], "POST", "/api/agent/v1/register", INVENTORY | {"name": "newer"})
    assert again.status_code == 401


def test_a_browsers_session_opens_no_agent_api_and_a_token_no_page(world):
    for row in AGENTS:
        answer = world.ask("operator", "page", row.method, path_of(row, world.names), filled(row.body, world.names))
        assert answer.status_code == 401, row
    for row in PAGES:
        if row.expected[0] != 200 or row.route in {"login", "logout"}:
            continue
        answer = with_bearer(world.bearers["operator"], row.method, path_of(row, world.names))
        assert (answer.status_code, answer.url[:6]) == (302, "/login"), row


def test_another_nodes_parts_are_not_there(world):
    """docs/agent-protocol.md: 404 for its spec and logs, `unknown_part` for a report, `stop` for what it claims to hold."""
    far, names = world.bearers["far"], world.names
    assert with_bearer(far, "GET", f"/api/agent/v1/attempts/{names['attempt']}/spec").status_code == 404
    logs = f"/api/agent/v1/logs?attempt={names['attempt']}&epoch={names['epoch']}&rank=0&stream=stdout&offset=0"
    assert with_bearer(far, "POST", logs, b"forged").status_code == 404
    piece = {
        "attempt": names["attempt"],
        "epoch": names["epoch"],
        "rank": 0,
        "stream": "stdout",
        "offset": 0,
        "data": "eA==",
    }
    answer = with_bearer(far, "POST", "/api/agent/v1/logs/together", {"pieces": [piece]}).json()
    assert [each["code"] for each in answer["pieces"]] == ["unknown_part"]
    key = {"attempt": names["attempt"], "epoch": names["epoch"], "rank": 0}
    report = {**key, "sequence": 99, "state": "ended", "exit_code": 1, "reason": "exit"}
    body = filled(HOLD, names) | {"boot_id": "boot-far", "reports": [report], "holding": [key]}
    answer = with_bearer(far, "POST", "/api/agent/v1/report", body).json()
    assert (answer["accepted"], answer["leases"]) == ([], [])
    assert [entry["code"] for entry in answer["refused"]] == ["unknown_part"]
    assert answer["stop"] == [key]
    assert Allocation.objects.get(attempt__key=names["attempt"]).state == "running"
    assert Job.objects.get(pk=names["zebra-name"]).state == "RUNNING"


def test_a_foreign_attempt_tells_a_node_no_more_than_a_missing_one(world):
    paths = [f"/api/agent/v1/attempts/{attempt}/spec" for attempt in (world.names["attempt"], 10**9)]
    answers = [told(with_bearer(world.bearers["far"], "GET", path)) for path in paths]
    assert answers[0] == answers[1]


def test_a_revoked_nodes_token_opens_nothing(world):
    node_token_revoke(node=Node.objects.get(name="big"), actor=None)
    for row in AGENTS:
        answer = with_bearer(world.bearers["big"], row.method, path_of(row, world.names), filled(row.body, world.names))
        assert answer.status_code == 401, row


# ---- tokens that are worth less --------------------------------------------------------------------------------------


def rest_statuses(world, secret):
    """The answers to every row of the REST API that a good token of the owner's gets 200 for."""
    rows = [row for row in REST if row.expected[0] == 200 and row.expected[-1] == 401 and row.method == "GET"]
    return {with_bearer(secret, row.method, path_of(row, world.names)).status_code for row in rows}


def test_revoked_expired_unknown_and_inactive_users_tokens(world):
    owner = world.users["owner"]
    assert rest_statuses(world, world.bearers["owner"]) == {200}
    soon = timezone.now() + timezone.timedelta(minutes=1)
    token, secret = token_create(user=owner, name="short", scopes=["jobs:read"], expires_at=soon, actor=owner)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now())
    assert rest_statuses(world, secret) == {401}
    token, secret = token_create(user=owner, name="gone", scopes=["jobs:read"], actor=owner)
    token_revoke(token=token, actor=owner)
    assert rest_statuses(world, secret) == {401}
    assert rest_statuses(world, world.bearers["owner"][:-1]) == {401}
    assert rest_statuses(world, token.digest) == {401}  # what the database holds is no key
    user_update(user=owner, actor=None, is_active=False)
    assert rest_statuses(world, world.bearers["owner"]) == {401}
    assert world.ask("owner", "page", "GET", "/").status_code == 302


@pytest.mark.parametrize("scope", [scope for scope in SCOPES if scope != "operator"])
def test_a_token_does_what_its_scopes_say_and_no_more(world, scope):
    _, secret = token_create(user=world.users["owner"], name="narrow", scopes=[scope], actor=None)
    of_jobs = {"jobs", "job", "templates", "template", "uploads", "upload", "secrets", "secret", "members", "usage"}
    for row in REST:
        if row.expected[-1] != 401 or row.expected[0] not in {200, 201}:
            continue
        kind = row.route.split("-")[1]
        wanted = scope if kind == "me" else "cluster:read"
        if kind in of_jobs or row.method in {"PUT", "PATCH", "DELETE"}:
            wanted = "jobs:read" if row.method == "GET" else "jobs:write"
        if kind in {"simulations", "simulation", "traces", "trace"}:
            wanted = "simulations:read" if row.method == "GET" else "simulations:write"
        answer = world_ask(secret, row, world)
        assert (answer.status_code == 403) == (wanted != scope), row
        if wanted != scope:
            assert answer.json()["error"]["code"] == "missing_scope"


def world_ask(secret, row, world):
    from tests.portal.access.world import savepoint

    return savepoint(lambda: with_bearer(secret, row.method, path_of(row, world.names), filled(row.body, world.names)))


def test_an_operators_token_without_that_scope_operates_nothing(world):
    _, secret = token_create(user=world.users["operator"], name="reader", scopes=["cluster:read"], actor=None)
    answer = with_bearer(secret, "POST", "/api/v1/nodes/big/drain", {"reason": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "missing_scope")


def test_an_operator_no_longer_loses_what_the_token_could(world):
    from portal.people.tenants.services import user_create

    user_create(username="other.operator", password="correct horse battery", is_operator=True)
    user_update(user=world.users["operator"], actor=None, is_operator=False)
    answer = with_bearer(world.bearers["operator"], "POST", "/api/v1/nodes/big/drain", {"reason": "x"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "operator_only")
    path = f"/api/v1/jobs/{world.names['zebra-name']}"
    assert with_bearer(world.bearers["operator"], "GET", path).status_code == 404


def test_a_token_restricted_to_a_tenant_shows_and_does_nothing_of_the_users_other_ones(world):
    """The operator sees all tenants; a token of the operator's for `speech` sees that one."""
    speech = world.users["outsider"].tenants.get()
    scopes = ["jobs:read", "jobs:write", "cluster:read"]
    _, secret = token_create(user=world.users["operator"], name="ci", scopes=scopes, tenant=speech, actor=None)
    for row in BY_JOB:
        if row.door == "api":
            assert world_ask(secret, row, world).status_code == 404, row
    body = {"command": "true", "tenant": "zebra-lab"}
    assert 400 <= with_bearer(secret, "POST", "/api/v1/jobs", body).status_code < 404
    for path in ("/api/v1/jobs", "/api/v1/me", "/api/v1/nodes/big", f"/api/v1/plannings/{world.names['planning']}"):
        answer = with_bearer(secret, "GET", path)
        assert answer.status_code == 200
        assert "zebra" not in json.dumps(answer.json()), path


def test_who_leaves_a_tenant_sees_nothing_more_of_it(world):
    lab = world.users["teammate"].tenants.get()
    membership_remove(user=world.users["teammate"], tenant=lab, actor=None)
    path = f"/api/v1/jobs/{world.names['zebra-name']}"
    assert with_bearer(world.bearers["teammate"], "GET", path).status_code == 404
    assert world.ask("teammate", "page", "GET", f"/jobs/{world.names['zebra-name']}/").status_code == 404


# ---- forged requests of a signed-in browser --------------------------------------------------------------------------


def test_a_session_without_the_csrf_token_changes_nothing(world):
    client = Client(enforce_csrf_checks=True)
    client.cookies.update(world.clients["operator"].cookies)
    before = list(Job.objects.order_by("pk").values_list("pk", "state", "priority"))
    for row in [*PAGES, *REST]:
        if row.method == "GET":
            continue
        answer = send(client, row.method, path_of(row, world.names), filled(row.body, world.names))
        assert answer.status_code == 403, row
    assert list(Job.objects.order_by("pk").values_list("pk", "state", "priority")) == before
    assert Node.objects.get(name="big").drained_at is None


def test_a_csrf_token_from_another_origin_is_refused(world):
    client = Client(enforce_csrf_checks=True)
    client.cookies.update(world.clients["owner"].cookies)
    client.get("/jobs/new")
    path = f"/jobs/{world.names['zebra-name']}/cancel"
    headers = {"X-CSRFToken": client.cookies["csrftoken"].value}
    assert send(client, "POST", path, [], headers | {"Origin": "https://evil.example"}).status_code == 403
    assert send(client, "POST", path, [], headers | {"Origin": "http://testserver"}).status_code == 302
