"""`berth artefacts` and `berth cp` against REST: lists, downloads that go on, removal, and hostile paths."""

import hashlib

import pytest

from berth_client import downloads
from berth_client.downloads import local_path
from berth_client.errors import ClientError
from portal.work.artefacts import store
from portal.work.artefacts.models import Artefact, JobArtefacts
from portal.work.artefacts.services.counting import Account
from portal.work.jobs.models import Job

pytestmark = pytest.mark.django_db
BIG = bytes(range(256)) * 1000


@pytest.fixture
def number(world, settings, tmp_path_factory, monkeypatch):
    """A job that wrote two files, and a third that is over the quota."""
    settings.DATA_DIR = tmp_path_factory.mktemp("portal")
    monkeypatch.setattr(downloads, "STEP_BYTES", 100_000)
    job = Job.objects.get(pk=world.owner.submit()["id"])
    account = Account(job)
    for path, content in (("a.txt", b"abc"), ("model/best.pt", BIG)):
        name = store.name_new()
        store.append(job.key, name, content, at=0)
        digest = hashlib.sha256(content).hexdigest()
        account.enter(
            Artefact(job=job, path=path, rank=0, epoch=1, size=len(content), modified_ns=1, sha256=digest, blob=name)
        )
    account.enter(Artefact(job=job, path="huge", rank=0, epoch=1, reason="over the tenant's 1 GiB"))
    account.save()
    return str(job.pk)


def test_they_are_listed_with_the_reason_of_what_is_not_kept(cli, number):
    found = cli("artefacts", "ls", number).out
    assert "model/best.pt" in found
    assert "not kept: over the tenant's 1 GiB" in found
    assert cli("artefacts", "ls", number, "model", "-o", "name").out == "model/best.pt\n"
    JobArtefacts.objects.update(notes={"refused": [["tab\\tname", "a character that cannot be seen"]]})
    JobArtefacts.objects.update(left_out={"0": 3, "refused": [1, 2]})
    told = cli("artefacts", "ls", number).err
    assert "not kept: tab\\tname: a character that cannot be seen" in told
    assert "not kept: 5 more" in told


def test_all_are_fetched_into_their_folders(cli, number, tmp_path):
    told = cli("artefacts", "get", number, "--to", tmp_path / "here", code=1)
    assert (tmp_path / "here/model/best.pt").read_bytes() == BIG
    assert (tmp_path / "here/a.txt").read_bytes() == b"abc"
    assert "huge: not kept" in told.err


def left_over(folder):
    """The partial file that a broken download of BIG leaves."""
    return folder / f".{hashlib.sha256(BIG).hexdigest()[:32]}.part"


def test_a_file_of_one_s_own_beside_it_stays(cli, number, tmp_path):
    """`best.pt.part` was taken for the partial file of an earlier try."""
    (tmp_path / "best.pt.part").write_text("mine")
    cli("cp", f"{number}:model/best.pt", tmp_path)
    assert (tmp_path / "best.pt.part").read_text() == "mine"


def test_two_artefacts_of_one_name_here_are_told(cli, number, tmp_path):
    """Where small and large letters are one, or a link makes two folders one, the second is not written over the first."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "model").symlink_to(tmp_path / "here")
    Artefact.objects.filter(job=number, path="a.txt").update(path="best.pt")
    told = cli("artefacts", "get", number, "--to", tmp_path / "here", code=1)
    assert "model/best.pt: here it would be the same file as best.pt" in told.err
    assert (tmp_path / "here/best.pt").read_bytes() == b"abc"


def test_a_download_that_broke_off_goes_on(cli, number, tmp_path, transport):
    left_over(tmp_path).write_bytes(BIG[:150_000])
    cli("cp", f"{number}:model/best.pt", tmp_path)
    assert (tmp_path / "best.pt").read_bytes() == BIG
    assert sum("/artefacts/model/best.pt" in path for _, path in transport.asked) == 2
    assert not left_over(tmp_path).exists()


def test_what_was_left_of_another_content_is_fetched_anew(cli, number, tmp_path):
    left_over(tmp_path).write_bytes(b"x" * 150_000)
    cli("cp", f"{number}:model/best.pt", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == BIG


def test_what_cannot_be_fetched_says_why(cli, number, tmp_path):
    assert "over the tenant's" in cli("cp", f"{number}:huge", tmp_path, code=2).err
    assert "has written no nothing" in cli("cp", f"{number}:nothing", tmp_path, code=2).err
    assert "41:model/best.pt" in cli("cp", "nonsense", tmp_path, code=2).err


def test_removal(cli, number):
    assert "say --all" in cli("artefacts", "rm", number, code=2).err
    assert "1 removed" in cli("artefacts", "rm", number, "model").out
    assert "2 removed" in cli("artefacts", "rm", number, "--all").out


@pytest.mark.parametrize("path", ["../a", "/a", "a/../../b", ""])
@pytest.mark.parametrize("windows", [False, True])
def test_no_path_leads_out_of_the_folder(tmp_path, path, windows):
    with pytest.raises(ClientError):
        local_path(tmp_path, path, windows=windows)


ODD = ["a\\b", "c:x", "..\\a", "COM1", "nul.txt", "a/con", "end.", "end ", "what?", "a\tb", "a*"]


@pytest.mark.parametrize("path", ODD)
def test_windows_has_names_of_its_own_and_others_have_them_all(tmp_path, path):
    assert local_path(tmp_path, path, windows=False) == tmp_path / path
    with pytest.raises(ClientError):
        local_path(tmp_path, path, windows=True)


def test_submit_continues_an_earlier_job_from_its_artefact(cli, number):
    begun = cli("submit", "--continue-from", f"{number}:model/best.pt", "--time", "2h", "-o", "json").json
    assert (begun["time_limit_s"], begun["command"]) == (7200, Job.objects.get(pk=number).payload.command)
    assert begun["inputs"] == [{"job": number, "path": "model/best.pt", "as": "model/best.pt", "kept": True}]
    assert cli("show", number, "-o", "json").json["continued_by"] == {"count": 1, "jobs": [begun["number"]]}


def test_submit_names_inputs_and_what_is_kept(cli, number):
    flags = ["--input", f"{number}:a.txt=in/a.txt", "--input", f"#{number}:model/", "--artefacts", "out/*.pt"]
    flags += ["--log-match", "loss * nan", "--log-match", "saved"]
    told = cli("submit", *flags, "--print", "-o", "json", "--", "true").json
    inputs = [{"job": number, "path": "a.txt", "as": "in/a.txt"}, {"job": number, "path": "model/"}]
    assert told == {
        "command": "true",
        "inputs": inputs,
        "artefacts": ["out/*.pt"],
        "log_matches": ["loss * nan", "saved"],
    }
    assert "write JOB:PATH" in cli("submit", "--input", "a.txt", "--", "true", code=2).err
    told = cli("submit", "--input", f"{number}:gone.pt", "--", "true", code=2)
    assert "has not kept 'gone.pt' yet; wait for it with `depends_on`" in told.err
