"""A list that changes while it is walked: `next` begins behind the last row, so nothing comes twice and nothing is left out."""

import base64
import json
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.work.jobs.models import Job
from portal.work.jobs.states import JobState
from tests.portal.foundation.api.conftest import world_make
from tests.portal.lasting import lasting

ORDERS = [
    f"{sign}{name}"
    for name in ("id", "name", "priority", "submitted_at", "started_at", "ended_at")
    for sign in ("", "-")
]


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker):
    """The world with nine jobs: some without a time, and several with one."""
    with lasting(django_db_blocker):
        world = world_make()
        for n in range(9):
            job = world.owner.submit(name=f"job {n % 3}")["id"]
            at = timezone.now() + timedelta(minutes=n // 3)
            Job.objects.filter(pk=job).update(started_at=at if n % 2 else None)
            if n % 4 == 3:
                Job.objects.filter(pk=job).update(ended_at=at, state=JobState.CANCELLED, waiting_since=None)
        yield world


@pytest.fixture
def world(built, db):
    return built


def walked(world, path, between=lambda page: None):
    """The rows of all pages, each asked for as the one before says."""
    rows, pages = [], 0
    while path:
        answer = world.owner("GET", path).json()
        rows += answer["results"]
        between(pages)
        pages += 1
        path = answer["next"] and path_of(answer["next"])
    return rows


def path_of(url):
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"


@pytest.mark.parametrize("order", ORDERS)
def test_what_stays_comes_once_whatever_comes_and_goes(world, order):
    jobs = list(Job.objects.order_by("pk").values_list("pk", flat=True))
    gone, stay = jobs[::3], set(jobs) - set(jobs[::3])

    def between(page):
        if page < len(gone):
            Job.objects.filter(pk=gone[page]).delete()
            world.owner.submit(name="job 0")
            world.owner.submit(name="zz")

    found = [row["id"] for row in walked(world, f"/jobs?page_size=2&ordering={order}", between)]
    assert len(found) == len(set(found))
    assert stay <= set(found)


@pytest.mark.parametrize(
    "path", ["/nodes", "/secrets", "/templates", "/uploads", "/simulations", "/simulations/traces"]
)
def test_a_walk_is_the_list(world, path):
    caller = world.caller("lena")
    whole = caller("GET", f"{path}?page_size=500").json()
    rows, at = [], f"{path}?page_size=1"
    while at:
        answer = caller("GET", at).json()
        rows += answer["results"]
        at = answer["next"] and path_of(answer["next"])
    assert rows == whole["results"]


def test_members_and_invitations_are_walked_too(world):
    caller = world.caller("lena")
    found, at = [], "/tenants/vision-lab/members?page_size=1"
    while at:
        answer = caller("GET", at).json()
        found += answer["results"]
        at = answer["next"] and path_of(answer["next"])
    assert found == caller("GET", "/tenants/vision-lab/members").json()["results"]
    assert len(found) > 1


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cursor=st.text(max_size=60) | st.binary(max_size=40).map(lambda raw: raw.hex()))
def test_what_is_no_place_is_refused_by_name(world, cursor):
    answer = world.owner.get("/jobs", after=cursor)
    assert answer.status_code == (200 if not cursor else 400)
    if cursor:
        assert answer.json()["error"]["field"] == "after"


NUMBERS = (None, True, 0, -1, 2**31, 2**63, -(2**63) - 1, 10**300, 0.5, float("nan"), float("inf"))
TEXTS = ("", "a", "\ud800", "1" * 3000, "now", "24:00", "infinity")
TIMES = ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-02-30T00:00:00", "2026-01-31T12:00:00")
ODD = (*NUMBERS, *TEXTS, *TIMES)


@pytest.mark.parametrize("order", ORDERS)
def test_a_place_with_odd_values_is_found_or_refused(world, order):
    """Whatever stands in a forged one: each database has texts, numbers and times that it does not take."""
    for value in ODD:
        for key in (1, value):
            terms, values = ([order], [key]) if order.endswith("id") else ([order, "-id"], [value, key])
            cursor = base64.urlsafe_b64encode(json.dumps([terms, values]).encode()).decode().rstrip("=")
            answer = world.owner.get("/jobs", after=cursor, ordering=order)
            assert answer.status_code in {200, 400}, (value, answer.content)
            assert answer.status_code == 200 or answer.json()["error"]["field"] == "after"


def test_a_place_of_another_order_is_refused_and_page_excludes_it(world):
    following = path_of(world.owner("GET", "/jobs?page_size=1").json()["next"])
    assert world.owner("GET", f"{following}&ordering=name").json()["error"]["code"] == "bad_cursor"
    assert world.owner("GET", f"{following}&page=2").json()["error"]["code"] == "conflict"
    assert world.owner("GET", "/jobs?page=2&page_size=1").json()["page"] == 2
