"""`/api/v1/jobs/N/artefacts` as its callers see it: lists, ranges, a tar, removal, and what another tenant sees."""

import io
import tarfile
import tracemalloc

import pytest
from django.test import Client

from portal.people.tenants.models import Tenant
from portal.work.artefacts import store
from portal.work.artefacts.download import Download, Piece
from tests.portal import given
from tests.portal.work.artefacts.sending import NS, Sender

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(cluster):
    sender = Sender(cluster, cluster.running(name="train"))
    with_commit = {"a.txt": b"0123456789", "out/b.bin": b"\x00" * 700, "out/<img>.html": b"<script>", "zero": b""}
    for path, content in with_commit.items():
        sender.send(path, content)
    return sender.attempt.job


@pytest.fixture
def lena(cluster):
    client = Client()
    client.force_login(cluster.owner)
    return client


def url(job, rest=""):
    return f"/api/v1/jobs/{job.number}/artefacts{rest}"


def test_the_list_says_what_there_is(job, lena, django_assert_max_num_queries):
    with django_assert_max_num_queries(12):
        found = lena.get(url(job)).json()
    assert [row["path"] for row in found["results"]] == ["a.txt", "out/<img>.html", "out/b.bin", "zero"]
    assert (found["state"], found["files"], found["bytes"]) == ("watching", 4, 718)
    assert found["tenant_quota_bytes"] == 50 * 2**30
    assert [row["path"] for row in lena.get(url(job), {"under": "out"}).json()["results"]] == [
        "out/<img>.html",
        "out/b.bin",
    ]
    assert lena.get(url(job), {"under": "OUT"}).json()["count"] == 0


def test_a_file_is_a_download_and_never_a_page(job, lena):
    answer = lena.get(url(job, "/out/%3Cimg%3E.html"))
    assert answer.getvalue() == b"<script>"
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment;")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in answer["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("asked", "status", "body", "told"),
    [
        ("bytes=2-4", 206, b"234", "bytes 2-4/10"),
        ("bytes=7-", 206, b"789", "bytes 7-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=0-99", 206, b"0123456789", "bytes 0-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=5-4", 416, b"", "bytes */10"),
        ("bytes=1-2,4-5", 200, b"0123456789", None),
        ("lines=1-2", 200, b"0123456789", None),
    ],
)
def test_ranges(job, lena, asked, status, body, told):
    answer = lena.get(url(job, "/a.txt"), headers={"Range": asked})
    assert (answer.status_code, answer.get("Content-Range")) == (status, told)
    if status == 416:
        assert answer.json()["error"]["code"] == "bad_range"
    else:
        assert (answer.getvalue(), answer["Content-Length"]) == (body, str(len(body)))


def test_a_range_of_an_older_content_is_answered_with_all(job, lena):
    tag = lena.get(url(job, "/a.txt"))["ETag"]
    part = lena.get(url(job, "/a.txt"), headers={"Range": "bytes=2-", "If-Range": tag})
    whole = lena.get(url(job, "/a.txt"), headers={"Range": "bytes=2-", "If-Range": '"another"'})
    assert (part.status_code, whole.status_code) == (206, 200)
    assert lena.get(url(job, "/a.txt"), headers={"If-None-Match": tag}).status_code == 304


def test_all_comes_as_a_tar_and_any_range_of_it_is_exact(job, lena):
    answer = lena.get(url(job, ".tar"))
    whole = answer.getvalue()
    assert int(answer["Content-Length"]) == len(whole)
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        names = tar.getnames()
        assert tar.extractfile(f"job-{job.pk}/a.txt").read() == b"0123456789"
    assert names == [f"job-{job.pk}/{path}" for path in ("a.txt", "out/<img>.html", "out/b.bin", "zero")]
    for start, stop in ((0, 511), (500, 530), (511, 1700), (len(whole) - 1030, len(whole) - 1)):
        part = lena.get(url(job, ".tar"), headers={"Range": f"bytes={start}-{stop}"})
        assert part.getvalue() == whole[start : stop + 1]


def test_a_file_on_its_way_says_so(cluster, lena):
    sender = Sender(cluster, cluster.running())
    sender.tell(("a", 5, NS))
    answer = lena.get(url(sender.attempt.job, "/a"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_kept")
    assert lena.get(url(sender.attempt.job, ".tar")).status_code == 404


def test_another_tenant_finds_nothing_and_a_viewer_removes_nothing(job):
    stranger, viewer = Client(), Client()
    stranger.force_login(given.member("max", Tenant.objects.create(name="nlp")))
    viewer.force_login(given.member("vera", job.tenant, role="viewer"))
    missing = stranger.get("/api/v1/jobs/999999/artefacts").content
    for rest in ("", ".tar", "/a.txt"):
        answer = stranger.get(url(job, rest))
        assert (answer.status_code, answer.content) == (404, missing)
        assert viewer.get(url(job, rest)).status_code == 200
    assert stranger.delete(url(job, "/a.txt")).status_code == 404
    assert viewer.delete(url(job, "/a.txt")).status_code == 403
    assert viewer.get(url(job)).json()["count"] == 4


def test_removal_of_a_file_a_folder_and_all(job, lena):
    assert lena.delete(url(job, "/a.txt")).json() == {"removed": 1}
    assert lena.delete(url(job, "/out")).json() == {"removed": 2}
    assert lena.delete(url(job)).json() == {"removed": 1}
    assert (lena.get(url(job)).json()["bytes"], lena.delete(url(job)).status_code) == (0, 404)


@pytest.mark.parametrize("path", ["/missing", "/..%2f..%2fetc%2fpasswd", "/a%00b", "/" + "x" * 3000])
def test_what_is_not_there_is_missing(job, lena, path):
    assert lena.get(url(job, path)).status_code in {400, 404}


def test_a_download_of_200_mib_stays_small_in_memory(settings, tmp_path):
    size, name = 200 * 2**20, store.name_new()
    store.append("k" * 32, name, b"x", at=0)
    with (store.folder("k" * 32) / name).open("r+b") as file:
        file.truncate(size)
    tracemalloc.start()
    sent = sum(len(piece) for piece in Download("k" * 32, "a", (Piece(b"", size, name),), "t").read(0, size))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (sent, peak < 2**20) == (size, True)
