"""Contents that come by ASGI: in pieces to the disk, refused before they come, and nothing left of those that break off."""

import asyncio
import json
import tracemalloc

import pytest
from channels.db import database_sync_to_async
from django.core.asgi import get_asgi_application

from portal.work.uploads import receiving, store
from portal.work.uploads.models import Holding
from tests.portal.work.uploads.conftest import sha256_of
from tests.smalldisk import small_disk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.asyncio]
PIECE = b"x" * 65536


class Sent:
    """One request: `pieces` come one by one; after them the sender goes away when `leaves`, is silent when `silent`."""

    def __init__(self, caller, sha256, length, pieces, *, leaves=False, silent=False):
        self.pieces, self.leaves, self.silent = iter(pieces), leaves, silent
        self.took, self.answer, self.quiet = 0, [], asyncio.Event()
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "PUT",
            "scheme": "http",
            "path": f"/api/v1/uploads/content/{sha256}",
            "raw_path": b"",
            "query_string": b"",
            "headers": [
                (b"host", b"testserver"),
                (b"authorization", caller.headers["Authorization"].encode()),
                (b"content-type", b"application/octet-stream"),
                (b"content-length", str(length).encode()),
            ],
        }

    async def receive(self):
        piece = next(self.pieces, None)
        if piece is None:
            if self.silent:
                self.quiet.set()
                await asyncio.Event().wait()
            return {"type": "http.disconnect"} if self.leaves else {"type": "http.request", "body": b""}
        self.took += len(piece)
        return {"type": "http.request", "body": piece, "more_body": True}

    async def send(self, message):
        self.answer.append(message)

    async def go(self, door=None):
        await (door or receiving.Receiving(get_asgi_application()))(self.scope, self.receive, self.send)
        body = b"".join(message.get("body", b"") for message in self.answer[1:])
        return (self.answer[0]["status"], json.loads(body)) if self.answer else (None, None)


def left():
    return [path for path in store.root().rglob("*") if path.is_file()]


async def test_200_mib_come_in_a_stream_in_little_memory(world):
    count = 200 * 2**20 // len(PIECE)
    sha256 = await asyncio.to_thread(lambda: sha256_of(PIECE * count))
    sent = Sent(world.owner, sha256, count * len(PIECE), (PIECE for _ in range(count)))
    await Sent(world.owner, sha256_of(b"x"), 1, [b"x"]).go()  # loads what the first request loads
    store.blob_path(sha256_of(b"x")).unlink()
    tracemalloc.start()
    try:
        status, body = await sent.go()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (status, body) == (200, {"sha256": sha256, "size_bytes": 200 * 2**20})
    assert peak < 20 * 2**20
    assert [path.stat().st_size for path in left()] == [200 * 2**20]


async def test_what_is_refused_is_refused_before_it_comes(world):
    for caller, length, expected in (
        (world.owner, 201 * 2**20, (413, "too_large")),
        (world.operator, 3, (400, "required")),
    ):
        sent = Sent(caller, sha256_of(b"x"), length, [PIECE])
        status, body = await sent.go()
        assert (status, body["error"]["code"], sent.took) == (*expected, 0)
    assert left() == []


async def test_of_one_that_stops_in_the_middle_nothing_is_left(world, monkeypatch):
    assert await Sent(world.owner, sha256_of(PIECE * 2), 2 * len(PIECE), [PIECE], leaves=True).go() == (None, None)
    status, body = await Sent(world.owner, sha256_of(PIECE * 2), 2 * len(PIECE), [PIECE]).go()
    assert (status, body["error"]["code"]) == (400, "digest_mismatch")
    status, body = await Sent(world.owner, sha256_of(PIECE), 9, [PIECE]).go()
    assert (status, body["error"]["code"]) == (400, "digest_mismatch")
    monkeypatch.setattr(receiving, "SILENCE_S", 0.05)
    status, body = await Sent(world.owner, sha256_of(PIECE * 2), 2 * len(PIECE), [PIECE], silent=True).go()
    assert (status, body["error"]["code"]) == (408, "too_slow")
    assert left() == []
    assert await database_sync_to_async(Holding.objects.count)() == 0


async def test_on_a_disk_that_fills_in_the_middle_nothing_is_left(world, settings, monkeypatch):
    monkeypatch.setenv("BERTH_DISK_LOW_MIB", "0")
    with small_disk(16) as disk:
        settings.DATA_DIR = disk.path

        def pieces():
            for number in range(128):
                if number == 40:
                    disk.fill()
                yield PIECE

        sha256 = await asyncio.to_thread(lambda: sha256_of(PIECE * 128))
        status, body = await Sent(world.owner, sha256, 128 * len(PIECE), pieces()).go()
        assert (status, body["error"]["code"]) == (507, "disk_low")
        assert left() == []
        disk.give_back()
        status, _ = await Sent(world.owner, sha256, 128 * len(PIECE), [PIECE] * 128).go()
        assert status == 200


async def test_one_person_cannot_take_all_places(world, monkeypatch):
    monkeypatch.setattr(receiving, "SILENCE_S", 3600.0)
    door = receiving.Receiving(get_asgi_application())
    waiting = [Sent(world.owner, sha256_of(PIECE * 2), 2 * len(PIECE), [PIECE], silent=True) for _ in range(8)]
    tasks = [asyncio.create_task(each.go(door)) for each in waiting]
    await asyncio.gather(*(each.quiet.wait() for each in waiting))
    status, body = await Sent(world.owner, sha256_of(b"x"), 1, [b"x"]).go(door)
    assert (status, body["error"]["code"]) == (429, "too_many_requests")
    assert (await Sent(world.outsider, sha256_of(b"x"), 1, [b"x"]).go(door))[0] == 200, "others go on"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (await Sent(world.owner, sha256_of(b"x"), 1, [b"x"]).go(door))[0] == 200
    assert [path.name for path in left()] == [sha256_of(b"x")]
