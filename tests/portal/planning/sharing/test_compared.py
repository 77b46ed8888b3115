"""Both policies over a day, for operators: admissions, refusals with reasons, where they differ, slowdowns and use."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.planning.estimation.models import PairSpeed, Signature
from portal.planning.sharing.models import ShadowPlanning
from portal.planning.sharing.selectors import comparison, pair_last, use_course
from portal.planning.sharing.shadow import Runner, ShadowFailed
from tests.portal import given

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def figures():
    return comparison(pair_last(), since=timezone.now() - DAY)


def measured(cluster, own, beside, share, *, count=50):
    name = f"tenant:{cluster.tenant.pk}:{own}"
    signature, _ = Signature.objects.get_or_create(
        name=name, defaults={"tenant": cluster.tenant, "used_at": timezone.now()}
    )
    PairSpeed.objects.update_or_create(
        signature=signature,
        beside=f"tenant:{cluster.tenant.pk}:{beside}",
        gpu_type=cluster.node.gpu_type,
        defaults={"mean": share, "count": count, "at": timezone.now()},
    )


def test_what_both_said_is_counted_with_reasons(cluster, shadowed):
    for _ in range(3):
        cluster.submit(**given.shareable(0.4))
    shadowed()
    found = figures()
    assert (found["asked"], found["agreed"], found["differed"]) == (3, 2, 1)
    assert (found["both_admit"], found["both_refuse"], found["acting_alone"], found["shadow_alone"]) == (1, 1, 1, 0)
    acting, shadow = found["policies"]
    assert (acting["admits"], acting["refuses"], acting["reasons"]) == (2, 1, {"compute": 1})
    assert (shadow["admits"], shadow["refuses"], shadow["reasons"]) == (1, 2, {"unknown": 2})
    assert (acting["use"], acting["alone"], shadow["use"]) == (80.0, 40.0, 40.0)


def test_slowdowns_are_foretold_for_both_and_measured_since_for_the_one_that_acts(cluster, shadowed):
    measured(cluster, "a", "b", 1 / 1.1)
    cluster.submit(**given.shareable(0.4, model="a"))
    cluster.submit(**given.shareable(0.4, model="b"))
    shadowed()
    acting, shadow = figures()["policies"]
    assert (acting["worst"], shadow["worst"]) == (pytest.approx(1.1, abs=0.001), pytest.approx(1.1, abs=0.001))
    assert acting["measured_worst"] is None, "that was before"
    measured(cluster, "a", "b", 1 / 1.15)
    assert figures()["policies"][0]["measured_worst"] == 1.15


def test_rest_gives_operators_the_same_and_nobody_else_anything(cluster, shadowed, client):
    client.force_login(given.operator())
    empty = client.get("/api/v1/sharing").json()
    assert (empty["acting"], empty["asked"], empty["policies"]) == (None, 0, [])
    assert client.get("/api/v1/sharing/decisions").json()["results"] == []
    jobs = [cluster.submit(**given.shareable(0.4)) for _ in range(2)]
    shadowed()
    told = client.get("/api/v1/sharing?range=7d").json()
    assert (told["acting"], told["shadow"], told["differed"], told["failed"]) == ("res-ag", "cbp", 1, 0)
    (row,) = client.get("/api/v1/sharing/decisions?only=differ").json()["results"]
    assert row["job"] == str(jobs[1].number)
    assert (row["acting"]["node"], row["acting"]["gpu"], row["acting"]["beside"]) == ("n1", 3, [str(jobs[0].number)])
    assert (row["shadow"]["rule"], row["shadow"]["node"]) == ("unknown", None)
    for path in ("sharing?range=1y", "sharing/decisions?only=all"):
        assert client.get(f"/api/v1/{path}").status_code == 400
    client.force_login(cluster.owner)
    for path in ("sharing", "sharing/decisions"):
        assert client.get(f"/api/v1/{path}").status_code == 403


def test_a_failure_is_told_with_its_planning(cluster, shadowed, companion, monkeypatch):
    def failed(*_, **__):
        raise ShadowFailed("ValueError: no such thing")

    cluster.submit(**given.shareable())
    (question,) = shadowed()
    ShadowPlanning.objects.all().delete()
    monkeypatch.setattr(companion, "ask", failed)
    Runner(companion).answer(question)
    found = figures()
    assert (found["failed"], found["last_error"]["error"]) == (1, "ValueError: no such thing")
    assert found["asked"] == 0


def test_the_course_is_thinned_to_few_points(cluster, shadowed):
    cluster.submit(**given.shareable(0.5))
    for _ in range(3):
        cluster.submit(**given.shareable(0.5))
        shadowed()
    course = use_course(pair_last(), since=timezone.now() - DAY, most=2)
    assert len(course) == 2
    assert course[-1]["acting"]["use"] == 100.0
