"""What a job tries from its tenant's network, and from the node's, beside plain connections; and what dead agents leave."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from ipaddress import IPv4Address, IPv4Network

import pytest

from tests.workers.networks.conftest import ACME, EVIL, HOSTS, Node, lacking
from workers.networks import trial
from workers.networks.links import cable_remove, ip, network_make, nft
from workers.networks.networks import rules_remove, table_of, trial_table_of
from workers.networks.rules import GATEWAY, INNER, outer_rules
from workers.networks.settings import Service
from workers.networks.site import LINK, Site
from workers.networks.trial import take_arrivals, targets
from workers.parts.accounts import BASE
from workers.system.interfaces import address_of
from workers.system.netns import inside, namespace_make, namespace_of

MANY = ("224.0.0.1", "224.0.0.251", "255.255.255.255")
MANY_6 = ("ff02::1", "ff02::fb", "fe80::1")
FAR, HERE = "10.231.79.2", "10.231.79.1"


@pytest.fixture
def machine(tmp_path):
    """A machine of its own, with another one behind a cable."""
    if why := lacking():
        pytest.skip(f"SKIPPED LOUDLY: {why}")
    here, there = namespace_make(), namespace_make()
    ip([f"link add far0 type veth peer name far1 netns /proc/self/fd/{there}"], here, handed=there)
    ip(["link set lo up", f"addr add {HERE}/24 dev far0", "link set far0 up", f"route add default via {FAR}"], here)
    ip(["link set lo up", f"addr add {FAR}/24 dev far1", "link set far1 up"], there)
    yield here, there
    for each in (here, there):
        os.close(each)


@pytest.fixture
def node(machine, tmp_path):
    found = inside(machine[0], lambda: Node(tmp_path / "node"))
    found.prefix = ("nsenter", f"--net=/proc/{os.getpid()}/fd/{machine[0]}")
    yield found
    found.close()


def site_of(network, port):
    return Site(IPv4Network(network), (HERE,), 1500, (Service(IPv4Address("127.0.0.1"), port),), None)


def test_what_a_dead_agent_left_disturbs_no_later_one(machine):
    """Its table stays, as after a kill of which the agent never came back; a later tenant has the same number."""
    here, there = machine
    with (
        inside(there, lambda: socket.create_server((FAR, 0))) as far,
        inside(here, lambda: socket.create_server(("127.0.0.1", 0))) as service,
        inside(here, lambda: socket.create_server(("127.0.0.1", 0))) as other,
    ):
        outside, opened, old = (each.getsockname()[1] for each in (far, service, other))

        def try_all():
            dead_site, site = site_of("10.214.0.0/16", old), site_of("10.215.0.0/16", opened)
            dead, left = network_make(dead_site)
            nft(outer_rules("berth_dead", dead_site, [left], ()))
            os.close(dead)
            cable_remove(left)
            namespace, cable = network_make(site)
            nft(outer_rules("berth_live", site, [cable], ()))
            assert cable.link == left.link
            reached = inside(namespace, lambda: [connects(FAR, outside), connects("127.0.0.1", opened)])
            closed = inside(namespace, lambda: connects("127.0.0.1", old))
            os.close(namespace)
            return reached, closed

        assert inside(here, try_all) == ([True, True], False)
        for each in (far, service):
            each.settimeout(5)
            each.accept()[0].close()
        other.settimeout(0.1)
        with pytest.raises(TimeoutError):
            other.accept()


def test_a_node_that_is_shut_down_keeps_no_rules_of_an_agent_that_was_killed(machine, tmp_path):
    """Not even those of a trial that it had begun."""

    def left():
        nft("".join(f"table inet {name} {{\n}}\n" for name in (table_of(tmp_path), trial_table_of(tmp_path))))
        rules_remove(tmp_path)
        return subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True).stdout

    assert inside(machine[0], left) == ""


PUBLISHED = """table ip published {{
  chain names {{
    type nat hook prerouting priority -101;
    fib daddr type local tcp dport 8080 dnat to {far}:{port}
    fib daddr type local tcp dport 8081 redirect to :{own}
  }}
}}
"""


def test_ports_of_the_node_that_lead_elsewhere_are_closed_too(machine):
    """As of a container that publishes one, which never comes to the node's own sockets."""
    here, there = machine
    with (
        inside(there, lambda: socket.create_server((FAR, 0))) as container,
        inside(here, lambda: socket.create_server((HERE, 0))) as local,
        inside(here, lambda: socket.create_server(("127.0.0.1", 0))) as opened,
    ):
        port, own, of_site = (each.getsockname()[1] for each in (container, local, opened))

        def try_all():
            site = site_of("10.217.0.0/16", of_site)
            namespace, cable = network_make(site)
            nft(outer_rules("berth_published", site, [cable], ()))
            nft(PUBLISHED.format(far=FAR, port=port, own=own))
            published = [(host, p, via) for host in (GATEWAY, HERE) for p in (8080, 8081, own) for via in ("", INNER)]
            reached = inside(namespace, lambda: [each for each in published if connects(*each)])
            well = inside(namespace, lambda: connects(FAR, port) and connects("127.0.0.1", of_site))
            os.close(namespace)
            return reached, well

        assert inside(here, try_all) == ([], True)


def test_an_agent_finds_out_that_the_node_reaches_a_tenants_network(machine, monkeypatch):
    made = trial.outer_rules
    monkeypatch.setattr(trial, "outer_rules", lambda *of: re.sub(r"(?m)^.* oif .* reject.*$", "", made(*of)))
    said = inside(machine[0], lambda: trial.try_cables(site_of("10.216.0.0/16", 9), "berth_trial", None))
    assert said == "the node still reached a tenant's port (TCP at 10.216.0.1)"


def connects(host, port, device=""):
    with socket.socket() as wire:
        wire.settimeout(2)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        return wire.connect_ex((host, port)) == 0


def attack(node, there, *, hosts, devices=("",), **spec):
    """Send all that a job can to the ports of these sockets, at these hosts; return what arrives there."""
    take_arrivals(there)
    tries = [
        [each.socket.family.name, each.socket.type.name, host, each.name[1], "", device]
        for each in there
        if each.host
        for host in hosts
        for device in devices
        if (":" in host) == (":" in each.host)
    ]
    tries += [["AF_UNIX", "SOCK_STREAM", "", each.name[1:].decode()] for each in there if not each.host]
    assert tries
    said = node.reaches(tries, **spec)
    return said, [each.words for each in take_arrivals(there)]


TWO = {"nodes": ("127.0.0.1", "127.0.0.1")}


@pytest.mark.parametrize("opened", ["", "127.0.0.1:9"], ids=["nothing open", "a service open"])
@pytest.mark.parametrize("spec", [{}, TWO], ids=["in its tenant's network", "in the node's network"])
def test_no_road_leads_into_another_tenants_network(machine, node, spec, opened):
    """A port on all addresses, on the network's own one and on the loopback, by all that the attacker can name."""
    node.up("--jobs-open", opened).wall()
    key, _ = node.serve(tenant=ACME)
    network = namespace_of(node.shim(key))
    address = inside(network, lambda: address_of(INNER))
    there = inside(network, lambda: targets(("0.0.0.0", "::", "127.0.0.1", address), names=True))
    names = inside(machine[0], lambda: [name for _, name in socket.if_nameindex() if name.startswith(LINK)])
    devices = ("", *names) if spec else ("", INNER)
    hosts = (*HOSTS, HERE, address, GATEWAY, *MANY, *(f"{each}%{name}" for each in MANY_6 for name in devices if name))
    assert attack(node, there, hosts=hosts, devices=devices, tenant=EVIL, **spec) == ([], [])
    assert inside(machine[0], lambda: [connects(address, each.name[1]) for each in there if each.host]) == [False] * 8
    os.close(network)


def test_no_road_leads_from_a_tenants_network_to_the_node(machine, node):
    node.up().wall()
    there = inside(machine[0], lambda: targets(("0.0.0.0", "::", "127.0.0.1", HERE), names=True))
    hosts = (*HOSTS, HERE, GATEWAY, *MANY, *(f"{each}%{INNER}" for each in MANY_6))
    assert attack(node, there, hosts=hosts, devices=("", INNER), tenant=EVIL) == ([], [])


def test_a_job_makes_no_packets_of_its_own(node):
    """So it can answer no ARP request in another's place, nor send from another's address."""
    node.up().wall()
    program = """-c 'import socket
for family, kind, number in ((17, 3, 0x300), (2, 3, 255), (2, 3, 1), (10, 3, 58)):
    try: socket.socket(family, kind, number); print("made")
    except OSError as error: print(error.strerror)
with socket.socket() as s:
    try: s.bind(("10.213.0.99", 0)); print("bound")
    except OSError as error: print(error.strerror)
for text in ("link set eth0 down", "addr add 10.213.0.99/32 dev eth0", "neigh add 169.254.213.1 lladdr 02:00:00:00:00:01 dev eth0"):
    import subprocess
    print(subprocess.run(["/usr/sbin/ip", *text.split()], capture_output=True).returncode != 0)
print("]")'"""
    said = node.said(node.run(program, tenant=EVIL)).splitlines()
    assert said == ["Operation not permitted"] * 4 + ["Cannot assign requested address", "True", "True", "True", "]"]


def test_what_is_sent_to_all_does_not_reach_another_tenants_job_over_several_nodes(node):
    node.up().wall()
    nodes = (HERE, FAR)
    key = node.run("neighbour.py hear 224.0.0.251", tenant=ACME, nodes=nodes)
    port = json.loads(node.said(key))[0]
    tries = [["AF_INET", "SOCK_DGRAM", host, port, "", device] for host in MANY for device in ("", "far0")]
    for who in (EVIL, ACME):
        node.reaches(tries, tenant=who, nodes=nodes)
    node.portal.wait_for(lambda: node.portal.logs[*key, "stdout"].count(f"{BASE + ACME}\n".encode()) >= len(MANY))
    assert str(BASE + EVIL) not in node.said(key, ending="\n")
