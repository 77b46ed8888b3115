"""Which interface has an address: gloo is told, so that processes on several nodes find each other."""

import socket

import pytest

from tests.workers.specs import spec_make
from workers.controls.jobenv import job_environment
from workers.system.interfaces import interface_of

OWN = {"python": "python3", "virtual": True, "records_dir": "r", "job_dir": "j", "tmp_dir": "t", "checkpoint_dir": "c"}


def test_the_loopback_has_its_address_and_nobody_has_a_foreign_one():
    assert interface_of("127.0.0.1") == interface_of("localhost") == "lo"
    assert interface_of("192.0.2.7") is None  # of the range that is kept for documents
    assert interface_of("no such name") is None
    if socket.has_ipv6 and any("::1" in entry[4] for entry in socket.getaddrinfo("localhost", None)):
        assert interface_of("::1") == "lo"


@pytest.mark.parametrize(
    ("addresses", "own", "told"),
    [
        (["127.0.0.1", "192.0.2.7"], {}, "lo"),
        (["127.0.0.1"], {}, None),
        (["192.0.2.7", "127.0.0.1"], {}, None),
        (["127.0.0.1", "192.0.2.7"], {"GLOO_SOCKET_IFNAME": "ib0"}, "ib0"),
    ],
    ids=["two nodes", "one node", "not an address of this node", "the tenant knows better"],
)
def test_a_job_on_several_nodes_is_told_the_interface_of_its_nodes_address(addresses, own, told):
    nodes = [{"name": f"n{number}", "address": address} for number, address in enumerate(addresses)]
    launch = spec_make(environment=own) | {"world": {"nodes": nodes, "port": 1, "gpus_total": 0}, "mark": "m"} | OWN
    assert job_environment(launch).get("GLOO_SOCKET_IFNAME") == told
