"""What is found of a machine's network, and what an operator may say of jobs' networks."""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers.conftest import ROOT
from tests.workers.networks.conftest import ACME, EVIL, links
from workers.networks import site as sites
from workers.networks.settings import Service, network_read, services_read
from workers.networks.site import resolvers, unfit
from workers.system.view import View

STUB, UPSTREAM, LOCAL = "nameserver 127.0.0.53\noptions edns0\n", "nameserver 192.168.1.1\n", "nameserver 127.0.0.1\n"


@pytest.mark.parametrize(
    ("resolv", "upstream", "seen", "opened"),
    [
        ("nameserver 192.168.1.1\n", UPSTREAM, None, []),
        (STUB, UPSTREAM, "upstream", []),
        (STUB, LOCAL, None, ["127.0.0.53"]),
        (STUB, "", None, ["127.0.0.53"]),
        ("# nothing\nnameserver nonsense\n", UPSTREAM, None, []),
    ],
)
def test_a_resolver_on_the_loopback_is_gone_round_or_opened(tmp_path, resolv, upstream, seen, opened):
    for name, text in (("resolv.conf", resolv), ("upstream", upstream)):
        (tmp_path / name).write_text(text)
    found = resolvers(tmp_path / "resolv.conf", (tmp_path / "missing", tmp_path / "upstream"))
    assert found == (
        seen and tmp_path / seen,
        tuple(Service(ipaddress.IPv4Address(each), 53) for each in opened),
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED LOUDLY: a view of files needs root")
def test_a_job_sees_the_servers_behind_the_stub(tmp_path):
    (tmp_path / "upstream").write_text("nameserver 192.168.77.1\n")
    (tmp_path / "tmp").mkdir()
    view = View(covered=(), program=(), tmp=tmp_path / "tmp", resolv=tmp_path / "upstream")
    program = f"""
from workers.system.view import View, enter_view
enter_view(View.from_json({view.to_json()!r}), 200000, 200000)
print(open("/etc/resolv.conf").read())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    if "unshare" in done.stderr:
        pytest.skip(f"SKIPPED LOUDLY: no mount namespace here: {done.stderr[-100:]}")
    assert done.stdout.strip() == "nameserver 192.168.77.1"
    assert "192.168.77.1" not in Path("/etc/resolv.conf").read_text()


def test_a_range_in_use_is_not_taken(tmp_path, monkeypatch):
    routes = tmp_path / "route"
    head = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
    routes.write_text(
        f"{head}eth0\t0000D50A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n".replace("0000FFFF", "0000FFFF")
    )
    monkeypatch.setattr(sites, "_ROUTES", routes)
    assert "10.213.0.0/16 by eth0" in unfit(ipaddress.IPv4Network("10.213.0.0/16"))
    assert "--jobs-network" in unfit(ipaddress.IPv4Network("10.213.4.0/24"))
    monkeypatch.setattr(sites, "_ROUTES_6", tmp_path / "none")
    assert unfit(ipaddress.IPv4Network("172.30.0.0/20")) == ""


def test_what_is_no_range_for_jobs_is_refused(subtests):
    for text in [
        "10.213.0.0/33",
        "10.213.0.1/16",
        "8.8.0.0/16",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "10.0.0.0/30",
        "fd00::/64",
        "x",
    ]:
        with subtests.test(text=text), pytest.raises(ValueError):
            network_read(text)


@pytest.mark.parametrize(
    "text", ["127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "[::1]:53", "proxy:3128", "127.0.0.1:3128/tcp"]
)
def test_what_is_no_service_is_refused(text):
    with pytest.raises(ValueError):
        services_read(text)


def test_services_are_read_once_each():
    two = services_read("127.0.0.1:3128, 192.168.1.5:27000,127.0.0.1:3128")
    assert [(str(each.address), each.port) for each in two] == [("127.0.0.1", 3128), ("192.168.1.5", 27000)]


def test_an_agent_refuses_a_setting_by_name(tmp_path):
    for flag, value in (("--jobs-network", "8.8.8.0/24"), ("--jobs-open", "proxy:3128")):
        command = [
            sys.executable,
            "-m",
            "workers.agent",
            "--url",
            "http://127.0.0.1",
            "--dir",
            str(tmp_path),
            flag,
            value,
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 2
        assert flag in done.stderr
        assert "10.213.0.0/16" in done.stderr or "127.0.0.1:3128" in done.stderr


def test_without_nft_the_node_says_so_and_jobs_run(node, tmp_path, monkeypatch):
    """`sitecustomize` stands for a machine without the packages: the programs are looked for in no other way."""
    place = tmp_path / "lacking"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        "import shutil\nold = shutil.which\nshutil.which = lambda n, **k: None if n == 'nft' else old(n, **k)\n"
    )
    node.up(PYTHONPATH=f"{place}:{ROOT}")
    assert node.wall() == {
        "name": "network",
        "by": "",
        "why": "install nftables on this node, and start its agent again",
    }
    key = node.run("-c 'print(\"ran]\")'", tenant=ACME)
    assert node.said(key) == "ran]\n"


def test_where_a_range_is_in_use_jobs_on_one_node_are_behind_rules_as_well(node):
    address = next(
        (each for each in sites.own_addresses() if "." in each and ipaddress.ip_address(each).is_private), None
    )
    if address is None:
        pytest.skip("SKIPPED LOUDLY: no private address here that a range could collide with")
    taken = str(ipaddress.IPv4Network(f"{address}/28", strict=False))
    wall = node.up("--jobs-network", taken).wall()
    if wall["by"] != "groups":
        pytest.skip(f"SKIPPED LOUDLY: {wall['why']}")
    assert "is in use here" in wall["why"]
    before = links()
    _, there = node.serve(tenant=ACME)
    inet = [each for each in there if each[0] != "AF_UNIX"]
    assert node.reaches(inet, tenant=EVIL) == []
    assert node.reaches(inet, tenant=ACME) == inet
    assert links() == before
    assert shutil.which("nft", path="/usr/sbin:/usr/bin")
