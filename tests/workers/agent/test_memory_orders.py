"""Another grant of a shared GPU's memory reaches what runs: from the portal's list into the journal, where a new agent finds it."""

import json

import pytest

from tests.workers.conftest import wait_until

pytestmark = pytest.mark.system  # agents and jobs as processes of their own, waited for


def test_a_running_part_is_held_to_what_it_is_granted_now_and_nonsense_changes_nothing(portal, node):
    key = portal.want(command="sleep 4243", gpu_memory_mib=4096)
    node.start()
    portal.wait_report(key, "running")
    record = node.part(key) / "part.json"
    for told, held in ((3000, 3000), (0, 3000), (None, 3000), (2000, 2000)):
        portal.change(key, gpu_memory_mib=told)
        wait_until(lambda held=held: json.loads(record.read_text())["gpu_memory_mib"] == held)
    portal.stop(key)
    portal.wait_report(key, "ended")
