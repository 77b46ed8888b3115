"""Offers for a waiting job through page and REST: planned once for many loads, taken in one press, or refused unchanged."""

import json
import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from portal.foundation.api.throttles import PlanThrottle
from portal.foundation.errors import BerthError
from portal.people.tenants.models import AuditEvent, Tenant
from portal.planning.offers import services
from portal.planning.offers.models import JobOffers
from portal.planning.offers.services import changes_of, offer_accept, offers_kept, offers_of
from portal.planning.rounds.asking import changes
from portal.planning.rounds.models import ForecastRecord, StartForecast
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from portal.work.jobs.services.control import job_cancel, job_hold
from tests.portal import given

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"


@pytest.fixture
def waiting(cluster):
    """A job of 4 on a node of which 2 GPUs are held."""
    cache.clear()
    cluster.started(gpus=2)
    job = cluster.submit(gpus=4, expected_duration_s=600)
    planning_run()
    job.refresh_from_db()
    return job


@pytest.fixture
def browser(cluster):
    client = Client()
    client.force_login(cluster.owner, backend=BACKEND)
    return client


@pytest.fixture
def planned(monkeypatch):
    """How often changes were worked out."""
    counted = []

    def work(job):
        counted.append(job.pk)
        return changes.changes_work(job)

    monkeypatch.setattr(services, "changes_work", work)
    return counted


def press(client, job, change="size", value=2, **more):
    form = {"change": change, "value": json.dumps(value)}
    return client.post(f"/jobs/{job.pk}/offer", form, headers={"HX-Request": "true"}, **more)


def test_the_page_shows_what_would_start_it_now_and_a_press_makes_it_so(browser, waiting):
    card = browser.get(f"/jobs/{waiting.pk}/waiting").content.decode()
    assert "<strong>Accept 2 GPUs too</strong>" in card
    assert '<strong class="b-run">now</strong><small>on n1</small>' in card
    assert card.count("b-button-primary") == 1
    answer = press(browser, waiting).content.decode()
    assert "Accepted" in answer
    waiting.refresh_from_db()
    assert (waiting.gpus, waiting.state) == ([2, 4], "PENDING")
    assert AuditEvent.objects.filter(action="job.offer", target=f"job:{waiting.pk}").exists()
    planning_run()
    waiting.refresh_from_db()
    assert waiting.state == "STARTING"


def test_an_offer_that_no_longer_holds_changes_nothing_and_its_row_says_so(browser, cluster, waiting):
    browser.get(f"/jobs/{waiting.pk}/waiting")
    cluster.started(gpus=2)  # somebody else took what was idle
    before = Job.objects.filter(pk=waiting.pk).values().get()
    answer = press(browser, waiting).content.decode()
    assert "no longer holds" in answer
    assert "Nothing was changed" in answer
    assert Job.objects.filter(pk=waiting.pk).values().get() == before


def test_only_what_was_offered_can_be_pressed(browser, cluster, waiting):
    browser.get(f"/jobs/{waiting.pk}/waiting")
    for value in (3, -1, True, "2", 10**30, [2], {"a": 1}, None):
        press(browser, waiting, value=value)
        waiting.refresh_from_db()
        assert waiting.gpus == [4], value


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"expected_duration_s": 86_400}, "later"),
        ({"time_limit_s": 700}, "limit"),
        ({"expected_duration_s": None}, "length"),
    ],
    ids=["a day's job that waits for an hour", "past its limit", "of unknown length"],
)
def test_what_starts_it_now_and_gains_nothing_is_told_and_cannot_be_pressed(browser, waiting, asked, told):
    rest_words = {
        "later": "It would be over later",
        "limit": "Its time limit would end it",
        "length": "nobody knows for how long",
    }
    words = {"later": "not offered", "limit": "would end it at", "length": "say how long it runs"}[told]
    assert offers_of(waiting, allow=lambda: None).answer["offers"][0]["gains"]
    Job.objects.filter(pk=waiting.pk).update(**asked)
    job = Job.objects.get(pk=waiting.pk)
    card = browser.get(f"/jobs/{job.pk}/waiting").content.decode()
    assert "Accept 2 GPUs too" in card
    assert words in card
    assert ('<tr class="b-bad">' in card) == (told != "length")
    assert f"/jobs/{job.pk}/offer" not in card, "no form to press"
    assert "could start now" not in browser.get("/").content.decode(), "nor is it among what needs me"
    press(browser, job)
    job.refresh_from_db()
    assert job.gpus == [4]
    rest = browser.get(f"/api/v1/jobs/{job.pk}/offers").json()
    first = next(each for each in rest["offers"] if each["value"] == 2)
    assert (first["starts_now"], first["gains"]) == (True, False)
    assert rest_words[told] in first["no_gain"]
    assert (first["over_at"] is not None) == (told == "later")
    assert (rest["over_at"] is not None) == (told != "length")


def test_a_length_that_was_guessed_stays_a_guess_when_the_job_has_run_before(waiting):
    """Its age is fixed at the first start, from any source."""
    known = {"started_at": timezone.now() - timedelta(hours=3), "age_s": 600, "expected_duration_s": None}
    for source, gains in (("declared", True), ("assumed", False), ("jobs of the cluster", False)):
        Job.objects.filter(pk=waiting.pk).update(**known, age_source=source)
        waiting.refresh_from_db()
        JobOffers.objects.all().delete()
        first = offers_of(waiting, allow=lambda: None).answer["offers"][0]
        assert (first["starts"], first["gains"]) == (True, gains), source


def test_many_reloads_and_plannings_in_between_plan_once(browser, waiting, planned):
    for reload in range(20):
        if reload % 7 == 0:
            planning_run()
        assert browser.get(f"/jobs/{waiting.pk}/waiting").status_code == 200
    assert len(planned) == 1, "a young answer is given though a planning came"
    JobOffers.objects.update(at=timezone.now() - timedelta(seconds=40), took_s=0.1)
    browser.get(f"/jobs/{waiting.pk}/waiting")
    assert len(planned) == 2


def test_a_second_reader_waits_for_the_first(waiting, planned):
    JobOffers.objects.create(job=waiting, until=timezone.now() + timedelta(seconds=20))
    kept = offers_of(waiting, allow=lambda: None)
    assert (kept.working, kept.answer["offers"], planned) == (True, [], [])
    with pytest.raises(BerthError, match="ask again"):
        changes_of(waiting, allow=lambda: None)


def test_a_reader_who_fails_leaves_no_claim(waiting):
    with changes._working, pytest.raises(BerthError) as refused:
        offers_of(waiting, allow=lambda: None)
    assert (refused.value.code, refused.value.status) == ("busy", 429)
    assert offers_of(waiting, allow=lambda: None).fresh


def test_too_many_are_refused_in_place(browser, waiting, monkeypatch):
    monkeypatch.setattr(PlanThrottle, "rate", "2/min")
    for _ in range(2):
        JobOffers.objects.all().delete()
        answer = browser.get(f"/jobs/{waiting.pk}/waiting")
        assert "Too many of these" not in answer.content.decode()
    JobOffers.objects.all().delete()
    answer = browser.get(f"/jobs/{waiting.pk}/waiting")
    assert answer.status_code == 200
    assert "Too many of these" in answer.content.decode()


def test_rest_shows_and_takes_them(browser, waiting):
    path, size = f"/api/v1/jobs/{waiting.pk}/offers", {"change": "size"}
    found = browser.get(path).json()
    first = found["offers"][0]
    assert (first["change"], first["value"], first["starts_now"], found["fresh"]) == ("size", 2, True, True)
    for body in (size, {"change": 4, "value": 2}, {**size, "value": 2, "x": 1}):
        assert browser.post(path, body, content_type="application/json").status_code == 400
    answer = browser.post(path, {**size, "value": 2}, content_type="application/json")
    assert (answer.status_code, answer.json()["gpus"]) == (200, [2, 4])


def test_a_job_that_changed_meanwhile_is_left_alone(cluster, waiting, monkeypatch):
    offers_of(waiting, allow=lambda: None)

    def somebody_else(job, only):
        Job.objects.filter(pk=job.pk).update(gpus=[3])
        return changes.changes_work(job, only)

    monkeypatch.setattr(services, "changes_work", somebody_else)
    with pytest.raises(BerthError) as refused:
        offer_accept(job=waiting, actor=cluster.owner, change="size", value=2)
    assert refused.value.code == "changed"
    waiting.refresh_from_db()
    assert waiting.gpus == [3]


def test_a_cancelled_job_has_none(cluster, waiting):
    offers_of(waiting, allow=lambda: None)
    job_cancel(job=waiting, actor=cluster.owner)
    waiting.refresh_from_db()
    with pytest.raises(BerthError) as refused:
        offer_accept(job=waiting, actor=cluster.owner, change="size", value=2)
    assert refused.value.code == "not_waiting"


def test_another_tenants_job_in_the_way_has_no_number(cluster):
    """Two tenants, one node: one tenant's page does not change with the other's numbers."""
    cache.clear()
    foreign = Tenant.objects.create(name="zebra")
    given.member("zoe", foreign)
    running = cluster.started(gpus=4)
    Job.objects.filter(pk=running.job.pk).update(tenant=foreign, expected_duration_s=600)
    job = cluster.submit(gpus=4, expected_duration_s=600)
    planning_run()
    job.refresh_from_db()
    answer = offers_of(job, allow=lambda: None).answer
    assert [end["name"] for end in answer["gathering"]["ends"]] == ["a job of another tenant"]
    assert [end["job"] for end in answer["gathering"]["ends"]] == [None]
    client = Client()
    client.force_login(given.member("zoe", foreign), backend=BACKEND)
    assert client.get(f"/jobs/{job.pk}/waiting").status_code == 404
    assert press(client, job).status_code == 404


def test_a_press_needs_the_csrf_token(cluster, waiting):
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(cluster.owner, backend=BACKEND)
    assert press(strict, waiting).status_code == 403


def ranged(job, now, minutes=(25, 27, 30)):
    early, middle, late = (now + timedelta(minutes=each) for each in minutes)
    first = {"first_at": now - timedelta(minutes=5), "first_earliest_at": early, "first_median_at": middle}
    return StartForecast.objects.create(
        job=job, epoch=0, at=now, earliest_at=early, median_at=middle, latest_at=late, first_latest_at=late, **first
    )


def test_the_start_is_large_with_its_range_and_the_record_from_twenty_starts_on(browser, waiting):
    now = timezone.now()
    card = browser.get(f"/jobs/{waiting.pk}/waiting").content.decode()
    assert "Not known yet" in card
    ranged(waiting, now)
    card = browser.get(f"/jobs/{waiting.pk}/waiting").content.decode()
    assert '<p class="b-big"><small>about</small><time' in card
    assert '4 GPUs on one node</strong>, and <span class="b-nowrap">n1</span> has two free for it.' in card
    assert "such ranges" not in card
    for number in range(20):
        given_at = now - timedelta(hours=number + 1)
        early, late = given_at + timedelta(minutes=20), given_at + timedelta(minutes=30)
        started = given_at + timedelta(minutes=25 if number else 45)
        ForecastRecord.objects.create(
            job_number=number, given_at=given_at, earliest_at=early, median_at=early, latest_at=late, started_at=started
        )
    assert "Of the last 20 such ranges 19 held." in browser.get(f"/jobs/{waiting.pk}/waiting").content.decode()
    StartForecast.objects.update(latest_at=now - timedelta(minutes=1), earliest_at=now - timedelta(minutes=3))
    card = browser.get(f"/jobs/{waiting.pk}/waiting").content.decode()
    assert "Not known yet" in card
    assert "It was expected between" in card


def test_at_most_five_steps_lead_to_the_start_and_anothers_job_has_no_name(browser, waiting):
    offers_of(waiting, allow=lambda: None)
    now = timezone.now()
    row = JobOffers.objects.get()
    ends = [
        {"at": now.timestamp() + 60 * at, "free": 2, "job": None, "name": "a job of another tenant"} for at in range(8)
    ]
    row.answer["gathering"] = {"node": "n1", "need": 4, "idle": 2, "ends": ends}
    row.save()
    ranged(waiting, now)
    card = browser.get(f"/jobs/{waiting.pk}/waiting").content.decode()
    steps = card.partition("<ul class")[2].partition("</ul>")[0]
    assert steps.count("<li") == 5
    assert steps.count("another tenant's job".replace("'", "&#x27;")) == 3
    assert "and 5 more before" in card
    assert steps.rpartition("<li")[2].count("it <strong>starts</strong>") == 1
    assert "guesses" not in card
    ends[-1]["known"] = False
    row.save()
    card = browser.get(f"/jobs/{waiting.pk}/waiting").content.decode()
    assert "The range rests on guesses of how long jobs before it run." in card
    assert card.count("may end") == 1
    assert steps.count("b-last") == steps.count("b-done") == 1


def test_tasks_and_exact_cores_are_not_changed(cluster):
    cache.clear()
    cluster.started(gpus=2)
    job = cluster.submit(gpus=4, learning_rate={"4": 0.1})
    planning_run()
    job.refresh_from_db()
    assert not [each for each in offers_of(job, allow=lambda: None).answer["offers"] if each["change"] == "size"]


def test_nothing_is_worked_out_for_a_job_that_runs(cluster, planned):
    job = cluster.started(gpus=2).job
    assert offers_of(job, allow=lambda: None).answer == services.NOTHING
    assert planned == []
    assert offers_kept(job).answer == services.NOTHING


def test_every_change_is_in_one_list_and_rest_and_nothing_is_changed(browser, cluster, waiting):
    """They are those that offers are taken from."""
    before = list(Job.objects.order_by("pk").values())
    card = browser.get(f"/jobs/{waiting.pk}/waiting").content.decode()
    rows = card.partition("<tbody>")[2].partition("</tbody>")[0]
    assert rows.count("<tr") == 3
    over = re.findall(r'<strong>about <time datetime="([^"]+)"', rows)
    assert len(over) == 3
    assert over == sorted(over)
    assert rows.rpartition("<tr")[2].startswith(' class="b-on"'), "as it stands comes last: both changes gain"
    found = browser.get(f"/api/v1/jobs/{waiting.pk}/explain?what_if=true").json()["what_would_start"]
    smaller = next(each for each in found if each["change"] == "size")
    assert (smaller["value"], smaller["starts"], smaller["nodes"]) == (2, True, {"n1": 2})
    assert smaller["sentence"].startswith("With 2 GPUs it would start now on n1.")
    assert list(Job.objects.order_by("pk").values()) == before
    assert changes_of(cluster.started().job, allow=lambda: None).answer["changes"] == []


def test_a_held_job_is_told_of_its_release_and_has_no_offers(cluster, waiting):
    offers_of(waiting, allow=lambda: None)
    job_hold(job=waiting, actor=cluster.owner)
    waiting.refresh_from_db()
    answer = changes_of(waiting, allow=lambda: None).answer
    assert ([each["change"] for each in answer["changes"]], answer["offers"]) == (["release"], [])


def test_a_held_job_and_one_that_waits_for_a_time_say_so_without_a_list(browser, cluster, waiting):
    job_hold(job=waiting, actor=cluster.owner)
    card = browser.get(f"/jobs/{waiting.pk}/waiting").content.decode()
    assert "Not known yet" in card
    assert f"It is held by {cluster.owner.username}." in card
    assert "Over sooner" not in card
    later = cluster.submit(start_after=(timezone.now() + timedelta(hours=2)).isoformat())
    planning_run()
    card = browser.get(f"/jobs/{later.pk}/waiting").content.decode()
    assert "<small>not before</small><time" in card
    after = cluster.submit(depends_on=[waiting.pk])
    planning_run()
    card = browser.get(f"/jobs/{after.pk}/waiting").content.decode()
    assert f'<a href="/jobs/{waiting.pk}/">#{waiting.pk}</a> completes' in card
