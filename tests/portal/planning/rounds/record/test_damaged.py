"""A planning's stored decisions that cannot be read any more: they are reported, and nothing else stops."""

import zlib

import pytest
from django.test import Client
from django.urls import reverse

from portal.planning.rounds.models import Explanation, Planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read.explained import explanation
from portal.planning.rounds.record import decisions
from portal.planning.rounds.record.decisions import decisions_read
from portal.planning.rounds.record.frames import LONGEST, FrameError
from portal.work.jobs.models import Job
from tests.portal.foundation.api.conftest import refusal, world_make
from tests.portal.lasting import lasting

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker):
    """Two jobs run, six wait."""
    with lasting(django_db_blocker):
        world = world_make()
        for _ in range(8):
            world.owner.submit(gpus=4)
        planning_run()
        yield world


@pytest.fixture
def world(built, db):
    return built


def damage(number, how):
    planning = Planning.objects.get(number=number)
    Planning.objects.filter(number=number).update(decisions=how(bytes(planning.decisions)))
    decisions._recent.clear()
    return number


HOW = {
    "cut off": lambda packed: packed[: len(packed) // 2],
    "one byte": lambda packed: packed[:9] + bytes([packed[9] ^ 0xFF]) + packed[10:],
    "another thing": lambda _: b"x" * 40,
    "no end of its head": lambda _: zlib.compress(b"{}"),
}


@pytest.fixture(params=HOW)
def damaged(world, request):
    """The last planning's decisions cannot be read."""
    return damage(Planning.objects.latest("number").number, HOW[request.param])


def test_the_next_planning_is_made_whole_and_can_be_read(world, damaged, caplog):
    world.owner.submit(gpus=1)
    planning_run()
    last = Planning.objects.latest("number")
    assert (last.status, last.keyframe) == ("applied", None), "it begins anew: a key frame"
    assert len(decisions_read(last)) == last.queue_length + last.placed
    assert f"planning {damaged} cannot be read" in caplog.text


def test_who_asks_for_that_planning_is_told_so(world, damaged, client):
    with pytest.raises(FrameError, match=f"The decisions of planning {damaged} cannot be read"):
        decisions_read(Planning.objects.get(number=damaged))
    told = refusal(world.operator("GET", f"/plannings/{damaged}"), 410, "decisions_unreadable")
    assert f"Up to {LONGEST - 1} that followed it" in told["detail"]
    planning = Planning.objects.get(number=damaged)
    for path in (
        reverse("planning-detail", args=[damaged]),
        reverse("admin:rounds_planning_change", args=[planning.pk]),
    ):
        page = _signed_in(world).get(path)
        assert page.status_code == 410, path
        assert f"The decisions of planning {damaged} cannot be read" in page.content.decode()
        assert "<h1>It cannot be read any more</h1>" in page.content.decode()


def test_the_pages_of_the_present_and_a_job_s_own_answer(world, damaged):
    browser = _signed_in(world)
    job = Job.objects.filter(state="PENDING").first()
    for path in (reverse("overview"), reverse("queue"), reverse("job-detail", args=[job.pk])):
        assert browser.get(path).status_code == 200, path
    assert explanation(job)["reason"] == job.reason


def test_a_job_whose_detail_cannot_be_read_is_explained_without_it(world, caplog):
    job = Job.objects.latest("pk")
    assert explanation(job)["figures"]
    rows = Explanation.objects.filter(job=job)
    rows.update(detail=bytes(rows.get().detail)[:20])
    assert explanation(job)["reason"] == job.reason
    assert f"detail of job {job.pk} cannot be read" in caplog.text
    assert _signed_in(world).get(reverse("job-detail", args=[job.pk])).status_code == 200


def _signed_in(world):
    browser = Client()
    browser.force_login(world.users["root"], backend="django.contrib.auth.backends.ModelBackend")
    return browser
