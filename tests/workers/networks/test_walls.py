"""Two tenants' jobs on one node, under a real agent with real shims: neither reaches the other's ports, whatever the address."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from pathlib import Path

from tests.remains import groups_remove
from tests.workers.conftest import wait_until
from tests.workers.networks.conftest import ACME, EVIL, HOSTS, Node, links
from workers.controls.cgroups import group_find, part_name
from workers.networks.links import nft
from workers.networks.networks import Networks, table_of
from workers.networks.rules import table_remove
from workers.networks.settings import RANGE
from workers.networks.site import site_find

TWO = ("127.0.0.1", "127.0.0.1")
"""A job over two nodes, which both are this machine."""


def ports(there):
    """Without abstract names of Unix sockets: Landlock keeps these to the job itself, where the kernel has its version 6."""
    return [each for each in there if each[0] != "AF_UNIX"]


def namespace(node, key):
    return Path(f"/proc/{node.shim(key)}/ns/net").stat().st_ino


def test_another_tenants_ports_are_not_reached_and_ones_own_are(node):
    assert node.up().wall()["by"] == "namespace"
    _, there = node.serve(tenant=ACME)
    assert len(there) > len(HOSTS)
    assert node.reaches(there, tenant=EVIL) == []
    assert ports(node.reaches(there, tenant=ACME)) == ports(there)


def test_nor_are_those_of_a_job_over_several_nodes(node):
    node.up().wall()
    _, there = node.serve(tenant=ACME, nodes=TWO)
    assert node.reaches(there, tenant=EVIL, nodes=TWO) == []
    assert node.reaches(there, tenant=EVIL) == []
    assert ports(node.reaches(there, tenant=ACME, nodes=TWO)) == ports(there)


def test_nor_are_the_nodes_own_services_but_for_what_is_open(node):
    with socket.create_server(("127.0.0.1", 0)) as opened, socket.create_server(("127.0.0.1", 0)) as closed:
        ports = [each.getsockname()[1] for each in (opened, closed)]
        node.up("--jobs-open", f"127.0.0.1:{ports[0]}").wall()
        program = f"""-c 'import socket
for port in {ports}:
    with socket.socket() as s: print("reached" if s.connect_ex(("127.0.0.1", port)) == 0 else "refused")
print("]")'"""
        assert node.said(node.run(program, tenant=ACME)).split() == ["reached", "refused", "]"]


def test_a_profile_is_in_its_tenants_network(node):
    node.up().wall()
    job, there = node.serve(tenant=ACME)
    profile, theirs = node.serve(tenant=ACME, profile=True, time_limit_s=300)
    assert namespace(node, profile) == namespace(node, job) != Path("/proc/self/ns/net").stat().st_ino
    assert node.reaches(theirs, tenant=EVIL) == []
    for each in (there, theirs):
        assert ports(node.reaches(each, tenant=ACME, profile=True, time_limit_s=300)) == ports(each)


def test_an_agent_that_comes_back_takes_the_networks_again_and_they_end_with_the_last_job(node):
    before = links()
    node.up().wall()
    first, there = node.serve(tenant=ACME)
    kind = namespace(node, first)
    node.kill()
    node.portal.inventories.clear()
    node.up().wall()
    assert node.reaches(there, tenant=EVIL) == []
    second, _ = node.serve(tenant=ACME)
    assert namespace(node, second) == kind, "the tenant's network, as before"
    assert ports(node.reaches(there, tenant=ACME)) == ports(there)
    assert len(links() - before) == 1
    for key in (first, second):
        node.portal.stop(key)
        node.portal.wait_report(key, "ended")
    wait_until(lambda: links() == before and not node.rules())


def test_what_a_killed_agent_and_its_dead_jobs_leave_is_gone_after_the_next_start(node):
    before = links()
    node.up().wall()
    key, _ = node.serve(tenant=ACME)
    node.kill()
    os.kill(node.shim(key), signal.SIGKILL)
    assert node.rules()
    node.up()
    node.portal.wait_report(key, "ended")
    wait_until(lambda: links() == before and not node.rules())


def test_a_part_that_just_ended_keeps_no_other_from_its_network(node, tmp_path):
    """Its shim has removed its group, and the agent does not know of its end yet: rules that name the group are refused."""
    parts = tmp_path / "parts"
    networks = Networks(parts, None, members=True)

    def begin(number):
        directory = parts / f"{number}-1-0"
        directory.mkdir(parents=True)
        world = {"nodes": [{"name": each, "address": "127.0.0.1"} for each in "ab"]}
        launch = {"tenant_id": number, "world": world, "virtual": True, "account": {"uid": ACME + number}}
        (directory / "launch.json").write_text(json.dumps(launch))
        networks.begin(directory)
        return directory

    try:
        ended = begin(1)
        group_find(part_name(ended)).remove()
        begin(2)
        rules = subprocess.run(
            ["nft", "list", "table", "inet", table_of(parts)], capture_output=True, text=True, check=True
        )
        assert rules.stdout.count("socket cgroupv2") == 1
        for number in (1, 2):
            networks.end(f"{number}-1-0")
    finally:
        groups_remove(tmp_path)


def test_two_agents_of_one_machine_do_not_meet(node, tmp_path):
    """As the nodes of a demo, or of two Berths: each has its own table, and no number twice."""
    other = Node(tmp_path / "other")
    try:
        assert [each.up().wall()["by"] for each in (node, other)] == ["namespace"] * 2
        before = links()
        parts = [(each, tenant, each.serve(tenant=tenant)) for each in (node, other) for tenant in (ACME, EVIL)]
        assert len(links() - before) == 4
        for each, tenant, (_, there) in parts:
            for further in (node, other):
                for who in (ACME, EVIL):
                    expected = ports(there) if (further, who) == (each, tenant) else []
                    assert ports(further.reaches(there, tenant=who)) == expected
        for each, _, (key, _) in parts[:2]:
            each.portal.stop(key)
            each.portal.wait_report(key, "ended")
        wait_until(lambda: not node.rules() and len(links() - before) == 2)
        assert other.rules()
    finally:
        other.close()


def test_rules_that_somebody_removed_are_written_again(node):
    node.up().wall()
    key, _ = node.serve(tenant=ACME)
    networks = Networks(node.directory / "parts", site_find(RANGE, (), None), members=False)
    networks.adopt(node.part(key), node.shim(key))
    before = node.rules()
    nft(table_remove(node.table))
    networks.keep()
    assert node.rules() == before


def test_an_agent_says_what_is_missing_and_its_jobs_run_all_the_same(node, tmp_path):
    assert node.up("--jobs-network", "off").wall() == {
        "name": "network",
        "by": "",
        "why": "the node's settings switch it off (--jobs-network off)",
    }
    key, there = node.serve(tenant=ACME)
    assert namespace(node, key) == Path("/proc/self/ns/net").stat().st_ino
    assert ports(node.reaches(there, tenant=EVIL)) == ports(there), "what it is without walls"
