"""Whatever of another tenant's artefacts somebody asks for answers byte for byte like what does not exist."""

import copy
import json
import re

import pytest
from django.test import Client, override_settings

from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Job
from tests.portal import given
from tests.portal.access.world import numbers_unmistakable
from tests.portal.lasting import lasting
from tests.portal.work.artefacts.conftest import at_once
from tests.portal.work.artefacts.sending import Sender
from tests.portal.work.previews.test_kinds import png

pytestmark = pytest.mark.django_db

MISSING = 7_654_999
SECRET = "zebra"
FILES = {
    f"{SECRET}.txt": b"zebra",
    f"{SECRET}/last.pt": b"w" * 300,
    "a.png": png(8, 8),
    "m/metrics.jsonl": b'{"loss": 1}\n',
}
PAGE, REST = "/jobs/{}/artefacts", "/api/v1/jobs/{}/artefacts"
READ = {
    "list": PAGE,
    "a folder": f"{PAGE}?under={SECRET}",
    "preview": f"{PAGE}?path={SECRET}.txt",
    "part of the list": f"{PAGE}/parts/tree",
    "part of the preview": f"{PAGE}/parts/shown?path={SECRET}.txt",
    "curve": f"{PAGE}/figure?name=loss",
    "picture": f"{PAGE}/picture?path=a.png",
    "download": f"{PAGE}/download?path={SECRET}.txt",
    "archive": f"{PAGE}/download",
    "job": "/jobs/{}/",
    "parts of the job": "/jobs/{}/fragments/artefacts",
    "form that continues": f"/jobs/new?from={{}}&begin_with={SECRET}.txt",
    "comparison": "/jobs/compare?jobs={}",
    "REST list": REST,
    "REST folder": f"{REST}?under={SECRET}",
    "REST download": f"{REST}/{SECRET}.txt",
    "REST path that it lacks": f"{REST}/none",
    "REST archive": f"{REST}.tar",
    "REST archive of a folder": f"{REST}.tar?under={SECRET}",
    "REST description": f"/api/v1/jobs/{{}}/description?begin_with={SECRET}/",
}
WRITE = {
    "removal": (f"{PAGE}/remove", {"path": f"{SECRET}.txt"}),
    "removal of none": (f"{PAGE}/remove", {"path": "none"}),
}
INPUTS = {"file": f"{SECRET}.txt", "folder": f"{SECRET}/", "none": "none.txt", "wrong": "../x"}


@pytest.fixture(scope="module", autouse=True)
def data_dir(tmp_path_factory):
    """One store for all of these: they remove nothing."""
    with override_settings(DATA_DIR=tmp_path_factory.mktemp("data")):
        yield


@pytest.fixture(scope="module")
def built(django_db_setup, django_db_blocker, data_dir):
    with lasting(django_db_blocker), pytest.MonkeyPatch.context() as patch:
        at_once(patch)
        made = given.Cluster.make()
        numbers_unmistakable()
        sender = Sender(made, made.running(name="train"))
        for path, content in FILES.items():
            sender.send(path, content)
        yield made, sender.attempt.job.pk


@pytest.fixture
def cluster(built, db):
    return copy.deepcopy(built[0])


@pytest.fixture
def job(built, db):
    return Job.objects.get(pk=built[1])


@pytest.fixture
def stranger():
    client = Client()
    client.force_login(given.member("max", Tenant.objects.create(name="nlp")))
    return client


def told(answer, number):
    """All of an answer, the number that was asked for apart."""
    content = b"".join(answer.streaming_content) if answer.streaming else answer.content
    headers = {
        name: value.replace(str(number), "N") for name, value in answer.headers.items() if name != "X-Request-ID"
    }
    text = re.sub(
        r'(csrfmiddlewaretoken" value=|csrf-token" content=|X-CSRFToken": |data-now=)"[^"]*"', r"\1T", content.decode()
    )
    return answer.status_code, headers, text.replace(str(number), "N")


def same(job, ask):
    """What both answer: the foreign job and the one that does not exist. Both numbers are as long."""
    foreign, none = (told(ask(number), number) for number in (job.number, MISSING))
    assert foreign == none
    assert SECRET not in foreign[2].replace(f"{SECRET}.txt", "").replace(f"{SECRET}/", ""), "beyond what was asked for"
    return foreign


def test_reading(job, cluster, stranger, subtests):
    lena = Client()
    lena.force_login(cluster.owner)
    for what, path in READ.items():
        with subtests.test(what=what):
            status, *_ = same(job, lambda number, path=path: stranger.get(path.format(number)))
            assert status == (200 if what == "comparison" else 404), "a comparison says that it may not be shown"
            assert lena.get(path.format(job.number)).status_code == (404 if "lacks" in what else 200)


def test_ranges(job, stranger, subtests):
    for range_ in ["bytes=0-0", "bytes=0-", "bytes=5-1", "bytes=99999-"]:
        for what in ["download", "archive", "REST download", "REST archive"]:

            def ask(number, path=READ[what], headers={"range": range_}):  # noqa: B006
                return stranger.get(path.format(number), headers=headers)

            with subtests.test(what=what, range_=range_):
                assert same(job, ask)[0] == 404


@pytest.mark.parametrize("what", WRITE)
def test_removing(job, stranger, what):
    path, form = WRITE[what]
    assert same(job, lambda number: stranger.post(path.format(number), form))[0] == 404
    for rest in ("", f"/{SECRET}.txt", f"/{SECRET}", "/none"):
        assert same(job, lambda number, rest=rest: stranger.delete(REST.format(number) + rest))[0] == 404
    assert job.artefacts.count() == len(FILES)


@pytest.mark.parametrize("path", INPUTS.values(), ids=INPUTS)
@pytest.mark.parametrize("verb", ["jobs", "jobs/plan"])
def test_inputs(job, stranger, verb, path):
    def ask(number):
        body = {"command": "true", "inputs": [{"job": int(number), "path": path}]}
        return stranger.post(f"/api/v1/{verb}", json.dumps(body), content_type="application/json")

    assert same(job, ask)[0] == 400


def test_the_forms_inputs(job, stranger):
    def ask(number):
        return stranger.post("/jobs/new", {"command": "true", "gpus": "1", "inputs": f"{number}:{SECRET}.txt"})

    status, _, page = same(job, ask)
    assert status == 400
    assert "There is no job N of nlp" in page
