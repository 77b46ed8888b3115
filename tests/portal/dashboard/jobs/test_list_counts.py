"""Each count of the job list, followed, gives as many rows, whatever filters stand already."""

import pytest
from django.utils import timezone

from portal.jobs.models import Job
from portal.jobs.states import FINAL, JobState
from portal.tenants.models import Tenant
from tests.portal import given

pytestmark = pytest.mark.django_db
REASONS = ("not-enough-idle-gpus", "tenant-quota", "")


@pytest.fixture
def lena(client, cluster):
    """A member who sees jobs in each state with several reasons, beside another tenant's."""
    otto = given.member("otto", Tenant.objects.create(name="speech-lab"))
    for user in (cluster.owner, otto):
        for place, state in enumerate(JobState):
            job = cluster.submit(gpus=0, user=user)
            ended = timezone.now() if state in FINAL else None
            Job.objects.filter(pk=job.pk).update(state=state, ended_at=ended, reason=REASONS[place % len(REASONS)])
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
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
    choices = next(menu["choices"] for menu in shown["filters"] if menu["label"] == "Reason")
    counted = [(chip["url"], chip["count"]) for chip in shown["chips"]]
    counted += [(choice["url"], choice["count"]) for choice in choices]
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


@pytest.mark.parametrize(("query", "said"), [("state=RUNNING,x", "no state &#x27;x&#x27;"), ("looked=yes", "`looked`")])
def test_what_means_nothing_is_named(lena, query, said):
    answer = lena.get(f"/jobs/?{query}")
    assert answer.status_code == 400
    assert said in answer.content.decode()


def test_what_i_looked_at_can_be_left_out_and_the_filter_cleared(lena):
    from portal.accounts.models import Looked

    seen = Job.objects.filter(owner__username="lena", state=JobState.FAILED).get()
    Looked.objects.create(user=seen.owner, job=seen, what="end")
    shown = read(lena, "?state=FAILED&looked=no")
    assert [row["id"] for row in shown["rows"]] == []
    assert ("Bad end", "not looked at", "/jobs/?state=FAILED") in shown["fields"]["on"]
