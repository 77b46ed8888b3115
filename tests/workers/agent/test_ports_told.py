"""The ports that a job listens on: the agent tells its own, soon, and none of the node's."""

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from workers.parts import ports as ports_module

pytestmark = pytest.mark.system

LISTENS = """$BERTH_PYTHON -c "
import os, socket, time
many = [socket.create_server(('127.0.0.1', 0)) for _ in range(20)]
open('ports', 'w').write(' '.join(str(each.getsockname()[1]) for each in many))
while not os.path.exists('close'): time.sleep(0.1)
for each in many[1:]: each.close()
time.sleep(600)"
"""


def told(portal):
    return portal.holding[0].get("ports") if portal.holding else None


def test_an_agent_tells_the_lowest_ports_of_the_job_alone(portal, node):
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        key = portal.want(command=LISTENS)
        node.start()
        portal.wait_report(key, "running")
        portal.wait_for(lambda: told(portal))
        portal.wait_for(lambda: len(told(portal)) == 16)
        (file,) = node.directory.rglob("ports")
        ports = sorted(map(int, file.read_text().split()))
        assert told(portal) == ports[:16]
        assert foreign.getsockname()[1] not in told(portal)
        first = int(file.read_text().split()[0])
        file.with_name("close").touch()
        portal.wait_for(lambda: told(portal) == [first])
    portal.stop(key)
    portal.wait_report(key, "ended")


def test_a_port_that_closes_right_after_a_look_is_not_told_for_good(monkeypatch):
    """The second look finds other sockets, and its list is the first's: it may be asked for once a second."""
    there = {1, 2}
    monkeypatch.setattr(ports_module, "AGAIN_S", 0.2)
    monkeypatch.setattr(ports_module, "listeners", lambda _: set(there))
    monkeypatch.setattr(ports_module, "listeners_of", lambda _: [SimpleNamespace(port=each) for each in there])

    class Files:
        async def run(self, _, work):
            return work()

    async def told():
        known = ports_module.Ports(SimpleNamespace(shim=lambda _: SimpleNamespace(pid=1)), Files())
        for wait_s in (0.01, 0.3, 0.01):
            known.known(Path("part"))
            await asyncio.sleep(wait_s)
            there.discard(2)
        return known.known(Path("part"))

    assert asyncio.run(told()) == [1]
