"""The card *What ran*: the command, files that open in place, variables, secrets by name only, the line that makes it again."""

import re

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Attempt, JobPayload
from portal.work.secrets.services import secret_set
from portal.work.uploads.models import Blob, Upload, UploadFile
from portal.work.uploads.store import blob_path
from tests.portal.given import member

pytestmark = pytest.mark.django_db
GIT = {"git": "https://git.example.org/vision/aerial.git", "ref": "main", "secret": "", "submodules": False}


@pytest.fixture
def lena(cluster):
    client = Client()
    client.force_login(cluster.owner)
    return client


def card(client, job):
    page = client.get(reverse("job-detail", args=[job.number])).content.decode()
    return re.search(r'<section class="b-card" id="ran">.*?</section>', page, re.DOTALL)[0]


def words(html):
    return " ".join(re.sub("<[^>]*>", " ", html).split())


def sent(client, job, path):
    return client.get(reverse("job-sent", args=[job.number]), {"path": path})


def test_it_tells_command_files_variables_and_secrets_by_name_only(lena, cluster):
    secret_set(tenant=cluster.tenant, name="wandb", value="veiled-value", actor=cluster.owner)
    files = {"train.py": "print(1)\n", "a.txt": "a", "configs/b.yaml": "x: 1"}
    many = {f"NAME_{at}": str(at) for at in range(6)}
    job = cluster.submit(
        command="python3 train.py \\\n  --epochs 30 && echo '<b>'",
        files=files,
        environment=many | {"LONG": "v" * 500},
        secrets={"WANDB_API_KEY": "wandb"},
    )
    shown = card(lena, job)
    assert "python3 train.py \\\n  --epochs 30 &amp;&amp; echo &#x27;&lt;b&gt;&#x27;" in shown
    assert "What will run" in shown
    assert "WANDB_API_KEY from the secret wandb" in shown
    assert "veiled-value" not in shown
    assert "LONG=v" in shown
    assert "v" * 100 not in re.sub(r'<span id="same-line".*?</span>', "", shown, flags=re.DOTALL)
    assert words(shown).index("train.py") < words(shown).index("a.txt"), "the program comes first"
    assert "and 1 more" in words(shown)
    assert "berth submit --gpus=1 --file=train.py" in shown
    cluster.running()
    assert "What ran" in card(lena, cluster.running().job)


def test_code_is_told_by_its_repository_and_the_commit_that_ran(lena, cluster):
    attempt = cluster.running()
    JobPayload.objects.filter(job=attempt.job).update(code=GIT | {"commit": "0" * 40})
    Attempt.objects.filter(pk=attempt.pk).update(commit="9f3c1e7" + "a" * 33)
    shown = card(lena, attempt.job)
    assert 'href="https://git.example.org/vision/aerial"' in shown
    assert "vision/aerial at 9f3c1e7 main" in words(shown)
    assert "changed since" not in shown, "nothing knows that"
    JobPayload.objects.filter(job=attempt.job).update(code=GIT | {"git": "ssh://git@git.example.org/vision/aerial.git"})
    assert 'href="ssh' not in card(lena, attempt.job)


def test_a_file_opens_as_it_was_sent_and_its_bytes_never_become_markup(lena, cluster):
    files = {
        "train.py": "print('<script>alert(1)</script>')\n\x1b[31mred\n",
        "data.bin": {"base64": "/wAAAAAAAAAAAA=="},
        "deep.json": "[" * 100_000,
        "odd name & co.txt": "x",
    }
    job = cluster.submit(files=files)
    text = sent(lena, job, "train.py").content.decode()
    assert "&lt;script&gt;alert(1)" in text
    assert "<script" not in text
    assert "\x1b" not in text
    assert "not text" in sent(lena, job, "data.bin").content.decode()
    assert "[[[" in sent(lena, job, "deep.json").content.decode()
    assert "x" in sent(lena, job, "odd name & co.txt").content.decode()
    assert sent(lena, job, "../train.py").status_code == 404
    assert sent(lena, job, "").status_code == 404


def test_a_long_file_is_shown_by_its_first_lines(lena, cluster):
    job = cluster.submit(files={"long.py": "x = 1\n" * 5000})
    text = sent(lena, job, "long.py").content.decode()
    assert text.count("<li>") == 1000
    assert "These are its first lines, 1000 of them." in text
    assert "Download" not in text


def test_files_of_an_upload_open_too_and_one_that_is_gone_says_so(lena, cluster, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    job = cluster.submit(files={"a.txt": "a"})
    upload = Upload.objects.create(
        tenant=cluster.tenant, digest="d" * 64, size_bytes=9, count=1, used_at=timezone.now()
    )
    blob = Blob.objects.create(sha256="e" * 64, size_bytes=9)
    UploadFile.objects.create(upload=upload, path="big/train.py", blob=blob, executable=False)
    JobPayload.objects.filter(job=job).update(upload=upload)
    assert "big/train.py" in card(lena, job)
    assert "It is removed" in sent(lena, job, "big/train.py").content.decode()
    path = blob_path("e" * 64)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"print(42)")
    assert "print(42)" in sent(lena, job, "big/train.py").content.decode()


def test_another_tenant_finds_neither_card_nor_file(lena, cluster):
    job = cluster.submit(files={"train.py": "print(1)\n"})
    assert sent(lena, job, "train.py").status_code == 200
    otto = Client()
    otto.force_login(member("otto", Tenant.objects.create(name="others")))
    assert sent(otto, job, "train.py").status_code == 404
    assert otto.get(reverse("job-detail", args=[job.number])).status_code == 404
    vi = Client()
    vi.force_login(member("vi", cluster.tenant, role="viewer"))
    assert sent(vi, job, "train.py").status_code == 200
