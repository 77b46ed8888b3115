"""Each count of the job list, followed, gives as many rows, with any filters."""

from datetime import timedelta

import pytest
from django.utils import timezone

from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Job
from portal.work.jobs.states import FINAL, JobState
from tests.portal import given
from tests.portal.lasting import lasting

pytestmark = pytest.mark.django_db
REASONS = ("not-enough-idle-gpus", "tenant-quota", "")


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker):
    """Jobs in each state with several reasons, of lena and of another tenant's member."""
    with lasting(django_db_blocker):
        cluster = given.Cluster.make()
        otto = given.member("otto", Tenant.objects.create(name="speech-lab"))
        for user in (cluster.owner, otto):
            for place, state in enumerate(JobState):
                job = cluster.submit(gpus=0, user=user)
                ended = timezone.now() if state in FINAL else None
                Job.objects.filter(pk=job.pk).update(state=state, ended_at=ended, reason=REASONS[place % len(REASONS)])
        yield cluster


@pytest.fixture
def lena(client, built, db):
    client.force_login(built.owner, backend="django.contrib.auth.backends.ModelBackend")
    return client


def read(client, query):
    page = client.get(f"/jobs/{query}")
    assert page.status_code == 200, page.content[:300]
    return page.context


@pytest.mark.parametrize(
    "query",
    ["?", "?state=HELD", "?reason=tenant-quota", "?state=PENDING,HELD,PREEMPTED&sort=job", "?owner=mine&sort=-end"],
)
def test_each_chip_and_reason_gives_the_rows_that_it_counts(lena, query):
    shown = read(lena, query)
    counted = [(chip["url"], chip["count"]) for chip in shown["chips"]]
    for code, words, _ in shown["fields"]["reason"]:
        counted.append((f"{query}&reason={code}", int(words.rpartition(", ")[2])))
    assert len(counted) > 1
    for url, count in counted:
        assert len(read(lena, url.removeprefix("/jobs/"))["rows"]) == count, url


def test_several_states_are_listed_together_in_the_lists_order(lena):
    shown = read(lena, "?state=RUNNING,PREEMPTED,%20PENDING")
    assert [row["state"] for row in shown["rows"]] == ["PENDING", "PREEMPTED", "RUNNING"]
    assert [chip["state"] for chip in shown["chips"] if chip["selected"]] == ["RUNNING", "PENDING", "PREEMPTED"]
    assert shown["query"] == "?state=PENDING,RUNNING,PREEMPTED"
    csv = lena.get("/jobs/csv?state=RUNNING,PREEMPTED,PENDING").getvalue().decode()
    assert len(csv.strip().splitlines()) == 1 + 3


@pytest.mark.parametrize("sort", ["", "tenant", "-owner"])
def test_what_a_reader_did_is_counted_and_listed_at_once(lena, sort):
    """No count is kept from one reader's page to the next."""
    waits = Job.objects.get(owner__username="lena", state=JobState.PENDING)
    before = {chip["state"]: chip["count"] for chip in read(lena, f"?sort={sort}")["chips"]}
    lena.post("/jobs/bulk", {"action": "hold", "job": [waits.number]})
    shown = read(lena, f"?sort={sort}&state=HELD")
    after = {chip["state"]: chip["count"] for chip in shown["chips"]}
    assert after["HELD"] == before["HELD"] + 1
    assert after.get("PENDING", 0) == before["PENDING"] - 1
    assert {str(waits.number)} <= {str(row["id"]) for row in shown["rows"]}
    assert len(shown["rows"]) == after["HELD"]


@pytest.mark.parametrize("sort", ["", "tenant", "owner"])
def test_jobs_submitted_within_a_time_are_counted_and_listed(lena, sort):
    old = Job.objects.filter(owner__username="lena", state__in=[JobState.PENDING, JobState.FAILED])
    old.update(submitted_at=timezone.now() - timedelta(days=2))
    shown = read(lena, f"?when=submitted&within=24h&sort={sort}")
    counted = {chip["state"]: chip["count"] for chip in shown["chips"]}
    listed = [row["state"] for row in shown["rows"]]
    assert counted.pop(None) == len(listed) == len(JobState) - 2
    assert sorted(counted) == sorted(listed)


@pytest.mark.parametrize(("query", "said"), [("state=RUNNING,x", "no state &#x27;x&#x27;"), ("looked=yes", "`looked`")])
def test_what_means_nothing_is_named(lena, query, said):
    answer = lena.get(f"/jobs/?{query}")
    assert answer.status_code == 400
    assert said in answer.content.decode()


def test_what_i_looked_at_can_be_left_out_and_the_filter_cleared(lena):
    from portal.people.accounts.models import Looked

    seen = Job.objects.filter(owner__username="lena", state=JobState.FAILED).get()
    Looked.objects.create(user=seen.owner, job=seen, what="end")
    shown = read(lena, "?state=FAILED&looked=no")
    assert [row["id"] for row in shown["rows"]] == []
    assert ("Bad end", "not looked at", "/jobs/?state=FAILED") in shown["fields"]["on"]
