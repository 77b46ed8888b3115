"""When a job could start: the dry run's own answers, worked out in the background for tenants with a reader, within limits."""

import json
import time
from datetime import timedelta

import pytest
import redis
from django.utils import timezone

from portal.foundation.events.models import OutboxMessage
from portal.foundation.events.shared import client
from portal.pages.dashboard.cluster.starts import starts_context
from portal.people.tenants.models import Membership, Tenant
from portal.planning.rounds.asking import first_starts as module
from portal.planning.rounds.asking.dryrun import dry_run
from portal.planning.rounds.asking.first_starts import AT, LATER, NEVER, NOW, first_starts, first_starts_refresh
from portal.planning.rounds.models import ErrandLease
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.description import description_parse
from tests.portal import given

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("broker_settings")]


@pytest.fixture
def broker(settings, broker_settings):
    client.cache_clear()
    return redis.Redis.from_url(settings.REDIS_URL)


@pytest.fixture
def busy(cluster, broker):
    """Two GPUs of four are held for ten minutes more, by another tenant."""
    other = given.member("otto", Tenant.objects.create(name="speech-lab"))
    cluster.started(gpus=2, user=other, expected_duration_s=600)
    planning_run()
    return cluster


def refreshed(tenant):
    ErrandLease.objects.all().delete()  # its rest is over
    first_starts(tenant.pk)
    first_starts_refresh()
    return dict(first_starts(tenant.pk) or {})


def test_the_answers_are_the_dry_run_s(busy):
    found = refreshed(busy.tenant)
    assert list(found) == [(kind, size) for kind in (None, "A100") for size in (1, 2, 4)]
    for (kind, size), answer in found.items():
        asked = {"command": "true", "gpus": size, **({"gpu_types": [kind]} if kind else {})}
        told = dry_run(description=description_parse(asked, r_num=4), tenant=busy.tenant, user=busy.owner)
        assert (answer["says"] == NOW) == told["placeable"], (kind, size)
        if not told["placeable"]:
            median = told["start"]["median_at"]
            assert answer["says"] == AT
            assert abs(timezone.datetime.fromisoformat(answer["at"]) - median) < timedelta(seconds=30)
    assert [found[None, size]["says"] for size in (1, 2, 4)] == [NOW, NOW, AT]


def test_what_no_node_could_ever_hold_is_never(busy):
    given.node_make("n2", gpus=8, gpu_type=given.GpuType.objects.create(name="T4"))
    Tenant.objects.filter(pk=busy.tenant.pk).update(gpu_quota=4)
    found = refreshed(busy.tenant)
    assert found["A100", 8]["says"] == NEVER
    assert found[None, 8]["says"] == NEVER, "more than its tenant may hold"
    assert found["T4", 4]["says"] == NOW


def test_only_tenants_with_a_reader_are_worked_out_and_a_rest_follows(busy, broker):
    assert first_starts_refresh() == 0
    first_starts(busy.tenant.pk)
    assert first_starts_refresh() == 6
    (key,) = broker.keys("berth:first-starts:[0-9]*")
    assert key.decode().endswith(f":{busy.tenant.pk}")
    assert 0 < broker.ttl(key) <= module.ASKED_S
    assert ErrandLease.objects.get(name=module.TOPIC).until > timezone.now(), "so one run a tenth of the time at most"
    assert first_starts_refresh() is None
    assert OutboxMessage.objects.filter(payload__topic=module.TOPIC).count() == 1
    broker.zadd(module.ASKED, {str(busy.tenant.pk): time.time() - module.ASKED_S - 1})
    ErrandLease.objects.all().delete()
    assert first_starts_refresh() == 0, "its reader has gone"


def test_a_run_ends_at_its_limit_and_the_next_goes_on_with_the_oldest(busy, monkeypatch):
    first_starts(busy.tenant.pk)
    ticks = iter([0.0, 5.0, 9.0, 0.0, 1.0, 2.0, 3.0, 9.0])
    monkeypatch.setattr(module, "own_clock", lambda: lambda: next(ticks))
    assert first_starts_refresh() == 2
    ErrandLease.objects.all().delete()
    assert [size for _, size in dict(first_starts(busy.tenant.pk))] == [1, 2]
    assert first_starts_refresh() == 4
    assert len(first_starts(busy.tenant.pk)) == 6


def test_the_answers_name_nobody(busy, broker):
    refreshed(busy.tenant)
    stored = json.loads(broker.get(f"berth:first-starts:{busy.tenant.pk}"))
    assert {key for *_, answer in stored for key in answer} <= {"says", "at", "made"}


def test_a_tenant_of_viewers_alone_has_none_and_no_redis_is_no_error(busy, settings):
    Membership.objects.update(role=Membership.Role.VIEWER)
    assert refreshed(busy.tenant) == {}
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    client.cache_clear()
    assert first_starts(busy.tenant.pk) is None


def test_a_start_that_is_not_known_is_later(busy, monkeypatch):
    monkeypatch.setattr("portal.planning.rounds.asking.dryrun.forecast", lambda *_, **__: {})
    assert refreshed(busy.tenant)[None, 4]["says"] == LATER


def test_a_cluster_without_gpus_has_no_table_and_a_clock_that_was_set_back_stops_nothing(busy, broker):
    assert starts_context(busy.owner)["empty"].startswith("Not worked out yet")
    key, ahead = f"berth:first-starts:{busy.tenant.pk}", time.time() + 3600
    made = [(*question, {**answer, "made": ahead}) for question, answer in refreshed(busy.tenant).items()]
    broker.set(key, json.dumps(made))
    assert {each["made"] < ahead for each in refreshed(busy.tenant).values()} == {True}
    broker.set(key, json.dumps(made[:2] + made[3:4]))
    cells = [cell["says"] for row in starts_context(busy.owner)["rows"] for cell in row["cells"]]
    assert cells == [NOW, NOW, NOW, None], "not worked out yet is not never"
    busy.node.gpus.all().update(missing_since=timezone.now())
    assert refreshed(busy.tenant) == {}
    assert (starts_context(busy.owner)["rows"], starts_context(busy.owner)["empty"]) == ([], "No node here has a GPU.")
