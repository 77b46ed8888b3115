"""Orders about a running part's cores: from the portal's list to every thread, and back as an acknowledgement."""

from __future__ import annotations

import json
import os
import time

import pytest

from tests.workers.conftest import wait_until

pytestmark = [
    pytest.mark.system,  # agents and jobs as processes of their own, waited for
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: nothing can be ordered"),
]


def acknowledged(portal):
    return portal.holding[0].get("cores_sequence") if portal.holding else None


def test_an_order_holds_is_acknowledged_and_outlives_the_agent(portal, node):
    real = sorted(os.sched_getaffinity(0))
    key = portal.want(command="sleep 4242", cores=[0, 1])
    node.start()
    pid = portal.wait_report(key, "running")["pid"]
    portal.wait_for(lambda: acknowledged(portal) == 0)
    portal.change(key, cores=[0, 1], cores_sequence=0)
    portal.change(key, cores=[1], cores_sequence=3)
    portal.wait_for(lambda: acknowledged(portal) == 3)
    assert os.sched_getaffinity(pid) == {real[1]}
    node.kill()
    portal.change(key, cores=[0], cores_sequence=4)  # while no agent runs
    time.sleep(0.2)
    assert os.sched_getaffinity(pid) == {real[1]}
    node.start()
    portal.wait_for(lambda: acknowledged(portal) == 4)
    assert os.sched_getaffinity(pid) == {real[0]}
    record = json.loads((node.part(key) / "part.json").read_text())
    assert (record["cores"], record["cores_sequence"]) == ([0], 4)
    portal.stop(key)
    portal.wait_report(key, "ended")


def test_an_agent_killed_between_journal_and_shim_finishes_the_order(portal, node):
    real = sorted(os.sched_getaffinity(0))
    key = portal.want(command="sleep 4242", cores=[0, 1])
    node.start()
    pid = portal.wait_report(key, "running")["pid"]
    node.kill()
    order = {"sequence": 9, "cores": [1], "share": 1.0}
    portal.change(key, cores=[1], cores_sequence=9)
    path = node.part(key) / "part.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"cores_order": order, "cores_sequence": -1}))
    node.start()
    wait_until(lambda: os.sched_getaffinity(pid) == {real[1]})
    portal.wait_for(lambda: acknowledged(portal) == 9)


def test_a_restored_portal_with_a_lower_number_is_followed_and_bad_orders_are_not(portal, node):
    real = sorted(os.sched_getaffinity(0))
    key = portal.want(command="sleep 4242", cores=[0, 1])
    node.start()
    pid = portal.wait_report(key, "running")["pid"]
    portal.change(key, cores=[1], cores_sequence=8)
    portal.wait_for(lambda: acknowledged(portal) == 8)
    for bad in ([], [-1], ["0"], 7):
        portal.change(key, cores=bad, cores_sequence=9)
    portal.change(key, cores=[0], cores_sequence=2)
    portal.wait_for(lambda: acknowledged(portal) == 2)
    assert os.sched_getaffinity(pid) == {real[0]}


def test_a_share_outlives_the_agent_and_goes_when_the_portal_names_it_no_more(portal, node):
    key = portal.want(command="while :; do :; done", cores=[0])
    node.start()
    portal.wait_report(key, "running")
    portal.wait_for(lambda: acknowledged(portal) == 0)

    def held():
        return json.loads((node.part(key) / "cores-held.json").read_text())

    for bad in (0, 2, "half"):
        portal.change(key, cores=[0], cores_sequence=3, share=bad)
    portal.change(key, cores=[0], cores_sequence=4, share=0.5)
    portal.wait_for(lambda: acknowledged(portal) == 4)
    assert held()["share"] == 0.5
    node.kill()
    node.start()
    portal.wait_for(lambda: acknowledged(portal) == 4)
    assert held()["share"] == 0.5
    node.kill()
    portal.change(key, cores=[0], cores_sequence=0, share=1.0)  # restored from before the order
    node.start()
    portal.wait_for(lambda: acknowledged(portal) == 0)
    assert (held()["share"], held()["throttle"]) == (1.0, "")
    portal.stop(key)
    portal.wait_report(key, "ended")
