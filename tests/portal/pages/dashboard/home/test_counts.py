"""The list behind each count of the overview holds exactly the jobs that were counted, and none of other people."""

import copy
import re
from datetime import timedelta
from html import unescape

import pytest
from django.core.cache import cache
from django.utils import timezone

from portal.pages.dashboard.home import needs
from portal.people.accounts.models import Looked
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Job
from portal.work.jobs.states import FINAL, JobState
from tests.portal import given
from tests.portal.lasting import lasting

pytestmark = pytest.mark.django_db
AGES = (timedelta(hours=1), timedelta(days=3), timedelta(days=9))


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker):
    """Jobs in each state, of lena, of a mate, and of two of another tenant; ended ones ended an hour to nine days ago."""
    with lasting(django_db_blocker):
        yield crowd_make(given.Cluster.make())


@pytest.fixture
def crowd(built, db):
    return copy.deepcopy(built)


def crowd_make(cluster):
    tim, foreign = given.member("tim", cluster.tenant), Tenant.objects.create(name="speech-lab")
    otto = given.member("otto", foreign)
    for times, user in ((1, cluster.owner), (2, tim), (3, otto)):
        rows = [(state, age) for state in JobState for age in (AGES if state in FINAL else AGES[:1])] * times
        for state, age in rows:
            job = cluster.submit(gpus=0, name=f"{state.lower()}-{age.days}", user=user)
            ended = timezone.now() - age if state in FINAL else None
            waits = job.waiting_since if state == JobState.PENDING else None
            Job.objects.filter(pk=job.pk).update(state=state, ended_at=ended, waiting_since=waits)
    return cluster


@pytest.fixture
def lena(client, crowd):
    client.force_login(crowd.owner, backend="django.contrib.auth.backends.ModelBackend")
    return client


def part(client, name, view):
    cache.clear()
    answer = client.get(f"/home/parts/{name}?view={view}")
    assert answer.status_code == 200
    return answer.content.decode()


def listed(client, url):
    """Return the jobs that a list holds, from all of its pages, and how many it says there are."""
    found, pages = [], 0
    while url:
        page = client.get(url)
        assert page.status_code == 200, page.content[:300]
        pages += 1
        found += [row["id"] for row in page.context["rows"]]
        paging = page.context["paging"]
        url = paging["next_url"]
    total = re.search(r"(\d+) rows", paging["summary"])
    assert int(total[1]) == len(found) == len(set(found)), (pages, paging)
    return found


@pytest.mark.parametrize(
    ("view", "counts"),
    [
        ("mine", {"Running": 2, "Waiting": 3, "Ended today": 6}),
        ("vision-lab", {"Running": 6, "Waiting": 9, "Ended today": 18}),
    ],
)
def test_each_group_links_to_the_jobs_that_it_counts(lena, view, counts):
    html = part(lena, "jobs", view)
    groups = re.findall(r'<strong>([A-Za-z ]+)</strong> <a href="([^"]+)"[^>]*>(\d+)</a>', html)
    assert {name: int(count) for name, _, count in groups} == counts
    for name, url, count in groups:
        assert len(listed(lena, unescape(url))) == int(count), name
    more = re.findall(r'<a href="([^"]+)">and (\d+) more</a>', html)
    shown = {name: min(5, count) for name, count in counts.items()}
    rests = [counts[name] - shown[name] for name in counts if counts[name] > shown[name]]
    assert [int(count) for _, count in more] == rests
    assert {url for url, _ in more} <= {url for _, url, _ in groups}


def test_bad_ends_that_need_me_are_listed_and_one_that_i_looked_at_is_not(lena, crowd):
    seen = Job.objects.filter(
        owner=crowd.owner, state=JobState.TIMEOUT, ended_at__gte=timezone.now() - AGES[0] * 2
    ).get()
    Looked.objects.create(user=crowd.owner, job=seen, what="end")
    mates = Job.objects.filter(owner__username="tim", state=JobState.FAILED).first()
    Looked.objects.create(user=given.member("tim", crowd.tenant), job=mates, what="end")
    lead, url = re.search(
        r"<strong>(\d+) jobs ended badly.*?href=\"([^\"]+)\"", part(lena, "needs", "mine"), re.DOTALL
    ).groups()
    found = listed(lena, unescape(url))
    assert len(found) == int(lead) == 7
    assert seen.pk not in found


def test_more_bad_ends_than_are_read_are_counted(lena, crowd, monkeypatch):
    monkeypatch.setattr(needs, "READ_MOST", 3)
    lead, url = re.search(
        r"<strong>(\d+) jobs ended badly.*?href=\"([^\"]+)\"", part(lena, "needs", "mine"), re.DOTALL
    ).groups()
    assert len(listed(lena, unescape(url))) == int(lead) == 8


def test_a_quotas_line_leads_to_the_jobs_that_fill_it(lena, crowd):
    Job.objects.filter(state__in=FINAL).update(ended_at=timezone.now() - AGES[2])  # no bad end is in the way
    Tenant.objects.filter(pk=crowd.tenant.pk).update(queued_jobs_quota=6)
    line = re.search(r"uses (\d+) of its 6 waiting jobs.*?href=\"([^\"]+)\"", part(lena, "needs", "mine"), re.DOTALL)
    assert len(listed(lena, unescape(line[2]))) == int(line[1]) == 6
