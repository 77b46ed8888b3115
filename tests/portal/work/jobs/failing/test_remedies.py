"""Remedies of failed jobs: a package is added and the same job submitted once; other changes open the form; none is guessed."""

import base64

import pytest
from django.test import Client

from portal.cluster.models import Gpu, GpuType
from portal.people.tenants.models import Tenant
from portal.work.jobs.failing.lines import LINE_CHARS, TAIL_BYTES, last_lines
from portal.work.jobs.failing.mending import remedies_now
from portal.work.jobs.listing import attempts_of
from portal.work.jobs.models import Job
from portal.work.jobs.services.logs import log_append
from tests.portal import given
from tests.portal.work.jobs.failing.files import encoded

pytestmark = pytest.mark.django_db
MISSING = b"Traceback (most recent call last):\n  File \"/w/train.py\", line 2, in <module>\n    import timm\nModuleNotFoundError: No module named 'timm'\n"
TORCH = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 22.00 MiB.\n"
TRAIN = {"train.py": "import os\nimport timm, torch\n"}


def files(**texts):
    return {name: {"base64": content} for name, content in encoded(texts).items()}


@pytest.fixture
def failed(cluster):
    """Make a job that failed with these last lines, on a node that builds environments."""
    cluster.node.software = {"installer": "pip"}
    cluster.node.save()

    def make(stderr=MISSING, *, end=None, **fields):
        attempt = cluster.running(**fields)
        if stderr:
            where = {"node": cluster.node, "key": attempt.key, "epoch": attempt.epoch, "rank": 0}
            log_append(**where, stream="stderr", offset=0, data=stderr)
        cluster.end(attempt, **(end or {"exit_code": 1}))
        return Job.objects.select_related("payload", "array__payload").get(pk=attempt.job_id)

    return make


@pytest.fixture
def browser(cluster):
    client = Client()
    client.force_login(cluster.owner)
    return client


def text_of(job, name="requirements.txt"):
    return base64.b64decode(job.payload.files[name]).decode()


def mended(browser, job):
    answer = browser.post(f"/jobs/{job.pk}/mend")
    assert answer.status_code == 302
    return Job.objects.select_related("payload").get(pk=int(answer.url.strip("/").rpartition("/")[2]))


def test_a_missing_package_is_added_and_the_same_job_submitted_once(browser, failed):
    job = failed(
        command="python3 train.py",
        files=files(**{"train.py": TRAIN["train.py"]}),
        gpus=2,
        name="aerial",
    )
    job.payload.description |= {"depends_on": [987_654]}  # it was done, and is gone
    job.payload.save()
    page = browser.get(f"/jobs/{job.pk}/").content.decode()
    assert (
        "Its software has no package <strong>timm</strong>, which train.py imports. It ended with exit code 1." in page
    )
    assert "<b>ModuleNotFoundError: No module named &#x27;timm&#x27;</b>" in page
    assert "Add timm to requirements.txt, with torch." in page
    again = mended(browser, job)
    assert again.pk != job.pk
    assert (again.name, again.gpus, again.payload.command, again.owner) == (
        "aerial",
        [2],
        "python3 train.py",
        job.owner,
    )
    assert text_of(again) == "timm\ntorch\n"
    assert again.payload.software == {"requirements": "timm\ntorch\n"}
    assert text_of(again, "train.py") == TRAIN["train.py"]
    assert mended(browser, job).pk == again.pk, "a second press submits nothing more"
    assert Job.objects.count() == 2


def test_it_is_added_to_the_requirements_that_there_are(browser, failed):
    for given_software, brought, found in (
        ({"requirements": "numpy==2.0"}, {}, "numpy==2.0\ntimm\n"),
        ({"requirements_file": "requirements.txt"}, {"requirements.txt": "numpy\n\n"}, "numpy\ntimm\n"),
        (None, {"requirements.txt": "numpy\n"}, "numpy\ntimm\n"),  # sent along, and not used
        (None, {"requirements.txt": "Timm>=1\n"}, "Timm>=1\n"),
    ):
        more = {"software": given_software} if given_software else {}
        again = mended(browser, failed(files=files(**{"train.py": "import timm", **brought}), **more))
        assert again.payload.software == {"requirements": found}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"software": {"requirements": "timm"}}, "it was installed, and was not found"),
        ({"software": {"requirements": "numpy --hash=sha256:" + "0" * 64}}, "a line without a hash fails the build"),
        ({"software": {"path": "/opt/torch"}}, "nobody may add to it"),
        ({"command": "python3 /data/train.py"}, "nobody knows what else it imports"),
        ({"files": files(**{"requirements.txt": "numpy".encode("utf-16")})}, "pip would read it, and Berth does not"),
        ({"files": files(**{"requirements.txt": "-r more.txt"})}, "a line that points to a file is refused"),
    ],
)
def test_what_is_not_certain_is_not_submitted(browser, failed, fields, why):
    job = failed(**fields)
    answer = browser.post(f"/jobs/{job.pk}/mend", follow=True).content.decode()
    assert "Nothing certain is known" in answer, why
    assert Job.objects.count() == 1
    assert f"/jobs/new?from={job.pk}&amp;mend={'files' if 'files' in fields else 'software'}#id_" in answer


def test_another_tenant_and_a_viewer_submit_nothing(cluster, browser, failed):
    job = failed(files=files(**TRAIN))
    for client, status in (
        (given.member("otto", Tenant.objects.create(name="other")), 404),
        (given.member("vi", cluster.tenant, "viewer"), 403),
    ):
        browser.force_login(client)
        assert browser.post(f"/jobs/{job.pk}/mend").status_code == status
    assert Job.objects.count() == 1


def test_out_of_gpu_memory_offers_a_larger_type_and_half_the_batch(cluster, failed):
    Gpu.objects.update(memory_mib=24_000)
    large = given.node_make("large", gpus=2)
    large.gpu_type = GpuType.objects.create(name="H200", memory_mib=140_000)
    large.save()
    large.gpus.update(memory_mib=143_771)
    found = remedies_now(failed(TORCH, command="python3 train.py --batch-size 64 --lr 1"))
    assert [(each.act, each.at, dict(each.change)) for each in found] == [
        ("form", "gpu_types", {"gpu_types": ["H200"]}),
        ("form", "command", {"command": "python3 train.py --batch-size 32 --lr 1"}),
    ]
    large.gpus.update(cordoned_at="2026-11-29T00:00:00Z")
    found = remedies_now(failed(TORCH, command="true", environment={"BATCH": "128", "X": "1"}))
    assert [dict(each.change) for each in found] == [{"environment": {"BATCH": "64", "X": "1"}}]


def test_limits_are_doubled_and_a_lost_node_runs_it_again(failed):
    memory = {"reason": "out_of_memory", "exit_code": None, "signal": 9}
    (found,) = remedies_now(failed(b"", end=memory, memory_mib=8192))
    assert (found.button, dict(found.change)) == ("Give it 16 GiB", {"memory_mib": 16_384})
    limit = {"reason": "time_limit", "exit_code": None}
    (found,) = remedies_now(failed(b"", end=limit, time_limit_s=3600))
    assert (found.button, dict(found.change)) == ("Give it 2 h", {"time_limit_s": 7200})
    found = remedies_now(failed(b"", end=limit, time_limit_s=3600, checkpointable=True))
    assert [each.act for each in found] == ["again", "form"]
    (found,) = remedies_now(failed(b"", end={"reason": "lost", "exit_code": None}))
    assert (found.button, found.act) == ("Run again", "again")


def test_a_command_that_is_not_there_is_changed_to_one_that_the_node_has(cluster, failed):
    lines, end = b"/bin/sh: 1: python: not found\n", {"exit_code": 127}
    (found,) = remedies_now(failed(lines, end=end, command="python train.py"))
    assert (found.change, found.button) == ({}, "Edit and relaunch"), "its node reported no Python"
    cluster.node.software = {"python": "3.11.2"}
    cluster.node.save()
    (found,) = remedies_now(failed(lines, end=end, command="cd x; python train.py --python=python3 ./python"))
    assert dict(found.change) == {"command": "cd x; python3 train.py --python=python3 ./python"}
    assert found.words == "This node has python3."


def test_an_unknown_end_has_its_code_and_its_lines_and_no_remedy(browser, failed):
    job = failed(b"".join(b"line %d <b>\n" % number for number in range(40)), end={"exit_code": 3})
    page = browser.get(f"/jobs/{job.pk}/").content.decode()
    shown = page.partition('id="ended"')[2].partition("</section>")[0]
    assert "It ended with exit code 3." in shown
    assert shown.count("&lt;b&gt;") == 10
    assert ("line 39" in shown, "line 29" in shown, "b-cure" in shown) == (True, False, False)


def test_the_last_lines_are_read_from_the_end_of_any_log(failed, django_assert_num_queries):
    job = failed(b"x" * 200_000 + b"\nepoch 1\n" * 2_000 + MISSING)
    attempt = attempts_of(job)[0]
    with django_assert_num_queries(1):
        lines = last_lines(attempt)
    assert lines[-1] == "ModuleNotFoundError: No module named 'timm'"
    assert ("epoch 1" in lines[:2], len(lines) < TAIL_BYTES) == (True, True)
    assert last_lines(attempts_of(failed(b"\xff" * 100_000))[0])[0] == "\ufffd" * LINE_CHARS
    assert last_lines(attempts_of(failed(b""))[0]) == []


def test_the_form_opens_with_the_change_and_nothing_is_submitted(browser, failed):
    job = failed(b"", end={"reason": "time_limit", "exit_code": None}, time_limit_s=3600)
    page = browser.get(f"/jobs/{job.pk}/").content.decode()
    assert f"/jobs/new?from={job.pk}&amp;mend=time_limit_s#id_time_limit_s" in page
    form = browser.get(f"/jobs/new?from={job.pk}&mend=time_limit_s").content.decode()
    assert 'name="time_limit_s" type="text" value="2 h"' in form
    assert (
        'name="time_limit_s" type="text" value="1 h"' in browser.get(f"/jobs/new?from={job.pk}&mend=x").content.decode()
    )
    job = failed(command="python3 /data/train.py")
    form = browser.get(f"/jobs/new?from={job.pk}&mend=software").content.decode()
    assert "requirements.txt" in form
    assert Job.objects.count() == 2
