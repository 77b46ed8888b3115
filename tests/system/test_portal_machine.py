"""A job on the portal's machine does not become the operator: nothing that would let it is within its reach."""

import json
import os
from pathlib import Path

import pytest

from portal.foundation.layout import read_json
from tests.system.helpers.client import Tenant
from workers.system.landlock import SIGNAL_VERSION, landlock_version

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(landlock_version() < 2, reason="SKIPPED LOUDLY: this kernel has no Landlock 2"),
    pytest.mark.slow,
]
BURGLAR = Path(__file__).parent / "helpers/burglar.py"


@pytest.fixture(scope="module")
def berth(berth_up):
    return berth_up(demo=True)


def test_a_job_reads_writes_and_signals_nothing_of_berths(berth):
    victim, burglar = Tenant(berth, "nlp-startup"), Tenant(berth, "vision-lab")
    other = victim.submit("echo private > note; sleep 600", name="victim", gpus=1)
    victim.wait_state(other, "RUNNING")
    command = f'"$BERTH_PYTHON" burglar.py {berth.layout.root} {berth.port}'
    number = burglar.submit(command, name="burglar", gpus=1, files={"burglar.py": BURGLAR.read_text()})
    ended = burglar.wait_state(number, "COMPLETED", "FAILED", limit_s=60)
    assert ended["state"] == "COMPLETED", burglar.log(number, stream="stderr")
    found = json.loads(burglar.log(number))
    assert set(found["files"].values()) == {"Permission denied"}, found["files"]
    assert set(found["lists"].values()) == {"Permission denied"}, found["lists"]
    assert set(found["writes"].values()) == {"Permission denied"}, found["writes"]
    assert found["truncate"] != "done"
    assert set(found["looks"].values()) == {"Permission denied"}, found["looks"]
    assert found["others"] == ["celery", "portal.launch.serving", "shim.py", "workers.agent"], "it saw whom to look for"
    if landlock_version() >= SIGNAL_VERSION:
        assert set(found["signals"].values()) == {"Operation not permitted"}, found["signals"]
    assert found["broker"] == "-NOAUTH"
    assert found["portal"] == 200
    victim.act(other, "cancel")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's jobs cannot be kept out on a kernel that has Landlock")
def test_up_says_why_its_machine_is_no_node_and_with_node_makes_it_one(berth_once):
    berth = berth_once(demo=False)
    said = (berth.layout.logs / "supervisor.log").read_text()
    assert "this machine does not become a node: the kernel does not keep jobs on this machine out of" in said
    assert "jobs run as root" in said
    assert "--with-node" in said
    assert berth.pids("agent") == {}
    assert berth.status()["state"] == "running"
    berth.down()
    berth.flags = ["--with-node"]
    berth.up()
    assert len(berth.pids("agent")) == 1
    assert "anyone who submits a job can become the operator" in (berth.layout.logs / "supervisor.log").read_text()
    berth.down()
    berth.flags = []
    berth.up()
    assert len(berth.pids("agent")) == 1, "what is a node stays one"
    assert read_json(berth.layout.mode)["with_node"]
