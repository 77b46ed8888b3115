"""Connections to a job's own ports, with a real shim behind the channel's end on the node: what is reached, and what is not."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from types import SimpleNamespace

import pytest

from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import ShimRun
from tests.workers.networks.conftest import lacking
from workers.networks.links import ip
from workers.parts import ports as ports_of_jobs
from workers.parts.channel import Channel
from workers.parts.ports import Ports
from workers.parts.terminals import Terminals
from workers.protocol.frames import MOST_DATA, WINDOW, Kind, pack, unpack, unpack_object
from workers.system.filework import FileWork
from workers.system.netns import Listener, listeners, namespace_make, still_listens

SERVER = """
import contextlib, os, pathlib, socket, threading
def serve(family, host, answer):
    listening = socket.create_server((host, 0), family=family)
    def turn():
        while True:
            with listening.accept()[0] as wire, contextlib.suppress(OSError):
                answer(wire)
    threading.Thread(target=turn, daemon=True).start()
    return str(listening.getsockname()[1])
def echo(wire):
    while data := wire.recv(65536):
        wire.sendall(data)
def much(wire):
    wire.sendall(b"x" * 5_000_000)
def deaf(wire):
    threading.Event().wait()
if os.fork():  # a child of the command listens, too
    os.wait()
ports = [serve(socket.AF_INET, "127.0.0.1", echo), serve(socket.AF_INET, "0.0.0.0", much), serve(socket.AF_INET, "", deaf)]
ports.append(serve(socket.AF_INET6, "::1", echo))
pathlib.Path("ports.new").write_text(" ".join(ports))
os.rename("ports.new", "ports")
threading.Event().wait()
"""


@pytest.fixture(scope="module", params=["the node's network", "its tenant's network"])
def shim(request, tmp_path_factory):
    home, namespace = tmp_path_factory.mktemp("ports"), None
    if request.param == "its tenant's network":
        if why := lacking():
            pytest.skip(f"SKIPPED LOUDLY: {why}")
        namespace = namespace_make()
        ip(["link set lo up"], namespace)
    (home / "serve.py").write_text(SERVER)
    run = ShimRun(home)
    run.prepare(command=f"cd {home} && {sys.executable} serve.py").start(namespace)
    wait_until((home / "ports").exists)
    run.ports = dict(zip(("echo", "much", "deaf", "six"), map(int, (home / "ports").read_text().split()), strict=True))
    yield run
    run.end()
    if namespace is not None:
        os.close(namespace)


class Portal:
    """The portal's end of one stream. It gives credit for what came, unless it is told not to."""

    def __init__(self, shim, *, reads=True):
        self.channel, self.came, self.reads = Channel("http://nobody", token="", verify=False), b"", reads
        part = SimpleNamespace(key="5-2-0", attempt="5", epoch=2, rank=0, phase="running")
        journal = SimpleNamespace(parts={part.key: part}, directory=lambda _: shim.directory)
        files = FileWork()
        self.channel.attend(journal, Terminals(shim.engine, files), Ports(shim.engine, files))
        self.heard = asyncio.Event()
        self.opened, self.end = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def hear(self, frame):
        kind, _, body = unpack(frame)
        if kind is Kind.OPENED:
            self.opened.set()
        elif kind is Kind.DATA:
            self.came += body
            self.heard.set()
            if self.reads:
                self.tell(Kind.CREDIT, len(body).to_bytes(4, "big"))
        elif kind is Kind.CLOSE:
            self.end.set_result(unpack_object(body))

    def tell(self, kind, body=b""):
        self.channel._take(pack(kind, 1, body), self.hear)

    def ask(self, **asked):
        self.tell(Kind.OPEN, json.dumps({"kind": "port", "attempt": "5", "epoch": 2, "rank": 0, **asked}).encode())

    async def until(self, count):
        while len(self.came) < count:
            self.heard.clear()
            await asyncio.wait_for(self.heard.wait(), 60)

    async def ended(self):
        return await asyncio.wait_for(self.end, 60)


def refused(shim, **asked):
    async def talk():
        portal = Portal(shim)
        portal.ask(**asked)
        end = await portal.ended()
        assert not portal.opened.is_set()
        return end

    return asyncio.run(talk())


@pytest.mark.parametrize("server", ["echo", "six"])
def test_bytes_go_both_ways_as_they_are(shim, server):
    sent = bytes(range(256)) * 100

    async def talk():
        portal = Portal(shim)
        portal.ask(port=shim.ports[server])
        await asyncio.wait_for(portal.opened.wait(), 60)
        for at in range(0, len(sent), MOST_DATA):
            portal.tell(Kind.DATA, sent[at : at + MOST_DATA])
        await portal.until(len(sent))
        portal.tell(Kind.CLOSE, b'{"code": "left"}')
        return await portal.ended(), portal.came

    end, came = asyncio.run(talk())
    assert came == sent
    assert end["code"] == "ended"


def test_all_that_a_server_sends_before_it_closes_arrives(shim):
    async def talk():
        portal = Portal(shim)
        portal.ask(port=shim.ports["much"])
        return await portal.ended(), portal.came

    end, came = asyncio.run(talk())
    assert (end["code"], came) == ("ended", b"x" * 5_000_000)


def test_who_does_not_read_is_sent_one_window_and_who_is_deaf_takes_one(shim):
    async def talk():
        portal = Portal(shim, reads=False)
        portal.ask(port=shim.ports["much"])
        await portal.until(WINDOW)
        await asyncio.sleep(0.2)
        sent = len(portal.came)
        portal.tell(Kind.CLOSE, b'{"code": "left"}')
        await portal.ended()
        deaf = Portal(shim)
        deaf.ask(port=shim.ports["deaf"])
        await asyncio.wait_for(deaf.opened.wait(), 60)
        deaf.tell(Kind.CLOSE, b'{"code": "left"}')
        return sent, (await deaf.ended())["code"]

    assert asyncio.run(talk()) == (WINDOW, "ended")


def test_what_others_listen_on_is_not_reached(shim):
    """A server of the node's own: it must not even see a connection."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        end = refused(shim, port=other.getsockname()[1])
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.accept()
    assert end["code"] == "not_listening"
    assert str(shim.ports["echo"]) in end["detail"], "what there is instead is told"


def test_what_is_no_port_is_refused(shim, subtests):
    for port in [0, 65_536, -1, "80", None, True, 1.5]:
        with subtests.test(port=port):
            assert refused(shim, port=port)["code"] == "closed"


@pytest.mark.parametrize("asked", [{"epoch": 1}, {"attempt": "6"}, {"rank": 1}, {"kind": []}, {"kind": "else"}])
def test_what_does_not_run_has_no_ports(shim, asked):
    assert refused(shim, **{"port": shim.ports["echo"], **asked})["code"] == "not_running"


def test_a_port_that_changed_hands_meanwhile_is_let_go(shim, monkeypatch):
    """Between the look and the connection another socket took the port: what then listens is not the job's."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setattr(ports_of_jobs, "listeners_of", lambda _: [Listener(1, port, ("127.0.0.1",))])
        assert refused(shim, port=port)["code"] == "not_listening"


def test_one_knows_each_listening_socket_and_that_it_has_gone():
    with socket.create_server(("0.0.0.0", 0)) as any_four, socket.create_server(("127.0.0.5", 0)) as one:
        ports = {each.getsockname()[1]: each for each in (any_four, one)}
        found = {each.port: each for each in listeners(os.getpid()).values() if each.port in ports}
        assert found[any_four.getsockname()[1]].hosts == ("127.0.0.1",)
        assert found[one.getsockname()[1]].hosts == ("127.0.0.5",)
        assert all(still_listens(each, os.getpid()) for each in found.values())
    assert not any(still_listens(each, os.getpid()) for each in found.values())


def test_many_connections_look_once(shim, monkeypatch):
    looks = []
    real = ports_of_jobs.listeners_of
    monkeypatch.setattr(ports_of_jobs, "AGAIN_S", 60.0)
    monkeypatch.setattr(ports_of_jobs, "listeners_of", lambda pid: looks.append(pid) or real(pid))

    async def talk():
        ports = Ports(shim.engine, FileWork())
        found = await asyncio.gather(*(ports._listening(shim.directory) for _ in range(20)))
        return {tuple(each.port for each in listening) for listening in found}

    assert asyncio.run(talk()) == {tuple(sorted(shim.ports.values()))}
    assert len(looks) == 1
