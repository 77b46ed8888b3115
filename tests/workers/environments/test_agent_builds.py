"""Requirements from a spec to a job's own Python, through a real agent, shim, pip and job."""

from __future__ import annotations

import sys

import pytest

from tests.workers.environments.wheels import wheel_write

pytestmark = [pytest.mark.system, pytest.mark.slow]  # an agent, pip and jobs as processes of their own

COMMAND = "python -c 'import tinypack, sys; print(tinypack.VERSION, sys.prefix)'"


@pytest.fixture
def wheels(tmp_path):
    wheel_write(tmp_path / "wheels")
    return tmp_path / "wheels"


def test_a_job_sees_what_it_required_and_the_next_one_uses_the_same(portal, node, wheels):
    wanted = {"command": COMMAND, "software": {"requirements": "tinypack==1.0  # ours\n"}}
    first = portal.want(**wanted)
    node.start("--environments-wheels", str(wheels), "--nice", "0")
    ended = portal.wait_report(first, "ended", within_s=400)
    assert ended["exit_code"] == 0, (ended, portal.logs)
    said = portal.logs[*first, "stdout"].decode()
    assert "[environment] Building the environment" in said
    version, prefix = said.splitlines()[-1].split()
    assert version == "1.0"
    assert prefix.startswith(str(node.directory / "environments/tenant-7/"))
    second = portal.want(attempt=2, job=2, **(wanted | {"software": {"requirements": "tinypack==1.0"}}))
    assert portal.wait_report(second, "ended", within_s=200)["exit_code"] == 0
    again = portal.logs[*second, "stdout"].decode()
    assert "built before" in again
    assert "Building" not in again
    assert again.splitlines()[-1] == f"1.0 {prefix}"
    assert portal.inventories[-1]["software"]["installer"] in {"pip", "uv"}


def test_environments_that_operators_name_are_looked_for_told_and_used(portal, node, tmp_path):
    """By a node that has only one of the two, and was up when they were named."""
    node.start("--nice", "0")
    portal.wait_for(lambda: portal.inventories)
    assert portal.inventories[-1]["software"]["environments"] == []
    (tmp_path / "torch/bin").mkdir(parents=True)
    (tmp_path / "torch/bin/python").symlink_to(sys.executable)
    portal.name_environments(torch=str(tmp_path / "torch"), gone=str(tmp_path / "gone"))
    told = portal.wait_for(lambda: portal.inventories[-1]["software"]["environments"] and portal.inventories[-1])
    assert told["software"]["environments"] == ["torch"]
    assert "has no bin/python" in told["software"]["missing"]["environment:gone"]
    key = portal.want(command="echo $VIRTUAL_ENV $CONDA_PREFIX; command -v python", software={"environment": "torch"})
    assert portal.wait_report(key, "ended", within_s=120)["exit_code"] == 0
    assert portal.logs[*key, "stdout"].decode().endswith(f"{tmp_path}/torch\n{tmp_path}/torch/bin/python\n")
    portal.name_environments()
    portal.wait_for(lambda: portal.inventories[-1]["software"]["environments"] == [])
