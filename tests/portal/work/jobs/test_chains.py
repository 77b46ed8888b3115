"""What a job waits for: kinds of dependencies, singletons, and the chain on its page with where it broke."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.foundation.errors import BerthError, Conflict
from portal.people.tenants.models import Membership, Tenant
from portal.planning.rounds.planning.queued import jobs_blocked
from portal.work.jobs.models import Job, JobDependency
from portal.work.jobs.services.control import job_cancel
from portal.work.jobs.states import JobState
from tests.portal import given


def ended(cluster, attempt, exit_code):
    cluster.end(attempt, exit_code=exit_code)
    return Job.objects.get(pk=attempt.job_id)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_each_kind_comes_true_after_its_end_and_no_other(cluster, exit_code):
    attempt = cluster.running(cluster.node, name="first")
    kinds = {
        kind: cluster.submit(depends_on=[{"job": attempt.job_id, "kind": kind}]) for kind in ("ok", "any", "notok")
    }
    assert jobs_blocked().keys() == {job.pk for job in kinds.values()}
    ended(cluster, attempt, exit_code)
    assert jobs_blocked() == {}
    states = {kind: Job.objects.get(pk=job.pk).state for kind, job in kinds.items()}
    never = "ok" if exit_code else "notok"
    assert states == {kind: "CANCELLED" if kind == never else "PENDING" for kind in kinds}
    with pytest.raises(Conflict, match="could never start"):
        cluster.submit(depends_on=[{"job": attempt.job_id, "kind": never}])


def test_a_singleton_waits_for_its_owners_earlier_jobs_of_its_name(cluster):
    attempt = cluster.running(cluster.node, name="nightly")
    mate = given.member("tim", cluster.tenant)
    cluster.submit(name="nightly", user=mate)
    cluster.submit(name="other")
    second = cluster.submit(name="nightly", depends_on=[{"kind": "singleton"}])
    third = cluster.submit(name="nightly", depends_on=[{"kind": "singleton"}])
    waits = {job: set(JobDependency.objects.filter(job=job).values_list("on_id", flat=True)) for job in (second, third)}
    assert waits == {second: {attempt.job_id}, third: {attempt.job_id, second.pk}}
    ended(cluster, attempt, 1)
    assert jobs_blocked().keys() == {third.pk}
    job_cancel(job=second, actor=cluster.owner)
    assert jobs_blocked() == {}
    assert Job.objects.get(pk=third.pk).state == JobState.PENDING


def test_a_singleton_and_a_number_are_both_kept_and_a_singleton_twice_is_refused(cluster):
    first = cluster.submit(name="a")
    job = cluster.submit(name="a", depends_on=[{"kind": "singleton"}, first.pk])
    assert list(job.dependencies.values_list("on_id", "kind")) == [(first.pk, "ok")]
    with pytest.raises(BerthError, match="twice"):
        cluster.submit(depends_on=[{"kind": "singleton"}, {"kind": "singleton"}])
    with pytest.raises(BerthError, match="depends_on"):
        cluster.submit(depends_on=[{"kind": "notok"}])


def test_too_many_of_one_name_are_refused(cluster, monkeypatch):
    monkeypatch.setattr("portal.work.jobs.services.asked.dependencies.MAX_DEPENDENCIES", 1)
    cluster.submit(name="a")
    cluster.submit(name="a", depends_on=[{"kind": "singleton"}])
    with pytest.raises(Conflict, match="More than 1 jobs named a"):
        cluster.submit(name="a", depends_on=[{"kind": "singleton"}])


# ---- the page --------------------------------------------------------------------------------------------------------


@pytest.fixture
def owner(client, cluster):
    client.force_login(cluster.owner)
    return client


def chain_on(client, job):
    """Return the sentence and the rows of the card, None without one."""
    page = client.get(f"/jobs/{job.number}/")
    assert page.status_code == 200
    chain = page.context["job"]["chain"]
    return chain and ("".join(part["text"] for part in chain["sentence"]), chain["rows"], page.content.decode())


def test_a_chain_that_broke_says_where_and_what_follows(owner, cluster):
    """Story 10: prepare, train, evaluate; the first fails, and each page says what that means."""
    attempt = cluster.running(cluster.node, name="prepare")
    train = cluster.submit(name="train", depends_on=[attempt.job_id])
    evaluate = cluster.submit(name="evaluate", depends_on=[train.pk])
    said, rows, page = chain_on(owner, train)
    assert said == f"It may start once #{attempt.job_id} prepare has completed."
    assert [row["words"] for row in rows] == [
        f"#{attempt.job_id} prepare",
        f"#{train.pk} train",
        f"#{evaluate.pk} evaluate",
    ]
    assert [row["state"] for row in rows] == ["RUNNING", "PENDING", "PENDING"]
    assert page.count('<a class="b-chain-link" href="/jobs/') == 3
    assert f'aria-label="#{train.pk} train, Waiting, this job"' in page
    ended(cluster, attempt, 1)
    for job in (attempt.job, train, evaluate):
        said, rows, page = chain_on(owner, job)
        assert said.startswith(f"The chain broke at #{attempt.job_id} prepare (failed: ")
        assert f"#{train.pk} train, #{evaluate.pk} evaluate were cancelled and will not run." in said
        assert "b-chain-broken" in page
    assert chain_on(owner, cluster.submit(name="alone")) is None


def test_what_was_for_a_failure_says_that_it_was_not_needed(owner, cluster):
    attempt = cluster.running(cluster.node, name="train")
    clean = cluster.submit(name="clean", depends_on=[{"job": attempt.job_id, "kind": "notok"}])
    ended(cluster, attempt, 0)
    assert chain_on(owner, clean)[0].startswith("It was not needed")


def test_an_arrays_page_and_the_fragments_show_the_chain(owner, cluster):
    first = cluster.submit(name="first")
    array = cluster.submit(name="sweep", array={"size": 2}, depends_on=[first.pk])
    assert chain_on(owner, array)[1][0]["words"] == f"#{first.pk} first"
    for number in (array.number, first.number, f"{array.pk}_0"):
        assert "Before and after" in owner.get(f"/jobs/{number}/fragments/chain").content.decode()


def test_another_tenants_job_in_a_chain_has_no_number_and_no_name(client, cluster):
    other = Tenant.objects.create(name="speech-lab")
    Membership.objects.create(user=cluster.owner, tenant=other)
    secret = cluster.submit(name="zebra", tenant="speech-lab")
    job = cluster.submit(name="mine", tenant="vision-lab", depends_on=[secret.pk])
    client.force_login(given.member("tim", cluster.tenant))
    _, rows, page = chain_on(client, job)
    assert [row["words"] for row in rows] == ["a job of another tenant", f"#{job.pk} mine"]
    assert "zebra" not in page
    assert f"#{secret.pk} " not in page
    assert f"/jobs/{secret.pk}/" not in page
    assert client.get(f"/api/v1/jobs/{job.pk}").json()["depends_on"] == []
    client.force_login(cluster.owner)
    assert client.get(f"/api/v1/jobs/{job.pk}").json()["depends_on"] == [{"job": secret.pk, "kind": "ok"}]


def test_a_wide_chain_costs_no_more_and_says_that_there_is_more(owner, cluster):
    def cost(job):
        owner.get(f"/jobs/{job.number}/fragments/chain")
        with CaptureQueriesContext(connection) as captured:
            owner.get(f"/jobs/{job.number}/fragments/chain")
        return len(captured)

    first = cluster.submit(name="first")
    one = cluster.submit(depends_on=[first.pk])
    before = cost(first)
    for _ in range(50):
        cluster.submit(depends_on=[first.pk])
    assert cost(first) <= before + 1
    assert "There are more jobs in this chain" in owner.get(f"/jobs/{first.number}/fragments/chain").content.decode()
    assert one.pk
