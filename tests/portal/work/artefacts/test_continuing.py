"""Continue from an earlier job's artefact: the form, REST and the description; who began from whom; other tenants see none of it."""

from html import escape

import pytest
from django.test import Client
from django.urls import reverse

from portal.foundation.errors import BerthError
from portal.people.tenants.models import Tenant
from portal.work.artefacts.services import artefacts_remove
from portal.work.jobs.fields.keeping import inputs_read, inputs_text, job_inputs
from portal.work.jobs.finding.lineage import MOST_TOLD
from portal.work.jobs.models import Job, JobInput
from tests.portal import given
from tests.portal.work.artefacts.sending import Sender
from tests.portal.work.artefacts.test_inputs import ask, refused

pytestmark = pytest.mark.django_db


@pytest.fixture
def first(cluster):
    """An ended job that kept two checkpoints."""
    sender = Sender(cluster, cluster.running(name="train", command="python train.py", time_limit_s=7200))
    for path in ("checkpoints/1.pt", "checkpoints/last.pt", "checkpoints-old/0.pt"):
        sender.send(path, path.encode())
    cluster.end(sender.attempt)
    return sender.attempt.job


@pytest.fixture
def lena(cluster):
    client = Client()
    client.force_login(cluster.owner)
    return client


def began(job, path="checkpoints/last.pt", **more):
    return {"inputs": [{"job": job.number, "path": path, **more}]}


def page(client, job):
    return client.get(reverse("job-detail", args=[job.number]))


def test_the_form_begins_with_the_earlier_jobs_description_and_its_artefact(first, lena):
    shown = lena.get(reverse("job-artefacts", args=[first.number]), {"path": "checkpoints/last.pt"}).content.decode()
    there = f"{reverse('job-submit')}?from={first.number}&begin_with=checkpoints%2F"
    assert escape(f"{there}last.pt") in shown
    assert f'{escape(there)}"' in shown  # the folder
    form = lena.get(f"{there}last.pt").context["fields"]
    assert form["command"]["value"] == "python train.py"
    assert form["time_limit_s"]["value"] == "2 h"
    assert form["inputs"]["value"] == f"{first.number}:checkpoints/last.pt as checkpoints/last.pt"


def test_what_the_form_says_is_submitted_and_comes_back(first, lena):
    said = {"command": "true", "gpu_mode": "set", "gpus": "1", "artefacts": "out/*.pt\r\nlog.txt\r\n"}
    lena.post(reverse("job-submit"), said | {"inputs": f"#{first.number}:checkpoints/ as start\r\n"})
    job = Job.objects.latest("pk")
    assert job.payload.description["artefacts"] == ["out/*.pt", "log.txt"]
    assert list(job.inputs.values_list("source", "path", "target")) == [(first.pk, "checkpoints/", "start")]
    again = lena.get(reverse("job-submit"), {"from": job.number}).context["fields"]
    assert again["inputs"]["value"] == f"{first.number}:checkpoints/ as start"
    assert again["artefacts"]["value"] == "out/*.pt\nlog.txt"
    refusal = lena.post(reverse("job-submit"), said | {"inputs": "checkpoints/"})
    assert refusal.status_code == 400
    assert "write JOB:PATH" in refusal.context["fields"]["inputs"]["error"]


def test_a_folder_travels_with_all_that_is_kept_in_it_and_nothing_beside_it(cluster, first):
    later = Sender(cluster, cluster.running(**began(first, "checkpoints/", **{"as": "start"})))
    spec = ask(later, f"attempts/{later.attempt.key}/spec").json()
    assert {each["path"] for each in spec["upload"]} == {"start/1.pt", "start/last.pt"}
    for each in spec["upload"]:
        content = ask(later, f"attempts/{later.attempt.key}/content/{each['sha256']}").getvalue()
        assert content == each["path"].replace("start", "checkpoints").encode()
    assert refused(cluster, **began(first, "other/")) == ("input_missing", "inputs")


def test_a_task_of_an_array_is_named_by_its_number(cluster):
    array = cluster.submit(array={"size": 2})
    task = Job.objects.get(array=array, array_index=0)
    sender = Sender(cluster, cluster.start(task))
    cluster.report(sender.attempt, "running", pid=1)
    sender.send("last.pt", b"abc")
    cluster.end(sender.attempt)
    later = cluster.submit(**began(task, "last.pt"))
    assert task.number == f"{array.pk}_0"
    assert later.inputs.get().source == task
    assert refused(cluster, inputs=[{"job": f"{array.pk}_7", "path": "last.pt"}]) == ("unknown_input", "inputs")


def test_pages_and_rest_say_who_began_from_whom(cluster, first, lena, django_assert_max_num_queries):
    later = [cluster.submit(name=f"later-{each}", **began(first)) for each in range(3)]
    own = page(lena, later[0]).content.decode()
    assert f"#{first.number}&#x27;s checkpoints/last.pt</a>, laid at <code>last.pt</code>" in own
    theirs = page(lena, first).content.decode()
    assert f"#{later[-1].number}</a> and 2 more began from it" in theirs
    found = lena.get(f"/api/v1/jobs/{first.number}").json()["continued_by"]
    assert found == {"count": 3, "jobs": [each.number for each in reversed(later)]}
    row = {"job": first.number, "path": "checkpoints/last.pt", "as": "last.pt", "kept": True}
    assert lena.get(f"/api/v1/jobs/{later[0].number}").json()["inputs"] == [row]
    artefacts_remove(job=first, actor=cluster.owner, path="checkpoints")
    assert "not kept any more" in page(lena, later[0]).content.decode()
    assert lena.get(f"/api/v1/jobs/{later[0].number}").json()["inputs"] == [row | {"kept": False}]


def test_a_job_that_many_began_from_lists_the_newest(cluster, first, lena):
    rows = [JobInput(job=cluster.submit(), source=first, path="a", target="a") for _ in range(MOST_TOLD + 5)]
    JobInput.objects.bulk_create(rows)
    shown = page(lena, first).context["job"]["lineage"]
    assert (len(shown["later"]), shown["others"], shown["more"]) == (MOST_TOLD, MOST_TOLD + 4, 5)


def test_nothing_of_it_is_another_tenants_to_see(cluster, first):
    later = cluster.submit(name="later", **began(first))
    other = Tenant.objects.create(name="nlp")
    nora = Client()
    nora.force_login(given.member("nora", other))
    for job in (first, later):
        assert page(nora, job).status_code == 404
        assert nora.get(f"/api/v1/jobs/{job.number}/description", {"begin_with": "checkpoints/"}).status_code == 404
        assert nora.get(reverse("job-submit"), {"from": job.number, "begin_with": "a"}).status_code == 404
    assert refused(cluster, tenant="nlp", **began(first))[0]
    own = cluster.submit(user=given.member("nora", other))
    JobInput.objects.create(job=own, source=first, path="a", target="a")  # as no road makes it
    shown = page(nora, own).content.decode()
    assert "Began from a of a job that is gone" in shown
    assert f"#{first.number}&#x27;s" not in shown
    lena = Client()
    lena.force_login(cluster.owner)
    assert lena.get(f"/api/v1/jobs/{first.number}").json()["continued_by"]["jobs"] == [later.number]


def test_the_description_to_continue_with_is_one_jobs_and_waits_for_nothing(cluster, first, lena):
    job = cluster.submit(depends_on=[first.pk], array={"size": 2}, **began(first))
    assert lena.get(f"/api/v1/jobs/{job.number}/description").json() == job.payload.description
    found = lena.get(f"/api/v1/jobs/{job.number}_1/description", {"begin_with": "out/"}).json()
    assert not found.keys() & {"array", "depends_on"}
    assert found["inputs"][-1] == {"job": f"{job.number}_1", "path": "out/"}
    assert found["inputs"][0]["path"] == "checkpoints/last.pt"


def test_an_input_that_leads_elsewhere_or_clashes_is_refused(subtests):
    for given_, code in [
        ([{"job": "41_", "path": "a"}], "invalid"),
        ([{"job": "../1", "path": "a"}], "invalid"),
        ([{"job": True, "path": "a"}], "wrong_type"),
        ([{"job": 1, "path": "/"}], "blank"),
        ([{"job": 1, "path": "a//"}], "bad_path"),
        ([{"job": 1, "path": "a/../"}], "bad_path"),
        ([{"job": 1, "path": "a/", "as": "../b"}], "bad_path"),
        ([{"job": 1, "path": "a"}, {"job": 1, "path": "b", "as": "a/b"}], "duplicate"),
    ]:
        with subtests.test(given_=given_, code=code):
            with pytest.raises(BerthError) as found:
                job_inputs(given_)
            assert found.value.code == code


def test_lines_of_the_form_and_the_description_say_the_same():
    text = "41:a b/last.pt as start.pt\n41_3:checkpoints/"
    assert inputs_text(inputs_read(text)) == text
    assert inputs_text(None) == inputs_text([3]) == ""
