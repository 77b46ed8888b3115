"""Uploads over REST: sent once, kept apart by tenant, refused with the reason, brought by jobs, removed when unused."""

import os
import sys
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.description_parts import files as files_of_a_job
from portal.work.jobs.models import Allocation, Job, JobPayload
from portal.work.jobs.services.asked.bringing import IN_USE
from portal.work.uploads import store
from portal.work.uploads.manifest import MOST_FILES, _names_check, entries_read
from portal.work.uploads.models import Blob, Holding, Upload
from portal.work.uploads.services import uploads_expire
from tests.portal.foundation.api.conftest import refusal
from tests.portal.work.uploads.conftest import listed, sha256_of

pytestmark = pytest.mark.django_db
FILES = {"train.py": b"print('hello')\n", "lib/a.py": b"A = 1\n", "lib/b.py": b"A = 1\n"}


def names_of_an_upload(paths):
    return entries_read(listed(dict.fromkeys(paths, b"")), limit_mib=1)


def names_of_a_description(paths):
    return files_of_a_job(dict.fromkeys(paths, ""))


def on_disk():
    return sorted(path.name for path in store.root().rglob("*") if path.is_file())


def test_what_is_missing_is_sent_once_and_named_by_a_digest(lena):
    first = lena.declare(FILES).json()
    assert (first["complete"], len(first["missing"])) == (False, 2), "two of the three have one content"
    assert not Upload.objects.exists()
    digest = lena.send(FILES)
    assert digest == first["digest"]
    assert on_disk() == sorted(set(map(sha256_of, FILES.values())))
    changed = FILES | {"train.py": b"print('other')\n"}
    assert lena.declare(changed).json()["missing"] == [sha256_of(changed["train.py"])]
    shown = lena.caller.get(f"/uploads/{digest}").json()
    assert [file["path"] for file in shown["files"]] == ["lib/a.py", "lib/b.py", "train.py"]
    assert [row["digest"] for row in lena.caller.get("/uploads").json()["results"]] == [digest]


def test_nobody_learns_what_another_tenant_has(lena, otto, world):
    digest = lena.send(FILES)
    assert len(otto.declare(FILES).json()["missing"]) == 2, "as if nobody had sent it"
    refusal(otto.caller.get(f"/uploads/{digest}"), 404, "not_found")
    assert otto.caller.get("/uploads").json()["count"] == 0
    refusal(otto.caller("DELETE", f"/uploads/{digest}"), 404, "not_found")
    answer = otto.caller("POST", "/jobs", {"command": "true", "upload": digest})
    refusal(answer, 400, "unknown_upload", "upload")
    refusal(otto.content(b"x", query="?tenant=vision-lab"), 400, "unknown_tenant", "tenant")
    assert otto.send(FILES) == digest
    assert Blob.objects.count() == 2, "on the disk it is there once"
    world.owner("DELETE", f"/uploads/{digest}")
    assert otto.caller.get(f"/uploads/{digest}").status_code == 200
    assert len(on_disk()) == 2


WRONG_PATHS = [
    ("../up", "path_escape"),
    ("/etc/passwd", "path_escape"),
    ("a/../../b", "path_escape"),
    ("a//b", "bad_file_name"),
    ("./a", "bad_file_name"),
    ("a/ ", "bad_file_name"),
    ("line\nbreak", "control_character"),
    ("nul\0", "null_character"),
    ("evil\u202etxt.py", "control_character"),
    ("x" * 256, "bad_file_name"),
    ("é", "duplicate"),
    ("train.py/x", "bad_file_name"),
]


def test_a_name_that_leads_away_or_deceives_is_refused(lena, subtests):
    for path, code in WRONG_PATHS:
        with subtests.test(path=path):
            files = [*listed({"train.py": b"1", "e\u0301": b"2"}), *listed({path: b"3"})]
            error = refusal(lena.caller("POST", "/uploads", {"files": files}), 400, code)
            assert error["field"] in {"files", "files.path"}
            assert not Upload.objects.exists()


def test_too_many_too_large_and_over_the_quota(lena, monkeypatch):
    rows = [{"path": f"{n}", "sha256": "0" * 64, "size_bytes": 0} for n in range(MOST_FILES + 1)]
    refusal(lena.caller("POST", "/uploads", {"files": rows}), 400, "too_many", "files")
    huge = {"path": "a", "sha256": "0" * 64, "size_bytes": 201 * 2**20}
    error = refusal(lena.caller("POST", "/uploads", {"files": [huge]}), 413, "too_large", "files")
    assert "201.0 MiB, and a job brings at most 200 MiB" in error["detail"]
    monkeypatch.setenv("BERTH_UPLOADS_GIB", "0")
    error = refusal(lena.declare(FILES), 409, "quota_exceeded", "files")
    assert "vision-lab has 0.00 GiB" in error["detail"]
    refusal(lena.content(b"x"), 409, "quota_exceeded", "files")
    assert on_disk() == []


def test_a_content_that_is_not_what_its_hash_says_leaves_nothing(lena):
    refusal(lena.content(b"one", sha256=sha256_of(b"two")), 400, "digest_mismatch", "sha256")
    refusal(lena.content(b"one", sha256="../../x"), 404)
    refusal(lena.content(b"one", sha256="A" * 64), 400, "bad_sha256", "sha256")
    answer = lena.caller("PUT", f"/uploads/content/{sha256_of(b'x')}", raw=b"x", content_type="text/plain")
    refusal(answer, 415, "unsupported_media_type")
    assert (on_disk(), Holding.objects.count()) == ([], 0)


def test_a_job_brings_it_and_its_nodes_alone_fetch_it(lena, world, client):
    from portal.nodes.api import AgentView

    digest = lena.send(FILES)
    job = lena.caller.submit(upload=digest, files={"more.txt": "x"}, cores=1)
    assert (job["upload"], [file["name"] for file in job["files"]]) == (digest, ["more.txt"])
    planning_run()
    part = Allocation.objects.select_related("attempt", "node").get()
    from portal.work.jobs.selectors import part_content_check, part_spec

    spec = part_spec(node=part.node, key=part.attempt.key)
    assert [file["path"] for file in spec["upload"]] == ["lib/a.py", "lib/b.py", "train.py"]
    sha256 = sha256_of(FILES["train.py"])
    part_content_check(node=part.node, key=part.attempt.key, sha256=sha256)
    other = next(node for node in world.nodes if node != part.node)
    for node, wanted in ((other, sha256), (part.node, sha256_of(b"not of this job"))):
        with pytest.raises(Exception, match="you may not see it"):
            part_content_check(node=node, key=part.attempt.key, sha256=wanted)
    assert AgentView.authentication_classes, "the door itself is walked by tests/portal/access"


def test_requirements_come_from_the_upload(lena, world):
    digest = lena.send({"train.py": b"", "requirements.txt": b"numpy\n", "none.txt": b"# nothing\n"})
    body = {"command": "true", "upload": digest, "software": {"requirements_file": "requirements.txt"}}
    world.nodes[0].software = {"installer": "pip"}
    world.nodes[0].save()
    made = lena.caller("POST", "/jobs", body)
    assert made.status_code == 201, made.content
    assert JobPayload.objects.get(pk=made.json()["id"]).software == {"requirements": "numpy\n"}
    body["software"] = {"requirements_file": "none.txt"}
    assert lena.caller("POST", "/jobs", body).json()["software"] == {}
    body["software"] = {"requirements_file": "missing.txt"}
    refusal(lena.caller("POST", "/jobs", body), 400, "unknown_file", "software.requirements_file")


def test_what_no_job_needs_is_removed_and_nothing_else(lena, otto, world):
    used, unused = lena.send(FILES), lena.send({"old.py": b"old"})
    lena.content(b"never named")
    otto.content(b"named soon")
    job = lena.caller.submit(upload=used)
    refusal(lena.caller("DELETE", f"/uploads/{used}"), 409, "in_use")
    (store.root() / "ab").mkdir(exist_ok=True)
    for path in (store.root() / "ab" / ("ab" * 32), store.root() / "incoming" / "left"):
        path.write_bytes(b"nobody's")
        os.utime(path, (0, 0))
    Upload.objects.update(used_at=timezone.now() - timedelta(days=15))
    Holding.objects.filter(tenant__name="vision-lab").update(at=timezone.now() - timedelta(days=2))
    assert uploads_expire(in_use=IN_USE) == 1
    assert Upload.objects.get().digest == used
    kept = {*map(sha256_of, FILES.values()), sha256_of(b"named soon")}
    assert set(on_disk()) == kept == set(Blob.objects.values_list("sha256", flat=True))
    Job.objects.filter(pk=job["id"]).update(ended_at=timezone.now(), state="FAILED")
    Upload.objects.update(used_at=timezone.now() - timedelta(days=15))
    uploads_expire(in_use=IN_USE)
    refusal(lena.caller("POST", f"/jobs/{job['id']}/retry"), 409, "files_gone")
    assert lena.caller.get(f"/jobs/{job['id']}").json()["upload"] == used
    assert unused not in {row.digest for row in Upload.objects.all()}


def test_the_form_keeps_an_upload_and_judges_a_requirements_file_that_it_is_not_sent(lena, otto, world, client):
    digest, foreign = lena.send({"big.bin": b"x" * 10}), otto.send({"secret.bin": b"y"})
    world.nodes[0].software = {"installer": "pip"}
    world.nodes[0].save()
    client.force_login(world.users["lena"])
    form = {"command": "true", "gpu_mode": "cpu", "upload": digest}
    kept = {"software": "requirements_file", "software.path": "requirements.txt", "file_names": '["requirements.txt"]'}
    told = client.post("/jobs/plan", form | kept).content.decode()
    assert "Cannot start" not in told
    assert "Cannot start" in client.post("/jobs/plan", form | kept | {"file_names": ""}).content.decode()
    wrong = client.post("/jobs/new", form | {"memory_mib": "much"})
    assert wrong.status_code == 400
    assert "big.bin" in wrong.content.decode()
    answer = client.post("/jobs/new", form)
    job = Job.objects.get()
    assert (answer.status_code, job.payload.upload.digest) == (302, digest)
    for page in (f"/jobs/{job.number}/", f"/jobs/new?from={job.number}"):
        assert "big.bin" in client.get(page).content.decode()
    shown = client.post("/jobs/new", form | {"upload": foreign})
    assert (shown.status_code, "secret.bin" in shown.content.decode()) == (400, False)


def calls_of(function, *arguments):
    """Return how often a function's work calls another."""
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        function(*arguments)
    finally:
        sys.setprofile(None)
    return calls


def test_names_in_deep_folders_are_compared_as_often_as_flat_ones():
    deep, flat = "/".join("a" * 505), "a" * 200
    paths = [[f"{above}/{number}" for number in range(50)] for above in (deep, flat)]
    assert calls_of(_names_check, paths[0]) == calls_of(_names_check, paths[1])


@pytest.mark.parametrize("read", [names_of_an_upload, names_of_a_description])
def test_a_job_brings_only_so_many_folders(read):
    """A list of a few hundred kB could have a node make half a million."""
    chains = [f"{number}/" + "a/" * 500 + "x" for number in range(60)]
    read(chains[:39])
    read([path.replace("0/a", "a", 1) for path in chains[:39]])
    with pytest.raises(BerthError, match="more than 20000 folders"):
        read(chains)


@pytest.mark.parametrize("read", [names_of_an_upload, names_of_a_description])
@pytest.mark.parametrize(
    "paths", [["a", "a/b"], ["a/b/c", "a.txt", "a-", "a/b"], ["é/x", "e\u0301"], ["a/b", "a/b/c/d/e", "a/b.c"]]
)
def test_no_path_is_a_file_and_a_folder(read, paths):
    with pytest.raises(BerthError, match="a file and a directory"):
        read(paths)
    read([*[path for path in paths if path != paths[0]][:1], "a b", "a-b/c", "a-b.d"])
