"""A Berth with short leases, a Slurm and a bridge, for trials of troubles."""

import json
import signal

import pytest

from tests.native.nvml import built
from tests.system.helpers.client import Tenant
from tests.system.helpers.slurm import slurm_started
from tests.system.slurm.bridges import Bridge, nodes_of_pilots

WORK_S = 5
LEASE = {"BERTH_LEASE_S": "12", "BERTH_LEASE_GRACE_S": "4"}


@pytest.fixture(scope="module")
def berth(berth_up):
    return berth_up(demo=True, workload=False, environment=LEASE)


@pytest.fixture(scope="module")
def tenant(berth):
    return Tenant(berth)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with slurm_started(tmp_path_factory.mktemp("slurm"), nodes=2) as started:
        yield started


@pytest.fixture(scope="module")
def bridge(berth, slurm, tenant, tmp_path_factory):
    bridge = Bridge(berth, slurm, built(tmp_path_factory), tmp_path_factory.mktemp("bridge") / "own")
    bridge.start()
    berth.wait(lambda: nodes_of_pilots(berth, tenant), limit_s=60.0, what="a first pilot that shows what there is")
    yield bridge
    bridge.kill(signal.SIGTERM)
    slurm.clear()


class Ledger:
    """Jobs that write when they begin and when they have done their work."""

    def __init__(self, path):
        self.path = path
        path.mkdir()

    def command(self, name):
        line = f"""printf '{{"epoch": %s, "at": %s, "what": "WHAT"}}\\n' $BERTH_EPOCH $(date +%s.%N) >> {self.path}/{name}"""
        alive = f"for i in $(seq {WORK_S * 4}); do {line.replace('WHAT', 'lives')}; sleep 0.25; done"
        return f"{alive}; {line.replace('WHAT', 'done')}"

    def lines(self, name):
        path = self.path / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def check(self, name):
        """Its work was done once, and no two runs of it overlapped."""
        lines = self.lines(name)
        assert [each["what"] for each in lines].count("done") == 1, lines
        epochs = [each["epoch"] for each in sorted(lines, key=lambda each: each["at"])]
        assert epochs == sorted(epochs), "a run goes on while a later one runs"


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger")
