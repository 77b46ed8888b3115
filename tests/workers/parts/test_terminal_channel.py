"""The channel's end on the node with a real shim behind it: one command and how it ended, what is refused, and a full disk."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest

from tests.smalldisk import small_disk
from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import ShimRun
from workers.parts import channel as channels
from workers.parts.channel import Channel
from workers.parts.ports import Ports
from workers.parts.terminals import Terminals
from workers.protocol.frames import Kind, pack, unpack, unpack_object
from workers.system.filework import FileWork


@pytest.fixture(scope="module")
def disk():
    with small_disk(32) as disk:
        yield disk


@pytest.fixture(scope="module")
def shim(disk):
    run = ShimRun(disk.path)
    run.prepare(command="sleep 900").start()
    wait_until(lambda: run.engine.job(run.directory) is not None)
    yield run
    disk.give_back()
    run.end()


class Portal:
    """What the portal hears of one stream, and gives credit for."""

    def __init__(self, shim):
        self.channel, self.shown, self.opened = Channel("http://nobody", token="", verify=False), b"", False
        part = SimpleNamespace(key="5-2-0", attempt="5", epoch=2, rank=0, phase="running")
        journal = SimpleNamespace(parts={part.key: part}, directory=lambda _: shim.directory)
        files = FileWork()
        self.channel.attend(journal, Terminals(shim.engine, files), Ports(shim.engine, files))
        self.end = asyncio.get_running_loop().create_future()

    async def hear(self, frame):
        kind, number, body = unpack(frame)
        self.opened = self.opened or kind is Kind.OPENED
        if kind is Kind.DATA:
            self.shown += body
            self.channel._take(pack(Kind.CREDIT, number, len(body).to_bytes(4, "big")), self.hear)
        elif kind is Kind.CLOSE:
            self.end.set_result(unpack_object(body))

    async def run(self, **asked):
        whole = {"kind": "terminal", "attempt": "5", "epoch": 2, "rank": 0, **asked}
        self.channel._take(pack(Kind.OPEN, 1, json.dumps(whole).encode()), self.hear)
        return await asyncio.wait_for(self.end, 60)


def ask(shim, **asked):
    async def talk():
        portal = Portal(shim)
        return await portal.run(**asked), portal

    return asyncio.run(talk())


def test_a_command_shows_all_it_prints_and_its_exit_code(shim):
    end, portal = ask(shim, command="seq 50000; exit 9", plain=True)
    assert (end["code"], end["exit_code"]) == ("ended", 9)
    assert portal.shown == b"".join(b"%d\n" % each for each in range(1, 50_001))


def test_what_is_left_in_the_background_is_not_waited_for(shim):
    end, portal = ask(shim, command="(sleep 300; echo late) & echo early; exit 3", plain=True)
    assert (end["exit_code"], portal.shown) == (3, b"early\n")


def test_the_size_is_known_when_the_shell_begins(shim):
    end, portal = ask(shim, command="stty size < /dev/tty", columns=123, rows=45)
    assert (end["exit_code"], portal.shown) == (0, b"45 123\r\n")


@pytest.mark.parametrize(
    "asked", [{"epoch": 1}, {"attempt": "6"}, {"rank": 1}, {"kind": "else"}, {"command": 5}, {"plain": True}]
)
def test_what_does_not_run_and_what_is_no_command_opens_nothing(shim, asked):
    end, portal = ask(shim, **asked)
    assert end["code"] in {"not_running", "closed"}
    assert end["exit_code"] is None
    assert not portal.opened


def test_a_full_disk_is_said_and_when_there_is_room_again_a_terminal_opens(shim, disk):
    disk.fill()
    end, portal = ask(shim, command="echo room", plain=True)
    assert (end["code"], end["detail"]) == ("failed", channels.NO_ROOM)
    assert not portal.opened
    assert not list(shim.directory.glob("terminal*"))
    disk.give_back()
    end, portal = ask(shim, command="echo room", plain=True)
    assert (end["exit_code"], portal.shown) == (0, b"room\n")
    assert shim.engine.life(shim.directory) == "alive"


@pytest.mark.parametrize("kind", ["terminal", "port"])
def test_a_failure_that_nobody_foresaw_is_told_and_leaves_nothing(shim, monkeypatch, kind):
    async def fail(*_, **__):
        raise RuntimeError("can't start new thread")

    for server in (Terminals, Ports):
        monkeypatch.setattr(server, "serve", fail)
    end, portal = ask(shim, kind=kind, port=8888)
    assert (end["code"], end["detail"]) == ("failed", channels.BROKEN)
    assert (portal.channel._streams, portal.channel._jobs) == ({}, {})


def test_a_shim_that_began_before_there_were_commands_runs_none(shim, monkeypatch):
    """It takes the order away and opens no pipe: whatever it started, it was not what was asked for."""
    monkeypatch.setattr(shim.engine, "terminal", lambda *_, **__: None)
    end, portal = ask(shim, command="true")
    assert (end["code"], portal.opened) == ("not_started", False)
