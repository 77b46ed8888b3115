"""/healthz and /metrics: against a real Redis-compatible server, and with each part missing in turn."""

import shutil
import subprocess
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django_celery_beat.models import PeriodicTask
from prometheus_client.parser import text_string_to_metric_families

from portal.cluster.models import Node
from portal.operate.health import health
from portal.planning.rounds.models import Planning, PlanningLease, Round
from portal.planning.rounds.planning.lease import idle_count
from portal.planning.rounds.settings.schedule import schedule_make
from tests.portal import given
from tests.portal.foundation.api.conftest import refusal
from tests.portal.scraping import scraper

pytestmark = pytest.mark.django_db


@pytest.fixture
def well(world, broker_server, settings):
    """Everything runs: a server that answers, a beat and a planning of a moment ago."""
    settings.REDIS_URL = broker_server.url
    schedule_make()
    PeriodicTask.objects.filter(name="rounds.plan").update(last_run_at=timezone.now())
    Planning.objects.create(
        number=1,
        round=Round.objects.create(number=1, started_at=timezone.now()),
        started_at=timezone.now(),
        status="applied",
        plan_s=0.25,
    )


def ask():
    answer = Client().get("/healthz")
    return answer.status_code, answer.json()


def test_all_is_well(well):
    status, answer = ask()
    assert (status, answer["problems"]) == (200, [])
    assert (answer["database"], answer["broker"], answer["nodes"]) == ("ok", "ok", 3)
    assert answer["beat_age_s"] < 10
    assert answer["last_planning_age_s"] < 10


def test_a_drained_node_is_in_contact_and_one_that_is_silent_or_dead_is_not(well):
    """`./berth up` waits for the first; it would wait for ever for nodes that take jobs."""
    drained, silent, dead = Node.objects.order_by("pk")[:3]
    Node.objects.filter(pk=drained.pk).update(drained_at=timezone.now())
    _, answer = ask()
    assert (answer["nodes"], answer["nodes_in_contact"], answer["nodes_registered"]) == (2, 3, 3)
    Node.objects.filter(pk=silent.pk).update(last_contact_at=timezone.now() - timedelta(hours=1))
    Node.objects.filter(pk=dead.pk).update(dead_at=timezone.now())
    _, answer = ask()
    assert (answer["nodes"], answer["nodes_in_contact"], answer["nodes_registered"]) == (0, 1, 3)


def test_no_broker(well, settings, tmp_path):
    settings.REDIS_URL = f"unix://{tmp_path}/nothing.sock"
    status, answer = ask()
    assert (status, answer["broker"]) == (503, "unreachable")
    assert answer["problems"][0].startswith("broker")


@pytest.mark.parametrize(
    ("model", "column", "name", "limit", "log"),
    [
        (PeriodicTask, "last_run_at", "beat_age_s", 100, "beat"),
        (Planning, "started_at", "last_planning_age_s", 120, "worker"),
    ],
)
def test_what_is_overdue_is_named(well, model, column, name, limit, log):
    model.objects.update(**{column: timezone.now() - timedelta(minutes=10)})
    status, answer = ask()
    assert status == 503
    (problem,) = answer["problems"]
    assert f"for 600 s, at most {limit} s are normal ({name})" in problem
    assert f"logs/{log}.log in the data directory says why" in problem


def test_what_never_happened_is_overdue_only_after_a_while(well, monkeypatch):
    Planning.objects.all().delete()
    monkeypatch.setattr(health, "_started_s", health.time.monotonic())
    assert ask()[0] == 200
    monkeypatch.setattr(health, "_started_s", health.time.monotonic() - 3600)
    assert ask()[0] == 503


def test_no_database(well, monkeypatch):
    def fail():
        raise OperationalError("gone")

    monkeypatch.setattr(health, "_figures", fail)
    status, answer = ask()
    assert (status, answer["database"], answer["broker"]) == (503, "unreachable", "ok")


def samples(answer):
    assert answer.status_code == 200
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def metrics_known():
    metrics = {"gpu_active_rate": 0.75, "cpu_active_rate": 0.5, "utilisation": 80.0, "fragment_rate": 0.25}
    metrics |= {"fragments_cores": 2, "fragments_scattered": 0, "live_lr_mean": 1.5, "live_lr_max": 3.0}
    metrics |= {"raqlr_1h": None, "raqlr_6h": 0.5, "raqlr_jobs_1h": 0, "raqlr_jobs_6h": 4}
    Planning.objects.update(metrics=metrics)
    Round.objects.update(metrics={"fragments_cores": 1.25, "fragments_scattered": 0.0})


def test_section_10_for_prometheus_without_what_is_not_known(well, world):
    metrics_known()
    found = samples(scraper().get("/metrics"))
    assert found["berth_gpu_active_ratio",] == 0.75
    assert found["berth_gpu_utilisation_ratio",] == 0.8
    assert (found["berth_fragments", "no-cores"], found["berth_fragment_ratio",]) == (2, 0.25)
    assert found["berth_round_fragments", "no-cores"] == 1.25
    assert found["berth_live_latency_ratio", "max"] == 3.0
    assert (found["berth_raqlr", "6"], found["berth_raqlr_jobs", "6"]) == (0.5, 4)
    assert ("berth_raqlr", "1") not in found, "nothing ended in that hour: no sample, not nought"
    assert found["berth_raqlr_jobs", "1"] == 0


def test_what_a_planning_leaves_idle_beside_a_job_that_fits_is_counted_for_good(well):
    assert samples(scraper().get("/metrics"))["berth_idle_beside_fitting_total",] == 0
    PlanningLease.objects.get_or_create(pk=1)
    for gpus in (None, 0, 3, 2):
        idle_count(gpus, number=7)
    assert samples(scraper().get("/metrics"))["berth_idle_beside_fitting_total",] == 5


def test_a_scrape_costs_the_same_queries_whatever_the_size(world, django_assert_num_queries):
    with CaptureQueriesContext(connection) as queries:
        scraper().get("/metrics")
        before = len(queries)
    for n in range(5):
        given.node_make(f"more-{n}")
    world.owner.submit(gpus=1)
    with django_assert_num_queries(before):
        found = samples(scraper().get("/metrics"))
    assert (found["berth_gpus",], found["berth_nodes", "up"]) == (28, 8)


def test_figures_for_prometheus(well, world):
    world.owner.submit()
    world.owner("POST", f"/jobs/{world.owner.submit()['id']}/hold")
    found = samples(scraper().get("/metrics"))
    assert found["berth_jobs", "PENDING"] == found["berth_jobs", "HELD"] == 1
    assert found["berth_jobs", "RUNNING"] == 0
    assert found["berth_jobs_pending", "not-planned-yet"] == 1
    assert found["berth_nodes", "up"] == 3
    assert found["berth_gpus",] == 8
    assert found["berth_gpus_allocated",] == 0
    assert found["berth_planning_seconds", "plan"] == 0.25
    assert found["berth_refused_messages_total",] == 0


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="SKIPPED LOUDLY: no promtool (`apt install prometheus`): /metrics was not checked by it",
)
def test_prometheus_own_tool_takes_the_figures(well, world):
    """Names, types and help texts as Prometheus wants them: it says nothing."""
    world.owner.submit()
    metrics_known()
    text = scraper().get("/metrics").content
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, b"")
    assert b"berth_gpus_total" not in text


@pytest.mark.parametrize("path", ["/metrics", "/metrics/gpus"])
def test_who_may_scrape(well, world, path):
    """Jobs of all tenants may run on the portal's machine: where a call comes from tells nothing."""
    asked = {"accept": "application/json"}
    for address in ("127.0.0.1", "::1", "203.0.113.9"):
        refusal(Client(REMOTE_ADDR=address, headers=asked).get(path), 401, "not_authenticated")
        refusal(Client(REMOTE_ADDR=address, headers=asked | {"authorization": "Bearer no"}).get(path), 401, "bad_token")
        assert scraper(REMOTE_ADDR=address).get(path).status_code == 200
        assert Client(REMOTE_ADDR=address, headers=world.operator.headers).get(path).status_code == 200
        refusal(Client(REMOTE_ADDR=address, headers=world.owner.headers | asked).get(path), 403, "operator_only")
    signed_in = Client(headers=asked)
    signed_in.force_login(world.users["lena"])
    refusal(signed_in.get(path), 403, "operator_only")
    signed_in.force_login(given.operator())
    assert signed_in.get(path).status_code == 200


def test_an_empty_token_lets_nobody_in(well, world, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    for content in (None, b"", b"\n"):
        if content is not None:
            (tmp_path / "metrics-token").write_bytes(content)
        for given_token in ("", " ", "None", "\xfc"):
            answer = Client(headers={"authorization": f"Bearer {given_token}", "accept": "application/json"}).get(
                "/metrics"
            )
            assert answer.status_code == 401
