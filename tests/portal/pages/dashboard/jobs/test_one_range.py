"""A waiting job has one start range: its page, every list, the overviews, REST and the command line tell the same."""

import re
from datetime import datetime, timedelta

import pytest
from django.core.cache import cache
from django.utils import timezone

from berth_client.cli.job_words import start_words
from portal.planning.offers.models import JobOffers
from portal.planning.offers.services import offers_of
from portal.planning.rounds.models import StartForecast
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Job
from portal.work.jobs.services.control import job_hold

pytestmark = pytest.mark.django_db
PLACES = {
    "page": ("/jobs/{job}/", r'id="starts".*?id="folded"'),
    "card": ("/jobs/{job}/waiting", ""),
    "list": ("/jobs/", r'data-job="{job}".*?</tr>'),
    "queue": ("/queue/", r'<td class="b-named">.*?</tr>'),
    "mine": ("/home/parts/jobs?view=mine", r'id="home-job-{job}".*?</li>'),
}


@pytest.fixture
def waiting(client, cluster):
    """A job of 4 on a node of which 2 GPUs are held, with offers that were compared with a range of another draw."""
    cache.clear()
    cluster.started(gpus=2)
    job = cluster.submit(gpus=4)
    planning_run()
    job.refresh_from_db()
    offers_of(job, allow=lambda: None)
    row = JobOffers.objects.get(job=job)
    assert row.answer["offers"], "there is something to compare with"
    JobOffers.objects.filter(job=job).update(answer={**row.answer, "gathering": None})
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    return job


def foretell(job, *minutes):
    early, middle, late = (timezone.now() + timedelta(minutes=each) for each in minutes)
    shown = {"at": timezone.now(), "earliest_at": early, "median_at": middle, "latest_at": late}
    StartForecast.objects.update_or_create(
        job=job, defaults={"epoch": 0, **shown, **{f"first_{name}": at for name, at in shown.items()}}
    )
    return early, late


def told(client, job, name):
    """Return the part of a page that tells of the job."""
    path, pattern = PLACES[name]
    cache.clear()
    answer = client.get(path.format(job=job.pk))
    assert answer.status_code == 200, path
    found = re.search(pattern.format(job=job.pk), answer.content.decode(), re.DOTALL)
    assert found, (name, pattern)
    return found[0] or answer.content.decode()


@pytest.mark.parametrize(("minutes", "before"), [(20, ""), (-2, "due ")])
def test_an_end_in_the_way_that_is_late_is_told_as_due(client, waiting, minutes, before):
    """The job that runs there may take longer than it was expected to: no sentence tells its end in the past."""
    foretell(waiting, 5, 20, 30)
    row = JobOffers.objects.get(job=waiting)
    end = {"at": (timezone.now() + timedelta(minutes=minutes)).timestamp(), "name": "#7", "job": "7", "free": 4}
    way = {"node": "n1", "need": 4, "idle": 2, "ends": [end]}
    JobOffers.objects.filter(job=waiting).update(answer={**row.answer, "gathering": way})
    card = told(client, waiting, "card")
    assert f'<span class="b-nowrap">{before}<time' in card
    assert '<a href="/jobs/7/">#7</a> ends' in card


def ranges(html):
    """Return the pairs of instants that stand as a range: joined by a dash or by "and"."""
    at = r'<time datetime="([^"]+)"[^>]*>[^<]*</time>'
    pairs = re.findall(rf"{at}(?:</strong>)?\s*(?:–| and | to )\s*(?:<strong>)?{at}", html)
    return {tuple(datetime.fromisoformat(each) for each in pair) for pair in pairs}


def rest(client, job):
    """Return the range of REST's explanation and that of its offers, which are the same."""
    format_explanation = client.get(f"/api/v1/jobs/{job.pk}/explain").json()["predicted_start"]
    offered = client.get(f"/api/v1/jobs/{job.pk}/offers").json()["start"]
    found = [
        each and [datetime.fromisoformat(each[f"{name}_at"]) for name in ("earliest", "latest")]
        for each in (format_explanation, offered)
    ]
    return format_explanation, found


def test_a_range_that_lies_ahead_is_the_same_to_the_microsecond(client, waiting):
    early, late = foretell(waiting, 25, 27, 30)
    for name in PLACES:
        assert ranges(told(client, waiting, name)) == {(early, late)}, name
    format_explanation, found = rest(client, waiting)
    assert found == [[early, late]] * 2
    assert not format_explanation["passed"]
    assert start_words(format_explanation).split(" to ")[1].endswith(f"{late.astimezone():%H:%M:%S}")


def test_a_range_that_has_begun_begins_now_everywhere(client, waiting):
    _, late = foretell(waiting, -3, 2, 5)
    before = timezone.now()
    for name in PLACES:
        (found,) = ranges(told(client, waiting, name))
        assert before <= found[0] <= timezone.now(), name
        assert found[1] == late, name
    for early, end in rest(client, waiting)[1]:
        assert before <= early <= timezone.now()
        assert end == late


def test_a_range_that_is_over_is_told_as_such_everywhere(client, waiting):
    early, late = foretell(waiting, -9, -7, -5)
    for name in ("list", "queue", "mine"):
        shown = told(client, waiting, name)
        assert ("later than expected" if name == "mine" else "overdue") in shown, name
        assert not ranges(shown), name
    for name in ("page", "card"):
        shown = told(client, waiting, name)
        assert "It was expected between" in shown, name
        assert ranges(shown) == {(early, late)}, name
        assert "overdue" in shown, "as it stands"
    format_explanation, found = rest(client, waiting)
    assert format_explanation["passed"]
    assert found == [[early, late]] * 2
    assert start_words(format_explanation).startswith("overdue: expected ")


def test_a_held_job_has_none_anywhere(client, waiting, cluster):
    foretell(waiting, 25, 27, 30)
    job_hold(job=Job.objects.get(pk=waiting.pk), actor=cluster.owner)
    assert not ranges(client.get(f"/jobs/{waiting.pk}/").content.decode())
    for name in ("list", "queue", "mine"):
        assert not ranges(told(client, waiting, name)), name
    assert client.get(f"/api/v1/jobs/{waiting.pk}/explain").json()["predicted_start"] is None


def test_without_a_range_the_page_shows_none(client, waiting):
    shown = told(client, waiting, "page")
    assert "Not known yet" in shown
