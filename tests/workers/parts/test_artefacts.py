"""What an agent tells and sends of a part's files, to a portal that refuses a whole message for one impossible number."""

import asyncio
import os
import time
from types import SimpleNamespace

import pytest

from workers.parts import artefacts
from workers.parts.artefacts import Artefacts
from workers.parts.part import Part
from workers.parts.problems import Problems
from workers.portal_client import PortalRefusedError
from workers.system.filework import FileWork
from workers.system.folderwalk import GoneError, file_read

BIG = 2**62


class StrictPortal:
    """Takes all files, and checks their numbers as the portal's shapes do. `refuses` says of a message whether it is refused."""

    def __init__(self, refuses=lambda body: False):
        self.times, self.sizes, self.kept, self.notes, self.gone = {}, {}, {}, [], []
        self.refuses = refuses

    async def artefacts(self, body):
        if self.refuses(body):
            raise PortalRefusedError(400, "invalid", "no such thing", None)
        for each in body["files"]:
            self._check(each)
            self.times[each["path"]], self.sizes[each["path"]] = each["modified_ns"], each["size"]
        if body["notes"] is not None:
            self.notes, self.more = body["notes"], body["notes_more"]
        self.gone += body["gone"]
        return {"files": [{"path": each["path"], "state": "send", "offset": 0} for each in body["files"]]}

    async def artefact_piece(self, query, data):
        self._check(query)
        if self.times[query["path"]] != query["modified_ns"]:
            raise PortalRefusedError(409, "not_told", "another content", None)
        self.kept[query["path"]] = self.kept.get(query["path"], b"") + data
        return query["offset"] + len(data)

    def _check(self, each):
        if not (0 <= each["size"] <= BIG and 0 <= each["modified_ns"] <= BIG):
            raise PortalRefusedError(400, "invalid", f"of {each}", None)


@pytest.fixture
def problems():
    return Problems()


@pytest.fixture
def sent(tmp_path, problems):
    """Send a dead part's files, and return the portal that has them."""

    def send(portal=None, patterns=()):
        part = Part("key-1", 1, 0, 41, "boot", phase="ended", artefacts={"patterns": list(patterns), "files": 100})
        journal = SimpleNamespace(parts={part.key: part}, job_directory=lambda _: tmp_path, save=lambda _: None)
        portal = portal or StrictPortal()
        tool = Artefacts(
            portal=portal,
            journal=journal,
            files=FileWork(),
            problems=problems,
            boot_id="boot",
            period_s=0.01,
            bytes_s=0,
        )
        asyncio.run(tool.send_rest(part))
        assert tool.is_done(part)
        return portal

    return send


@pytest.fixture
def room(tmp_path):
    for name in ("artefacts", "work"):
        (tmp_path / name).mkdir()
    return tmp_path / "artefacts"


def test_a_time_that_no_clock_shows_loses_no_file(room, sent):
    (room / "plain").write_bytes(b"plain")
    now = time.time_ns()
    os.utime(room / "plain", ns=(now, now))
    for name, when in {"ancient": -10 * 365 * 86400, "distant": 2**62 // 10**9 + 86400}.items():
        (room / name).write_bytes(name.encode())
        os.utime(room / name, (when, when))
    portal = sent()
    assert portal.kept == {name: name.encode() for name in ("plain", "ancient", "distant")}
    assert portal.times == {"plain": now, "ancient": 0, "distant": BIG}


def test_what_is_left_out_is_counted_beyond_the_first(room, sent):
    for number in range(30):
        (room / f"link-{number}").symlink_to("/no/such")
    portal = sent()
    assert (len(portal.notes), portal.more) == (20, 10)


def test_the_working_directorys_own_are_told_beside_those_of_the_folder(room, sent):
    for number in range(30):
        (room / f"link-{number}").symlink_to("/no/such")
    (room / "same.pt").write_bytes(b"kept")
    (room.parent / "work/same.pt").write_bytes(b"other")
    (room.parent / "work/out").mkdir()
    os.mkfifo(room.parent / "work/out/pipe")
    portal = sent(patterns=["*.pt", "out/*"])
    assert (portal.kept, len(portal.notes), portal.more) == ({"same.pt": b"kept"}, 20, 12)
    for number in range(30):
        (room / f"link-{number}").unlink()
    assert dict(sent(patterns=["*.pt", "out/*"]).notes) == {
        "same.pt": "a file in $BERTH_ARTEFACTS has this path, and is kept",
        "out/pipe": "it is no plain file",
    }


def test_a_file_that_can_never_be_read_is_told_and_not_awaited_for_ever(room, sent, monkeypatch):
    def closed(root, path, told, **more):
        if path == "closed":
            raise GoneError(path)
        return file_read(root, path, told, **more)

    for name in ("closed", "open"):
        (room / name).write_bytes(name.encode())
    monkeypatch.setattr(artefacts, "file_read", closed)
    portal = sent()
    assert (portal.kept, portal.gone) == ({"open": b"open"}, ["closed"])
    assert dict(portal.notes) == {
        "closed": "it could not be read: it changes all the time, or the agent may not open it"
    }


def test_what_the_portal_refuses_as_a_whole_is_told_to_the_job(room, sent, problems):
    (room / "file").write_bytes(b"x")
    (room / "link").symlink_to("/no/such")
    portal = sent(StrictPortal(refuses=lambda body: body["files"]))
    assert portal.notes[0][0] == "."
    assert "400 invalid: no such thing" in portal.notes[0][1]
    assert not problems.current()


def test_where_even_that_is_refused_the_operator_is_told(room, sent, problems):
    (room / "file").write_bytes(b"x")
    sent(StrictPortal(refuses=lambda body: True))
    (problem,) = problems.current()
    assert (problem["subject"], "400 invalid: no such thing" in problem["detail"]) == ("artefacts key-1-1-0", True)
