"""What an agent tells and sends of a part's files, to a portal that refuses a whole message for one impossible number."""

import asyncio
import os
import time
from types import SimpleNamespace

import pytest

from workers.parts.artefacts import Artefacts
from workers.parts.part import Part
from workers.protocol.client import PortalRefusedError
from workers.system.filework import FileWork

BIG = 2**62


class StrictPortal:
    """Takes all files, and checks their numbers as the portal's shapes do."""

    def __init__(self):
        self.times, self.sizes, self.kept = {}, {}, {}

    async def artefacts(self, body):
        for each in body["files"]:
            self._check(each)
            self.times[each["path"]], self.sizes[each["path"]] = each["modified_ns"], each["size"]
        return {"files": [{"path": each["path"], "state": "send", "offset": 0} for each in body["files"]]}

    async def artefact_piece(self, query, data):
        self._check(query)
        if self.times[query["path"]] != query["modified_ns"]:
            raise PortalRefusedError(409, "not_told", "another content")
        self.kept[query["path"]] = self.kept.get(query["path"], b"") + data
        return query["offset"] + len(data)

    def _check(self, each):
        if not (0 <= each["size"] <= BIG and 0 <= each["modified_ns"] <= BIG):
            raise PortalRefusedError(400, "invalid", f"of {each}")


@pytest.fixture
def sent(tmp_path):
    """Send a dead part's files, and return the portal that has them."""
    part = Part("key-1", 1, 0, 41, "boot", phase="ended", artefacts={"patterns": [], "files": 100})
    journal = SimpleNamespace(parts={part.key: part}, job_directory=lambda _: tmp_path, save=lambda _: None)

    def send():
        portal = StrictPortal()
        tool = Artefacts(portal=portal, journal=journal, files=FileWork(), boot_id="boot", period_s=0.01, bytes_s=0)
        asyncio.run(tool.send_rest(part))
        return portal

    return send


def test_a_time_that_no_clock_shows_loses_no_file(tmp_path, sent):
    room = tmp_path / "artefacts"
    room.mkdir()
    (room / "plain").write_bytes(b"plain")
    now = time.time_ns()
    os.utime(room / "plain", ns=(now, now))
    for name, when in {"ancient": -10 * 365 * 86400, "distant": 2**62 // 10**9 + 86400}.items():
        (room / name).write_bytes(name.encode())
        os.utime(room / name, (when, when))
    portal = sent()
    assert portal.kept == {name: name.encode() for name in ("plain", "ancient", "distant")}
    assert portal.times == {"plain": now, "ancient": 0, "distant": BIG}
