"""The overview that begins with my jobs: their owners, those that need me, nothing of other tenants, and its cost."""

import re
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.people.accounts.models import Looked
from portal.people.tenants.models import Tenant
from portal.planning.offers.services import offers_of
from portal.planning.rounds.models import StartForecast
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.read.ends import Expected, expected_end
from portal.work.jobs.models import Attempt, Job
from portal.work.jobs.states import JobState
from tests.portal import given

pytestmark = pytest.mark.django_db
BACKEND = "django.contrib.auth.backends.ModelBackend"


def browser_of(user):
    client = Client()
    client.force_login(user, backend=BACKEND)
    return client


@pytest.fixture
def browser(cluster):
    return browser_of(cluster.owner)


def text(client, path="/?view=mine"):
    answer = client.get(path)
    assert answer.status_code == 200
    return answer.content.decode()


def part(client, name, view="mine"):
    return text(client, f"/home/parts/{name}?view={view}")


def test_a_member_begins_with_own_jobs_and_the_choice_is_kept(browser, cluster):
    cluster.submit(name="my-own-job", gpus=1)
    page = text(browser, "/")
    assert "My jobs" in page
    assert "my-own-job" in page
    assert "My jobs" in text(browser, "/?view=cluster"), "that one is for operators"
    assert f"Jobs of {cluster.tenant.name}" in text(browser, f"/?view={cluster.tenant.name}")
    assert "My jobs" not in text(browser, "/"), "the last choice is remembered"
    assert "My jobs" in text(browser, "/?view=mine")
    assert "My jobs" in text(browser_of(cluster.owner), "/"), "a new session begins anew"


def test_an_operator_begins_with_the_cluster(cluster):
    client = browser_of(given.operator())
    assert "My jobs" not in text(client, "/")
    assert "My jobs" in text(client, "/?view=mine")


def test_a_foreign_tenants_name_is_no_choice(browser):
    Tenant.objects.create(name="zebra")
    assert "zebra" not in text(browser, "/?view=zebra")


def test_mine_and_my_tenants_are_apart(browser, cluster):
    mate = given.member("tomas", cluster.tenant)
    cluster.submit(name="mine-alone", gpus=1)
    job = cluster.submit(name="of-a-mate", gpus=1)
    Job.objects.filter(pk=job.pk).update(owner=mate)
    assert "of-a-mate" not in part(browser, "jobs")
    both = part(browser, "jobs", cluster.tenant.name)
    assert "mine-alone" in both
    assert "of-a-mate" in both
    assert "tomas" in both


def test_two_tenants_see_nothing_of_each_other(browser, cluster):
    """The page of one is the same whatever the other's jobs are called and numbered."""
    cluster.submit(name="mine", gpus=1)
    foreign = Tenant.objects.create(name="zebra")
    owner = given.member("zoe", foreign)
    job = cluster.started(gpus=2, name="zebra-secret").job
    Job.objects.filter(pk=job.pk).update(tenant=foreign, owner=owner)
    planning_run()
    whole = text(browser, "/?view=mine")
    for name in ("zebra", "secret", "zoe", f"#{job.pk} "):
        assert name not in whole
    assert "other tenants 2" in whole, "how many GPUs others hold is the cluster's figure"
    assert "zebra-secret" in text(browser_of(owner), "/?view=mine")


def failed(cluster, **fields):
    job = cluster.submit(name="broken", gpus=1)
    values = {"state": JobState.FAILED, "ended_at": timezone.now(), "end_detail": "exit 127", "exit_code": 127}
    Job.objects.filter(pk=job.pk).update(**(values | fields))
    return job


def test_a_failure_needs_me_until_i_look(browser, cluster):
    job = failed(cluster)
    needs = part(browser, "needs")
    assert f"#{job.pk} broken failed" in needs
    text(browser, f"/jobs/{job.pk}/")
    browser_of(given.member("mate", cluster.tenant)).get(f"/jobs/{job.pk}/")
    assert Looked.objects.get().user == cluster.owner, "another's look counts for nobody"
    from portal.pages.dashboard.home.needs import needs_make
    from portal.pages.dashboard.home.scope import Scope

    assert needs_make(Scope(cluster.owner, "mine", [cluster.tenant])) == []


def test_an_end_for_an_idle_time_out_is_not_told_as_one_for_the_time_limit(browser, cluster):
    job = failed(cluster, state=JobState.TIMEOUT, end_detail="nobody used it for 30 min, its idle time-out")
    needs = part(browser, "needs")
    assert f"#{job.pk} broken timed out" in needs
    assert "time limit" not in needs


def test_a_line_is_put_aside(browser, cluster):
    jobs = [failed(cluster) for _ in range(3)]
    assert "3 jobs ended badly" in part(browser, "needs")
    form = {"what": "end", "jobs": ",".join(str(job.pk) for job in jobs)}
    answer = browser.post("/home/dismiss?view=mine", form, headers={"HX-Request": "true"})
    assert "ended badly" not in answer.content.decode()
    assert Looked.objects.count() == 3
    browser.post("/home/dismiss?view=mine", form, headers={"HX-Request": "true"})
    assert Looked.objects.count() == 3


def test_foreign_and_wrong_numbers_are_not_noted(cluster):
    job = failed(cluster)
    foreign = browser_of(given.member("zoe", Tenant.objects.create(name="zebra")))
    foreign.post("/home/dismiss", {"what": "end", "jobs": f"{job.pk},x,-1,{'9' * 40},999999"})
    assert not Looked.objects.exists()
    assert foreign.post("/home/dismiss", {"what": "nothing"}).status_code == 400


def test_an_offer_that_was_worked_out_is_shown(browser, cluster):
    cluster.started(gpus=2)
    job = cluster.submit(gpus=4, expected_duration_s=600)
    planning_run()
    assert browser.get("/home/offer").status_code == 204
    assert f"#{job.pk} could start now" in part(browser, "needs")
    job.refresh_from_db()
    assert offers_of(job, allow=lambda: None).fresh


def test_a_quota_nearly_reached_is_seen(browser, cluster):
    """Story 17."""
    cluster.started(gpus=2)
    Tenant.objects.filter(pk=cluster.tenant.pk).update(gpu_quota=2)
    assert "uses 2 of its 2 GPUs at one time" in part(browser, "needs")
    assert "2 of 2" in part(browser, "share")


def test_a_time_limit_that_will_hurt_is_seen(browser, cluster):
    from portal.planning.estimation.models import JobProgress

    attempt = cluster.running(gpus=1, time_limit_s=3600)
    now = timezone.now()
    Attempt.objects.filter(pk=attempt.pk).update(started_at=now - timedelta(minutes=50))
    JobProgress.objects.create(job=attempt.job, epoch=1, samples_done=40, samples_total=100, fraction=0.4, at=now)
    assert "reaches its time limit" in part(browser, "needs")
    JobProgress.objects.update(fraction=0.95)
    from portal.pages.dashboard.home.needs import needs_make
    from portal.pages.dashboard.home.scope import Scope

    assert needs_make(Scope(cluster.owner, "mine", [cluster.tenant])) == []


def test_the_end_is_told_by_the_job_then_by_its_expected_time_and_never_after_its_limit(cluster):
    attempt, now = cluster.running(gpus=1), timezone.now()
    attempt.started_at, job = now - timedelta(seconds=100), attempt.job
    job.ran_s, job.age_s, job.time_limit_s = 0.0, 400.0, None
    job.age_source = "samples"
    assert expected_end(job, attempt, 0.5, now) == Expected("progress", median_at=now + timedelta(seconds=100))
    assert expected_end(job, attempt, None, now) == Expected("samples", median_at=now + timedelta(seconds=300))
    job.time_limit_s, limit = 150, now + timedelta(seconds=50)
    assert expected_end(job, attempt, 0.5, now) == Expected("limit", median_at=limit, latest_at=limit)
    job.age_s = 50.0
    assert expected_end(job, attempt, None, now) is None


def test_a_waiting_job_has_its_range_on_a_line(browser, cluster):
    cluster.started(gpus=4)
    job, now = cluster.submit(gpus=4), timezone.now()
    at = {name: now + timedelta(minutes=m) for name, m in (("earliest_at", 20), ("median_at", 25), ("latest_at", 30))}
    first = {f"first_{name}": value for name, value in at.items()}
    StartForecast.objects.create(job=job, epoch=0, first_at=now, at=now, **at, **first)
    assert "b-home-line" in part(browser, "jobs")
    StartForecast.objects.update(latest_at=None, median_at=None)


def test_the_cost_does_not_grow_with_jobs_or_reloads(browser, cluster):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            text(browser)
        return len(captured)

    for number in range(3):
        cluster.submit(name=f"job-{number}", gpus=4)
    failed(cluster)
    planning_run()
    queries()
    before = queries()
    for number in range(12):
        cluster.submit(name=f"more-{number}", gpus=1)
        failed(cluster)
    planning_run()
    assert queries() <= before + 3
    assert before <= 60


def test_arrays_are_one_row(browser, cluster):
    cluster.submit(name="sweep", gpus=1, array={"size": 20})
    page = part(browser, "jobs")
    assert page.count('b-home-job"') == 1
    assert "array of 20 tasks" in page


def test_gpus_and_node_of_a_job_do_not_run_together(browser, cluster):
    """On a phone they stand in one line: it said 1rtx-02."""
    attempt = cluster.running(gpus=2)
    node = attempt.allocations.get().node.name
    cluster.submit(gpus=[1], name="waits")
    place = [
        each.split('<span class="b-home-goes">')[0] for each in part(browser, "jobs").split('class="b-home-place">')[1:]
    ]
    words = [" ".join(re.sub(r"<[^>]+>", "", each).split()) for each in place]
    assert words[0] == f"2 GPUs on {node}"
    assert words[1] == "1 GPU"


def test_a_job_that_ended_shows_the_gpus_that_it_had(browser, cluster):
    """It showed what the job would have accepted: {1, 2, 4} GPUs."""
    cluster.end(cluster.start(cluster.submit(gpus=[1, 2, 4], name="one"), gpus=1))
    cluster.end(cluster.start(cluster.submit(gpus=[1, 2, 4], name="two"), gpus=2))
    words = re.sub(r"<[^>]+>|\s+", " ", part(browser, "jobs"))
    assert re.search(r"two (?:ran [^G]*?)? *2 GPUs ", words), words
    assert re.search(r"one (?:ran [^G]*?)? *1 GPU ", words), words


def test_a_gpu_for_jobs_that_share_is_told_apart_from_one_that_a_job_could_have(browser, cluster):
    """The card said 0 GPUs beside cells that are idle."""
    assert "for sharing" not in part(browser, "cluster")
    given.shared(cluster.node, 3)
    cluster.started(gpus=3)
    cache.clear()
    card = part(browser, "cluster")
    assert "at most 0 free on one node" in card
    assert "3 yours, 1 for sharing" in card
    assert "for sharing 1" in card
    assert "free 0" in card, "the legend"


def test_a_failed_job_says_in_its_narrow_column_how_long_it_waited_and_no_more(browser, cluster):
    cluster.end(cluster.running(gpus=1), exit_code=3)
    row = part(browser, "jobs").split('class="b-home-when">')[1]
    assert "waited" in row
    assert "LR" not in row.split("</span>")[0]


def test_a_cpu_job_asks_for_no_gpus(browser, cluster):
    job = cluster.submit(gpus=0, cores=1)
    page = re.sub(r"<[^>]+>", " ", text(browser, f"/jobs/{job.pk}/"))
    assert "GPUs none" in " ".join(page.split())


def test_parts_of_gpus_are_told_so_that_mine_and_the_others_come_to_the_whole(browser, cluster):
    """Rounded each for itself, 0.5 of mine and 1.5 of the others' were 0 and 2 of 2."""
    given.shared(cluster.node, 3)
    mate = given.member("tomas", cluster.tenant)
    for owner in (cluster.owner, mate):
        cluster.submit(user=owner, **given.shareable(0.5))
    cluster.submit(user=mate, gpus=1)
    planning_run()
    card = re.sub(r"<[^>]+>|\s+", " ", part(browser, "share"))
    assert "2 of 4" in card
    assert "you 0.5" in card
    assert f"others of {cluster.tenant.name} 1.5" in card
