"""The submit form tells everything that is wrong at once, beside its field and above; and it takes files as REST does."""

import base64
import json
import os
import re
import subprocess
import sys

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from portal.cluster.models import Node
from portal.foundation.errors import BerthError
from portal.pages.dashboard.submit.apart import NO_BUILDER
from portal.people.tenants.models import Tenant
from portal.work.jobs.description import description_examine, description_parse
from portal.work.jobs.models import Job
from portal.work.jobs.services.submission import submission_problems
from tests.portal.given import Cluster
from tests.portal.pages.dashboard.test_templates import Page

pytestmark = pytest.mark.django_db(transaction=True)
FORM = {"command": "python train.py", "gpu_mode": "set", "gpus": ["1"]}
WRONG = {
    "memory_mib": "much",
    "time_limit_s": "0 h",
    "priority": "5",
    "retries": "x",
    "environment": "no equals sign",
    "depends_on": "987654",
    "array.size": "0",
    "parameters": "-1",
    "working_directory": "../up",
    "gpus": [],
}


@pytest.fixture
def world():
    return Cluster.make()


@pytest.fixture
def owner(client, world):
    client.force_login(world.owner)
    return client


def errors(answer):
    """{field: text} of the texts beside the fields, and the fields that the summary names, in order."""
    html = answer.content.decode()
    Page(html)
    beside = dict(
        re.findall(
            r'<div class="b-error" id="error_([\w.]+)" aria-live="polite"><svg.*?</svg><span data-error>(.*?)</span>',
            html,
        )
    )
    return beside, re.findall(r'<li data-problem="([\w.]*)"><a href="#id_([\w.]+)">', html)


TOLD = {"python": "3.11.2", "installer": "pip", "images": "apptainer", "environments": ["torch"], "missing": {}}
SOFTWARE = {
    "": ({}, {}),
    "environment:torch": ({}, {"environment": "torch"}),
    "requirements": ({"software.requirements": "numpy==1.26.4\r\ntqdm"}, {"requirements": "numpy==1.26.4\ntqdm"}),
    "path": ({"software.path": " /opt/venv "}, {"path": "/opt/venv"}),
    "image": ({"software.path": "docker.io/a/b:1"}, {"image": "docker.io/a/b:1"}),
}


@pytest.mark.parametrize("chosen", SOFTWARE)
def test_each_choice_of_software_is_submitted_and_comes_back_to_edit(owner, chosen):
    Node.objects.update(software=TOLD)
    Tenant.objects.update(images="docker.io/*")
    fields, software = SOFTWARE[chosen]
    owner.post(reverse("job-submit"), FORM | {"software": chosen} | fields)
    job = Job.objects.get()
    assert job.payload.software == software
    html = owner.get(reverse("job-submit") + f"?from={job.pk}").content.decode().replace("\r", "")
    assert f'<option value="{chosen}" selected>' in html
    assert next(iter(fields.values()), "").strip().replace("\r", "") in html


def test_software_that_cannot_be_had_is_told_beside_its_field(owner):
    wrong = {"software.requirements": "-r other.txt"}
    beside, _ = errors(owner.post(reverse("job-submit"), FORM | {"software": "requirements"} | wrong))
    assert "names another file" in beside["software.requirements"]
    beside, _ = errors(owner.post(reverse("job-submit"), FORM | {"software": "path", "software.path": "venv"}))
    assert "absolute directory" in beside["software.path"]
    Node.objects.update(software=TOLD | {"installer": None})
    answer = owner.post(reverse("job-submit"), FORM | {"software": "requirements", "software.requirements": "numpy"})
    assert "Ask an operator to install one" in errors(answer)[0]["software"]
    assert NO_BUILDER in answer.content.decode()


def test_every_error_stands_beside_its_field_and_in_the_summary(owner):
    answer = owner.post(reverse("job-submit"), FORM | WRONG)
    assert answer.status_code == 400
    beside, summary = errors(answer)
    assert set(beside) == set(WRONG)
    assert {name for name, _ in summary} == set(WRONG)
    assert all(name == target for name, target in summary)
    assert "10 things to correct; nothing was submitted" in answer.content.decode()
    assert not Job.objects.exists()


@pytest.mark.parametrize("name", WRONG)
def test_one_error_is_one_error(owner, name):
    beside, summary = errors(owner.post(reverse("job-submit"), FORM | {name: WRONG[name]}))
    assert (list(beside), [each for each, _ in summary]) == ([name], [name])


def test_fields_say_what_describes_them(owner):
    html = owner.post(reverse("job-submit"), FORM | {"memory_mib": "much"}).content.decode()
    field = re.search(r'<input [^>]*id="id_memory_mib"[^>]*>', html)[0]
    assert 'aria-describedby="help_memory_mib error_memory_mib"' in field
    assert 'aria-invalid="true"' in field
    assert 'id="help_memory_mib"' in html
    assert 'aria-invalid="true"' not in re.search(r'<input [^>]*id="id_time_limit_s"[^>]*>', html)[0]


def test_what_depends_on_the_whole_form_is_told_with_the_rest(owner, world):
    world.tenant.queued_jobs_quota = 0
    world.tenant.save()
    html = owner.post(reverse("job-submit"), FORM | {"memory_mib": "much"}).content.decode()
    assert "2 things to correct" in html
    assert "has 0 jobs waiting and may have 0" in html


def test_the_dry_run_tells_the_page_what_is_wrong_now(owner):
    def problems(**fields):
        html = owner.post(reverse("job-dry-run"), FORM | fields).content.decode()
        return json.loads(re.search(r'data-problems="(.*?)"', html)[1].replace("&quot;", '"').replace("&#x27;", "'"))

    assert set(problems(**WRONG)) == set(WRONG)
    assert set(problems(memory_mib="much", time_limit_s="1 h")) == {"memory_mib"}
    assert problems() == {}
    assert set(problems(command="")) == {"command"}


def test_all_of_rests_first_error_is_the_first_of_all(world):
    """REST names one: the first that the form's list names."""
    wrong = {"command": "x", "gpus": 1, "memory_mib": 0, "time_limit_s": -1, "labels": 3, "array": {}, "priority": 500}
    first = description_examine(wrong)[1][0]
    with pytest.raises(BerthError) as error:
        description_parse(wrong)
    assert (error.value.code, error.value.field) == (first.code, first.field)
    fields = [problem.field for problem in submission_problems(user=world.owner, description=wrong)]
    assert len(fields) == len(set(fields)) == 5


# ---- files -----------------------------------------------------------------------------------------------------------


def upload(name="train.py", data=b"print('hi')\n"):
    return SimpleUploadedFile(name, data)


def test_uploaded_and_kept_files_go_with_the_job(owner):
    kept = json.dumps({"data/a.bin": base64.b64encode(bytes(range(256))).decode()})
    answer = owner.post(
        reverse("job-submit"), FORM | {"files": [upload(), upload("u.txt", b"\xff")], "files_kept": kept}
    )
    job = Job.objects.get()
    assert answer.url == reverse("job-detail", args=[job.number])
    assert {name: base64.b64decode(data) for name, data in job.payload.files.items()} == {
        "data/a.bin": bytes(range(256)),
        "train.py": b"print('hi')\n",
        "u.txt": b"\xff",
    }
    html = owner.get(reverse("job-detail", args=[job.number])).content.decode()
    assert re.search(r'title="256 bytes"><svg.*?</svg>data/a\.bin</a>', html)


def test_files_outlast_an_error_elsewhere_and_a_relaunch(owner):
    answer = owner.post(reverse("job-submit"), FORM | {"files": [upload()], "memory_mib": "much"})
    kept = answer.context["files"]["kept"]
    assert base64.b64decode(json.loads(kept)["train.py"]) == b"print('hi')\n"
    owner.post(reverse("job-submit"), FORM | {"files_kept": kept})
    job = Job.objects.get()
    again = owner.get(reverse("job-submit") + f"?from={job.pk}").context["files"]
    assert again["kept"] == kept
    assert again["files"] == [{"name": "train.py", "size_bytes": 12}]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"files": [upload("big", b"x" * (2**20 + 1))]}, "may be 1 MiB in all. None was taken"),
        ({"files_kept": json.dumps({"../up": "eA=="})}, "leaves the job"),
        ({"files_kept": json.dumps({"a": "eA==", "a/b": "eA=="})}, "a file and a directory"),
        ({"files_kept": json.dumps({"a": "no base64!"})}, "not valid base64"),
        ({"files_kept": "[" * 100_000}, "choose them again"),
        ({"files_kept": '["a"]'}, "choose them again"),
        ({"files_kept": '{"\\ud800": "eA=="}'}, "choose them again"),
        ({"files_kept": '{"a\\nb": "eA=="}'}, "The file name &#x27;a?b&#x27; contains the control character"),
        ({"files_kept": json.dumps({f"f{n}": "" for n in range(1001)})}, "1000"),
    ],
)
def test_wrong_files_are_refused_beside_their_field(owner, fields, says):
    answer = owner.post(reverse("job-submit"), FORM | fields)
    assert answer.status_code == 400
    beside, summary = errors(answer)
    assert says in beside["files"]
    assert ("files", "files") in summary
    assert not Job.objects.exists()


def test_the_same_request_sends_the_files_from_where_it_is_run(owner, tmp_path):
    """The texts are run: a stand-in for curl prints what would be sent; Python's is run up to its request."""
    names = ["train.py", "it's $HOME.txt"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode())
    answer = owner.post(
        reverse("job-dry-run"), FORM | {"command": 'echo "it\'s" $X `y`', "file_names": json.dumps(names)}
    )
    texts = answer.context["request_text"]
    (tmp_path / "curl").write_text(f'#!{sys.executable}\nimport sys\nprint(sys.argv[sys.argv.index("--data") + 1])\n')
    (tmp_path / "curl").chmod(0o755)
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BERTH_TOKEN": "t"}
    sent = subprocess.run(
        ["sh", "-c", texts["curl"]], cwd=tmp_path, env=path, capture_output=True, text=True, check=True
    )
    built = texts["python"].partition("request = ")[0] + "print(json.dumps(job))"
    made = subprocess.run([sys.executable, "-c", built], cwd=tmp_path, capture_output=True, text=True, check=True)
    for text in (sent.stdout, made.stdout):
        job = json.loads(text)
        assert job["command"] == 'echo "it\'s" $X `y`'
        assert {name: base64.b64decode(each["base64"]).decode() for name, each in job["files"].items()} == dict(
            zip(names, names, strict=True)
        )
