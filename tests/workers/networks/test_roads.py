"""What jobs reach from their tenant's network and what reaches jobs, with a node and another machine that are namespaces."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from functools import partial
from types import SimpleNamespace

import pytest

from tests.workers.conftest import wait_until
from tests.workers.controls.test_shim import ShimRun
from tests.workers.networks.conftest import ACME, Node, lacking
from tests.workers.networks.neighbour import reached
from tests.workers.parts.test_terminal_channel import Portal as Terminal
from workers.networks.links import ip
from workers.system.netns import inside, namespace_make

NODE, FAR, STRANGER, INFINIBAND = "10.231.78.1", "10.231.78.2", "10.231.78.3", "10.231.78.4"


@pytest.fixture
def wire():
    """A node and another machine, which has three addresses. Skips, loudly, where no namespaces can be made."""
    if why := lacking():
        pytest.skip(f"SKIPPED LOUDLY: {why}")
    here, there = namespace_make(), namespace_make()
    ip([f"link add far0 type veth peer name far1 netns /proc/self/fd/{there}"], here, handed=there)
    ip(["link set lo up", f"addr add {NODE}/24 dev far0", "link set far0 up", f"route add default via {FAR}"], here)
    more = [f"addr add {each}/24 dev far1" for each in (FAR, STRANGER, INFINIBAND)]
    ip(["link set lo up", *more, "link set far1 up", f"route add 10.213.0.0/16 via {NODE}"], there)
    yield SimpleNamespace(here=here, there=there)
    for each in (here, there):
        os.close(each)


@pytest.fixture
def node(wire, tmp_path):
    found = inside(wire.here, lambda: Node(tmp_path / "node", host=NODE))
    found.prefix = ("nsenter", f"--net=/proc/{os.getpid()}/fd/{wire.here}")
    yield found
    found.close()


def test_what_lies_outside_is_reached_by_the_nodes_address(wire, node):
    listening = inside(wire.there, lambda: socket.create_server((FAR, 0)))
    assert node.up("--insecure").wall() == {"name": "network", "by": "namespace", "why": ""}
    port = listening.getsockname()[1]
    program = (
        f"""-c 'import socket; print(socket.create_connection(("{FAR}", {port}), 20).recv(9).decode()); print("]")'"""
    )
    key = node.run(program, tenant=ACME)
    came, address = listening.accept()
    came.sendall(b"hello")
    came.close()
    assert address[0] == NODE
    assert node.said(key).split() == ["hello", "]"]


def test_the_portal_on_the_nodes_own_address_is_reached_and_no_other_port(wire, node):
    node.up("--insecure").wall()
    port = int(node.url.rpartition(":")[2])
    with inside(wire.here, lambda: socket.create_server((NODE, 0))) as other:
        ports = [port, other.getsockname()[1]]
        program = f"""-c 'import socket
for port in {ports}:
    with socket.socket() as s: print("reached" if s.connect_ex(("{NODE}", port)) == 0 else "refused")
print("]")'"""
        assert node.said(node.run(program, tenant=ACME)).split() == ["reached", "refused", "]"]


def test_from_outside_nobody_reaches_a_tenants_network(wire, node):
    node.up("--insecure").wall()
    _, there = node.serve(tenant=ACME)
    for _, kind, _, port in [each for each in there if each[2] == "127.0.0.1"]:
        for host in ("10.213.0.1", "10.213.0.2", "10.213.0.3", NODE):
            assert not inside(wire.there, partial(reached, "AF_INET", kind, host, port)), (kind, host)


@pytest.mark.parametrize("more", [[], [INFINIBAND]], ids=["one address", "one more"])
def test_only_the_jobs_own_nodes_reach_its_ports_from_outside(wire, node, more):
    node.up("--insecure").wall()
    world = {"nodes": [{"name": "a", "address": NODE}, {"name": "b", "address": FAR, "addresses": more}], "port": 29400}
    key = node.run(f"neighbour.py serve {NODE}", tenant=ACME, world={**world, "gpus_total": 0})
    there = [each for each in json.loads(node.said(key)) if each[0] != "AF_UNIX"]
    assert len(there) == 2
    for source in (FAR, STRANGER, INFINIBAND):
        got = [each for each in there if inside(wire.there, partial(reached, *each, source=source))]
        assert got == (there if source in {FAR, *more} else []), source


def test_a_terminal_is_in_the_parts_network(wire, tmp_path):
    run = ShimRun(tmp_path)
    run.prepare(command="sleep 900").start(wire.here)
    try:
        wait_until(lambda: run.engine.job(run.directory) is not None)

        async def ask():
            terminal = Terminal(run)
            await terminal.run(command="readlink /proc/self/ns/net", plain=True)
            return terminal.shown.decode().strip()

        assert asyncio.run(ask()) == f"net:[{os.fstat(wire.here).st_ino}]"
    finally:
        run.end()
