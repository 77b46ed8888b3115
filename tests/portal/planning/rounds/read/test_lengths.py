"""How right expected run times were, from ended jobs in the database to the console."""

import pytest
from django.urls import reverse
from django.utils import timezone

from portal.people.tenants.models import Tenant
from portal.planning.rounds.planning.past import history_load, runs_load
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.read.lengths import lengths_record, similar_of_job
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.imports.sbatch import sbatch_import
from portal.work.jobs.models import Job
from scheduler.estimator.lengths import OF_LIMITS, OF_OWNER, length_of, like_length
from tests.portal import given


def test_jobs_of_the_size_teach_the_next_one_and_the_console_says_how_well(cluster, client):
    for place in range(12):
        cluster.ran(600.0 + 10 * place, ago_s=1000 - place)
    cluster.ran(300.0, ago_s=10, expected_duration_s=200.0)
    history = history_load()
    owner, tenant = cluster.owner.pk, cluster.tenant.pk
    length = like_length(history, (owner, tenant, None, None, 1))
    assert (length.source, length.median_s) == (OF_OWNER, 650.0)
    assert history_load() is history, "nobody ended, so nothing is learned again"
    rows = {row["source"]: row for row in lengths_record()}
    assert rows["declared by its owner"] == {"source": "declared by its owner", "jobs": 1, "half": 0, "most": 100}
    assert rows["no job had ended"]["jobs"] == 1
    client.force_login(given.operator())
    page = client.get(reverse("admin:rounds_operatorsetting_changelist")).content.decode()
    assert "Expected run times" in page
    assert "declared by its owner" in page


def test_a_time_limit_is_learned_and_bounds_a_planning(cluster):
    for place in range(6):
        cluster.ran(60.0 * 3**place, ago_s=1000 - place, time_limit_s=720 * 3**place)
    script = "#!/bin/bash\n#SBATCH --time=24:00:00\n#SBATCH --gpus=1\ntrue\n"
    job = cluster.submit(**sbatch_import(script, gpu_types=["A100"]).description)
    state = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    described = next(each for each in state.jobs if each.id == job.pk)
    length = length_of(described, state.history)
    assert (length.source, length.median_s) == (OF_LIMITS, pytest.approx(7200.0))
    assert length.quantile(0.99) <= 24 * 3600


def test_similar_jobs_are_the_tenant_s_own_and_say_whose(cluster, client, django_assert_num_queries):
    theirs = given.member("otto", Tenant.objects.create(name="audio-lab"))
    for place in range(12):
        cluster.ran(600.0 + 60 * place, ago_s=1000 - place, category="cv")
        cluster.ran(60_000.0 + place, ago_s=1000 - place, category="cv", user=theirs)
    job = cluster.submit(category="cv")
    with django_assert_num_queries(1):
        found = similar_of_job(job, user=cluster.owner)
    assert found == {
        "source": OF_OWNER,
        "runs": 12,
        "low_s": 660.0,
        "median_s": 930.0,
        "high_s": 1260.0,
        "declare_s": 960,
        "words": "Your last 12 jobs of this size and the category cv",
    }
    mate = given.member("mara", cluster.tenant)
    assert similar_of_job(job, user=mate)["words"] == "lena's last 12 jobs of this size and the category cv"
    first = cluster.submit(category="cv", user=mate)
    assert similar_of_job(first, user=mate)["words"] == "vision-lab's last 12 jobs of the category cv"
    assert similar_of_job(cluster.submit(category="nlp"), user=cluster.owner) is None, "no such job had ended"
    assert similar_of_job(cluster.submit(category="cv", expected_duration_s=5), user=cluster.owner) is None
    client.force_login(theirs)
    assert client.get(f"/api/v1/jobs/{job.number}/similar").status_code == 404
    client.force_login(cluster.owner)
    assert client.get(f"/api/v1/jobs/{job.number}/similar").json()["similar"]["runs"] == 12
    planned = client.post(
        "/api/v1/jobs/plan", {"command": "true", "category": "cv", "gpus": 1}, content_type="application/json"
    )
    assert planned.json()["similar"]["words"] == found["words"]


def test_jobs_that_ended_at_once_are_learned_in_one_order_whatever_the_database(django_assert_num_queries):
    """The errors of lengths depend on the order, and so does which are the latest 2 000; of equals a database may take any."""
    with django_assert_num_queries(1) as asked:
        runs_load()
    assert '"jobs_job"."id" DESC LIMIT' in asked[0]["sql"]


def test_who_declares_a_second_and_lets_each_job_fail_is_found_out(cluster):
    for state in ("FAILED", "CANCELLED", "FAILED"):
        cluster.ran(86_400.0, ago_s=100, expected_duration_s=1.0)
        Job.objects.filter(state="COMPLETED").update(state=state)
    cluster.ran(0.5, ago_s=50, expected_duration_s=1.0)
    Job.objects.filter(state="COMPLETED").update(state="FAILED")
    history = history_load()
    assert (len(history.told[cluster.owner.pk]), len(history.like)) == (3, 0)
