"""The laboratory over REST: from the order to the figures, refusals that change nothing, and each reader's view."""

import csv
import io
import json

import pytest
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.foundation.api.throttles import LaboratoryThrottle
from portal.pages.laboratory.models import LabTrace, Simulation
from portal.pages.laboratory.run.worker import simulation_next
from portal.pages.laboratory.services import owned_share
from portal.pages.laboratory.tasks import work
from portal.people.tenants.models import AuditEvent
from portal.people.tenants.services import membership_add, token_create
from portal.planning.rounds.models import OperatorSetting
from tests.portal import given
from tests.portal.foundation.api.conftest import Caller, refusal, world  # noqa: F401 - the fixture
from tests.portal.pages.laboratory.lab import CLUSTER, TRACE, order, simulated, trace, trace_csv
from tests.portal.pages.laboratory.test_running import timeless

pytestmark = pytest.mark.django_db
SCOPES = ("simulations:read", "simulations:write")
ASKED = {"name": "what if", "generator": "hops-64", "jobs": 3, "cluster": "own", "policies": ["fifo", "drf"]}
UPLOAD = "application/octet-stream"


@pytest.fixture(autouse=True)
def fresh_counts():
    cache.clear()


@pytest.fixture
def call(world):  # noqa: F811
    """A caller by user name, with the laboratory's scopes."""

    def caller(name, **more):
        return world.caller(name, scopes=SCOPES, **more)

    return caller


@pytest.fixture
def lena(call):
    return call("lena")


def ask(caller, status=201, *, headers=None, **fields):
    answer = caller("POST", "/simulations", ASKED | fields, headers=headers)
    assert answer.status_code == status, answer.content
    return answer.json()


def upload(caller, content=TRACE, **query):
    query = {"name": "last week", "format": "berth-csv"} | query
    path = "/simulations/traces?" + "&".join(f"{name}={value}" for name, value in query.items())
    return caller("POST", path, raw=content, content_type=UPLOAD)


def counts():
    return (
        LabTrace.objects.count(),
        Simulation.objects.count(),
        AuditEvent.objects.exclude(action="token.create").count(),
    )


# ---- from the order to the figures -----------------------------------------------------------------------------------


def test_the_same_order_by_page_and_by_rest_gives_the_same_figures(world, lena):  # noqa: F811
    made = ask(lena, knobs={"lambda": 2, "sigma": 1.4}, seed=3)
    assert (made["state"], made["progress"], made["ahead"]) == ("QUEUED", {"fifo": 0.0, "drf": 0.0}, 0)
    assert work() == made["id"], "the laboratory worker's own task"
    browser = Client()
    browser.force_login(world.users["lena"], backend="django.contrib.auth.backends.ModelBackend")
    form = {"name": "what if", "source": "generator:hops-64", "jobs": "3", "cluster": "own", "seed": "3"}
    browser.post(reverse("laboratory-new"), form | {"policies": ["fifo", "drf"], "knob_lambda": "2"})
    work()
    by_rest = lena("GET", f"/simulations/{made['id']}").json()
    by_page = Simulation.objects.first()
    assert by_rest["state"] == "COMPLETED"
    assert by_rest["knobs"] == by_page.knobs == {"lambda": 2.0}
    assert list(by_rest["figures"]) == ["fifo", "drf"]
    for policy, figures in by_rest["figures"].items():
        assert figures["mean_jct_h"] > 0
        assert timeless(figures) == timeless(by_page.figures[policy])


def test_a_trace_on_a_described_cluster(lena):
    kept = upload(lena)
    assert kept.status_code == 201, kept.content
    checked = kept.json()
    assert kept.headers["Location"] == checked["url"]
    assert (checked["jobs"], checked["span_s"], checked["size_bytes"]) == (4, 30.0, len(TRACE))
    assert (checked["format"], checked["origin"], checked["tenant"]) == ("berth-csv", "upload", "vision-lab")
    as_object = {"nodes": [{"count": 2, "gpu_type": "A100", "gpus": 4, "cores": 16, "memory_gib": 64}]}
    found = []
    for description in (CLUSTER, as_object):
        fields = {"trace": checked["id"], "generator": None, "jobs": None, "cluster": None, "description": description}
        made = ask(lena, **fields)
        assert (made["nodes"], made["gpus"], made["jobs"]) == (2, 8, 4)
        simulation_next()
        found.append(lena("GET", f"/simulations/{made['id']}").json()["figures"]["fifo"])
    assert set(found[0]["tenants"]) == {"vision", "speech"}
    assert timeless(found[0]) == timeless(found[1])


def test_the_report_is_that_of_the_page_and_of_the_command(world, lena):  # noqa: F811
    made = ask(lena)
    refusal(lena("GET", f"/simulations/{made['id']}/report"), 409, "not_completed")
    simulation_next()
    answer = lena("GET", f"/simulations/{made['id']}/report")
    assert answer.headers["Content-Type"] == "application/json"
    report = answer.json()
    assert (report["trace"], report["gpus"], report["until_h"]) == ("hops-64, seed 1", 64, None)
    assert report["policies"] == lena("GET", f"/simulations/{made['id']}").json()["figures"]
    assert set(report["curves"]) == {"fifo", "drf"}
    browser = Client()
    browser.force_login(world.users["lena"], backend="django.contrib.auth.backends.ModelBackend")
    assert browser.get(reverse("laboratory-answer", args=[made["id"]])).json() == report
    text = lena("GET", f"/simulations/{made['id']}/report?format=csv")
    assert text.headers["Content-Type"] == "text/csv"
    rows = list(csv.DictReader(io.StringIO(text.content.decode())))
    whole = {row["policy"]: float(row["mean_jct_h"]) for row in rows if not row["tenant"]}
    assert whole == {name: figures["mean_jct_h"] for name, figures in report["policies"].items()}
    refusal(lena("GET", f"/simulations/{made['id']}/report?format=pdf"), 400, "invalid_choice", "format")


def test_the_command_prints_the_same_report(lena, capsys):
    made = ask(lena, knobs={"lambda": 2}, seed=4, until_h=30)
    simulation_next()
    report = lena("GET", f"/simulations/{made['id']}/report").json()
    options = {"option": ["jobs=3"], "knob": ["lambda=2"], "seed": 4, "until": 30.0, "policy": "fifo,drf"}
    call_command("simulate", generator="hops-64", processes=1, json=True, **options)
    printed = json.loads(capsys.readouterr().out)
    for each in (report, printed):
        for part in ("policies", "curves"):
            each[part] = {name: timeless(figures) for name, figures in each[part].items()}
    assert report == printed


def test_this_cluster_is_frozen_as_it_is(lena):
    made = ask(lena, cluster="here")
    assert (made["cluster"], made["nodes"], made["gpus"]) == ("this cluster", 3, 8)
    given.node_make("later", gpus=4)
    assert lena("GET", f"/simulations/{made['id']}").json()["nodes"] == 3


def test_cancel_delete_and_what_stands_ahead(lena):
    first, second = ask(lena), ask(lena)
    assert second["ahead"] == 1
    cancelled = lena("POST", f"/simulations/{first['id']}/cancel").json()
    assert (cancelled["state"], cancelled["figures"]) == ("CANCELLED", {})
    refusal(lena("POST", f"/simulations/{first['id']}/cancel"), 409, "terminal_state")
    refusal(lena("DELETE", f"/simulations/{second['id']}"), 409, "in_use")
    assert lena("DELETE", f"/simulations/{first['id']}").status_code == 204
    refusal(lena("GET", f"/simulations/{first['id']}"), 404, "not_found")
    assert AuditEvent.objects.filter(action="simulation.cancel").count() == 1


def test_a_failed_one_says_why(lena):
    OperatorSetting.objects.create(name="laboratory_minutes", value=1)
    made = ask(lena)
    Simulation.objects.filter(pk=made["id"]).update(generator="gone")
    simulation_next()
    Simulation.objects.filter(pk=made["id"]).update(generator="hops-64")
    found = lena("GET", f"/simulations/{made['id']}").json()
    assert found["state"] == "FAILED"
    assert "gone" in found["error"]
    assert "FAILED" in refusal(lena("GET", f"/simulations/{made['id']}/report"), 409, "not_completed")["detail"]


def test_sent_again_with_its_key_it_is_one(lena):
    OperatorSetting.objects.create(name="laboratory_queue", value=1)
    key = {"Idempotency-Key": "7f3c"}
    first, again = ask(lena, headers=key), ask(lena, headers=key)
    assert again["id"] == first["id"]
    assert Simulation.objects.count() == 1
    other = lena("POST", "/simulations", ASKED | {"seed": 2}, headers=key)
    refusal(other, 409, "idempotency_conflict", "Idempotency-Key")


def test_lists_are_filtered_ordered_and_paged(lena):
    made = [ask(lena, name=f"run {n}")["id"] for n in range(3)]
    lena("POST", f"/simulations/{made[0]}/cancel")
    page = lena.get("/simulations", page_size=2).json()
    assert (page["count"], [row["id"] for row in page["results"]]) == (3, made[:0:-1])
    assert "figures" not in page["results"][0]
    assert [row["id"] for row in lena.get("/simulations", state="CANCELLED").json()["results"]] == [made[0]]
    assert lena.get("/simulations", name="run 2", owner="lena", tenant="vision-lab").json()["count"] == 1
    assert [row["id"] for row in lena.get("/simulations", ordering="name").json()["results"]] == made
    refusal(lena.get("/simulations", state="DANCING"), 400, "invalid_choice", "state")
    upload(lena)
    assert lena.get("/simulations/traces", format="berth-csv", origin="upload").json()["count"] == 1
    assert lena.get("/simulations/traces", origin="history").json()["count"] == 0


def test_a_list_costs_as_many_queries_for_many_as_for_one(lena, django_assert_num_queries):
    own = upload(lena).json()["id"]
    fields = {"trace": own, "generator": None, "jobs": None, "cluster": "here"}
    ask(lena, **fields)
    with CaptureQueriesContext(connection) as queries:
        lena.get("/simulations")
    alone = len(queries)
    for _ in range(4):
        ask(lena, **fields)
    with django_assert_num_queries(alone):
        assert len(lena.get("/simulations").json()["results"]) == 5


# ---- refusals --------------------------------------------------------------------------------------------------------

WRONG = [
    ({"name": None}, "name", "1 to 100"),
    ({"name": 5}, "name", "must be text"),
    ({"policies": None}, "policies", "Choose 1 to"),
    ({"policies": "fifo"}, "policies", "must be a list"),
    ({"policies": ["lottery"]}, "policies", "lottery"),
    ({"jobs": "many"}, "jobs", "whole number"),
    ({"jobs": 10**9}, "jobs", "a whole number from 1 to 20000"),
    ({"generator": "dice"}, "generator", "hops-64"),
    ({"generator": None, "jobs": None}, "generator", "Choose a trace"),
    ({"generator": None, "jobs": None, "trace": 987654321}, "trace", "No such trace"),
    ({"trace": "last week"}, "trace", "whole number"),
    ({"cluster": "mars"}, "cluster", "Choose here, own or described"),
    ({"cluster": "described"}, "cluster", "not a mapping"),
    ({"cluster": "described", "description": "nodes: 3"}, "cluster", "not a list"),
    (
        {"cluster": "described", "description": {"nodes": [{"count": 3000, "cores": 1, "memory_gib": 1}]}},
        "cluster",
        "3000 nodes; the laboratory takes at most 2000",
    ),
    ({"description": CLUSTER}, "description", "goes with `cluster` 'described'"),
    ({"knobs": {"lambda": 7}}, "knobs", "outside 0 to 4"),
    ({"knobs": {"colour": 1}}, "knobs", "No knob 'colour'"),
    ({"knobs": {"lambda": 10**400}}, "knobs", "too large"),
    ({"knobs": {"lambda": True}}, "knobs", "not a finite number"),
    ({"knobs": [1]}, "knobs", "must be an object"),
    ({"seed": -1}, "seed", "whole number from 0"),
    ({"until_h": 0}, "until_h", "above 0"),
    ({"until_h": "soon"}, "until_h", "must be a number"),
    ({"tenant": "speech-lab"}, "tenant", "Choose one of your tenants: vision-lab"),
    ({"colour": "red"}, "colour", "it knows name"),
]


def test_what_cannot_be_simulated_is_refused_with_its_field(lena, subtests):
    for fields, field, words in WRONG:
        with subtests.test(fields=fields):
            before = counts()
            answer = lena("POST", "/simulations", ASKED | fields)
            assert words in refusal(answer, 400, field=field)["detail"]
            assert counts() == before


@pytest.mark.parametrize("as_text", [True, False])
def test_a_long_description_is_refused_unread(lena, as_text):
    nodes = [{"cores": 1, "memory_gib": 1}] * 10_000
    description = "nodes:\n" + "- {cores: 1, memory_gib: 1}\n" * 10_000 if as_text else {"nodes": nodes}
    before = counts()
    answer = lena("POST", "/simulations", ASKED | {"cluster": None, "description": description})
    assert "as one group" in refusal(answer, 413, "too_large", "cluster")["detail"]
    assert counts() == before


def test_a_traces_own_jobs_are_not_drawn(lena):
    own = upload(lena).json()["id"]
    answer = lena("POST", "/simulations", ASKED | {"trace": own, "generator": None, "cluster": "here"})
    assert "leave `jobs` out" in refusal(answer, 400, field="jobs")["detail"]
    assert not Simulation.objects.exists()


@pytest.mark.parametrize(
    ("setting", "status", "field", "words"),
    [
        ("laboratory_jobs", 400, "file", "more than 1 jobs"),
        ("laboratory_traces", 409, "file", "keeps 1 traces already; delete one"),
    ],
)
def test_limits_of_traces(lena, setting, status, field, words):
    upload(lena, trace_csv("0,vision,4,600"))
    OperatorSetting.objects.create(name=setting, value=1)
    before = counts()
    assert words in refusal(upload(lena), status, field=field)["detail"]
    assert counts() == before


def test_the_limit_of_a_traces_length(lena):
    OperatorSetting.objects.create(name="laboratory_trace_mib", value=1)
    before = counts()
    error = refusal(upload(lena, b"x" * (2**20 + 1)), 413, "too_large", "file")
    assert "the laboratory takes at most 1 MiB" in error["detail"]
    assert counts() == before


def test_the_limit_of_what_waits(lena):
    OperatorSetting.objects.create(name="laboratory_queue", value=1)
    ask(lena)
    before = counts()
    answer = lena("POST", "/simulations", ASKED)
    assert "wait for one or cancel it" in refusal(answer, 409, "quota_exceeded")["detail"]
    assert counts() == before


def test_so_many_orders_a_minute(lena, monkeypatch):
    monkeypatch.setattr(LaboratoryThrottle, "rate", "2/min")
    made = [ask(lena)["id"] for _ in range(2)]
    answer = lena("POST", "/simulations", ASKED)
    refusal(answer, 429, "too_many_requests")
    assert int(answer.headers["Retry-After"]) > 0
    assert lena("POST", f"/simulations/{made[0]}/cancel").status_code == 200, "who asked too much may still cancel"


@pytest.mark.parametrize(
    ("content", "query", "field", "words"),
    [
        (TRACE.replace(b",600", b",six"), {}, "file", "line 2, column duration_s"),
        (trace_csv(), {}, "file", "holds no job"),
        (TRACE, {"format": "nothing"}, "format", "berth-csv"),
        (TRACE, {"name": ""}, "name", "1 to 100"),
        (TRACE, {"colour": "red"}, "colour", "known: format"),
    ],
)
def test_a_broken_trace_is_refused_where_it_is_broken(lena, content, query, field, words):
    before = counts()
    assert words in refusal(upload(lena, content, **query), 400, field=field)["detail"]
    assert counts() == before


def test_a_trace_comes_as_bytes(lena):
    answer = lena("POST", "/simulations/traces?name=x&format=berth-csv", raw=TRACE, content_type="text/csv")
    assert "application/octet-stream" in refusal(answer, 415, "unsupported_media_type")["detail"]


@pytest.mark.parametrize(
    ("body", "code"), [({}, "required"), ({"days": 0}, "out_of_range"), ({"days": "x"}, "wrong_type")]
)
def test_the_history_wants_its_days(lena, body, code):
    refusal(lena("POST", "/simulations/traces/history", body), 400, code, "days")


def test_a_history_without_a_job_says_so(lena):
    answer = lena("POST", "/simulations/traces/history", {"days": 2})
    assert "take more days" in refusal(answer, 400, "invalid", "days")["detail"]


# ---- who sees what ---------------------------------------------------------------------------------------------------


def test_another_tenant_sees_nothing_and_is_told_nothing(world, call):  # noqa: F811
    owner, tenant = world.users["lena"], world.tenants["vision-lab"]
    own = trace(tenant, owner)
    owned_share(row=own, actor=owner, shared_with="tenant")
    done = simulated(tenant, owner, trace=own)
    owned_share(row=done, actor=owner, shared_with="tenant")
    outsider, teammate = call("otto"), call("tim")
    assert [each.get("/simulations").json()["count"] for each in (teammate, outsider)] == [1, 0]
    assert [each.get("/simulations/traces").json()["count"] for each in (teammate, outsider)] == [1, 0]
    asks = [
        ("GET", "/simulations/{}"),
        ("GET", "/simulations/{}/report"),
        ("POST", "/simulations/{}/cancel"),
        ("DELETE", "/simulations/{}"),
        ("GET", "/simulations/traces/{}"),
        ("DELETE", "/simulations/traces/{}"),
    ]
    for method, path in asks:
        foreign = own.pk if "traces" in path else done.pk
        numbers = [foreign, 987654321, "x", "-1", "0", "9" * 30, "1_1", "\u0663"]
        assert len({outsider(method, path.format(number)).content for number in numbers}) == 1, path
        refusal(outsider(method, path.format(foreign)), 404, "not_found")
    for method, path in [*asks[2:4], asks[5]]:
        refusal(teammate(method, path.format(own.pk if "traces" in path else done.pk)), 404, "not_found")
    theirs = {"trace": own.pk, "generator": None, "jobs": None, "cluster": "here"}
    assert ask(teammate, **theirs)["trace"] == own.pk, "a shared trace may be simulated by a teammate"
    refusal(outsider("POST", "/simulations", ASKED | theirs), 400, "unknown_trace", "trace")


def test_an_operator_cancels_what_is_shared_and_changes_nothing_else(world, call):  # noqa: F811
    tenant, owner, root = world.tenants["vision-lab"], world.users["lena"], call("root")
    row = order(tenant, owner)
    refusal(root("POST", f"/simulations/{row.pk}/cancel"), 404, "not_found")
    owned_share(row=row, actor=owner, shared_with="operators")
    refusal(root("POST", f"/simulations/{row.pk}/share", {"shared_with": "owner"}), 404, "not_found")
    refusal(root("DELETE", f"/simulations/{row.pk}"), 404, "not_found")
    assert root("POST", f"/simulations/{row.pk}/cancel").json()["state"] == "CANCELLED"


def test_sharing_over_rest(lena, call):
    made, kept = ask(lena), upload(lena).json()
    teammate = call("tim")
    for path in (f"/simulations/{made['id']}", f"/simulations/traces/{kept['id']}"):
        refusal(teammate("GET", path), 404)
        refusal(lena("POST", f"{path}/share", {"shared_with": "everybody"}), 400, "invalid", "shared_with")
        refusal(lena("POST", f"{path}/share"), 400, "invalid", "shared_with")
        assert lena("POST", f"{path}/share", {"shared_with": "tenant"}).json()["shared_with"] == "tenant"
        assert teammate("GET", path).status_code == 200


def test_a_token_of_one_tenant_neither_shows_nor_takes_what_tells_of_others(world, call):  # noqa: F811
    for name in ("lena", "otto"):
        tenant = world.users[name].tenants.get()
        given.Cluster(tenant, world.users[name], world.nodes[0]).running()
    root, vision = world.users["root"], world.tenants["vision-lab"]
    everybody = call("root")("POST", "/simulations/traces/history", {"days": 1, "tenant": "vision-lab"}).json()
    assert (everybody["jobs"], everybody["all_tenants"]) == (2, True)
    narrow = Caller(token_create(user=root, name="ci", scopes=SCOPES, tenant=vision, actor=None)[1])
    refusal(narrow("GET", f"/simulations/traces/{everybody['id']}"), 404)
    own = narrow("POST", "/simulations/traces/history", {"days": 1}).json()
    assert (own["jobs"], own["all_tenants"], own["tenant"]) == (1, False, "vision-lab")
    made = ask(narrow, cluster="here")
    assert "tenants" not in Simulation.objects.get(pk=made["id"]).cluster
    refusal(narrow("POST", "/simulations", ASKED | {"tenant": "speech-lab"}), 400, "invalid", "tenant")
    refusal(
        narrow("POST", "/simulations", ASKED | {"trace": everybody["id"], "generator": None, "jobs": None}),
        400,
        "unknown_trace",
    )


def test_who_has_several_tenants_says_for_which(world, lena):  # noqa: F811
    membership_add(user=world.users["lena"], tenant=world.tenants["speech-lab"], actor=None)
    error = refusal(lena("POST", "/simulations", ASKED), 400, "invalid", "tenant")
    assert "speech-lab" in error["detail"]
    assert ask(lena, tenant="speech-lab")["tenant"] == "speech-lab"
