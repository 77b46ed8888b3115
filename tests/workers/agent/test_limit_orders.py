"""A longer time limit reaches what runs: from the portal's list through the agent to the shim's directory."""

import json

import pytest

from tests.workers.conftest import wait_until

pytestmark = pytest.mark.system  # agents and jobs as processes of their own, waited for


def test_a_running_part_is_told_its_longer_limit(portal, node):
    key = portal.want(command="sleep 4242", time_limit_s=600)
    node.start()
    portal.wait_report(key, "running")
    portal.change(key, time_limit_s=1200)
    limit = node.part(key) / "limit.json"
    wait_until(lambda: limit.exists() and json.loads(limit.read_text()) == {"limit_s": 1200})
    portal.stop(key)
    portal.wait_report(key, "ended")
