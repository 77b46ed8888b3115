"""A whole Berth whose files are read-only for a while, as after an error of a disk: afterwards it writes again by itself."""

import contextlib
import shutil
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from portal.launch import broker
from tests.berths import demo_copy
from tests.servers import RunningBerth
from tests.smalldisk import elsewhere, in_namespace, needs_mounts, read_only
from tests.system.helpers.client import Tenant

pytestmark = [pytest.mark.system, pytest.mark.slow]

SERVICES = ("portal", "worker", "beat")


@pytest.fixture(scope="module")
def berth(tmp_path_factory, template, demo_template):
    environment = {"BERTH_DEMO_WORKLOAD": "0", "BERTH_AGENT_ACCOUNTS": "off"}
    data = tmp_path_factory.mktemp("berth") / "data"
    berth = RunningBerth(data, broker.free_port(), ["--demo"], environment)
    demo_copy(demo_template, template, berth.data, copy=shutil.copy)
    berth.up()
    yield berth
    berth.end()


def works(berth):
    """A new job is taken in, planned and run, and all is well."""
    key, tenant = uuid.uuid4().hex, Tenant(berth)
    number = berth.wait(lambda: tenant.submit("true", key=key, gpus=0, cores=1), limit_s=120, what="a submission")
    berth.wait(lambda: tenant.state(number) == "COMPLETED", limit_s=120, what="its end")
    berth.wait_healthy(60)


@needs_mounts
class TestReadOnly:
    def test_what_is_to_start_then_waits_until_the_files_can_be_written(self, berth):
        log = berth.layout.logs / "supervisor.log"
        with read_only(berth.data):
            for role in SERVICES:
                berth.kill(role)
            refused = f"portal is not started: {berth.layout.database} cannot be written (Read-only file system)"
            berth.wait(lambda: refused in log.read_text(), limit_s=30, what="words")
            time.sleep(6)  # one more look
            assert berth.pids("portal") == {}
        works(berth)

    def test_a_portal_that_opened_its_files_then_writes_again_by_itself(self, berth):
        before = berth.pids("portal")
        berth.kill("portal")
        berth.wait(lambda: set(berth.pids("portal").values()) - set(before.values()), what="a new portal")
        with contextlib.ExitStack() as mounted:  # it loads its modules still
            for ending in ("", "-wal", "-shm"):
                mounted.enter_context(read_only(f"{berth.layout.database}{ending}"))
            unwell = lambda: berth.request("/healthz")[1]["database"] == "unwritable"  # noqa: E731
            berth.wait(unwell, limit_s=60, what="/healthz to say so")
        works(berth)

    def test_a_start_waits_too(self, berth):
        berth.down()
        log = berth.layout.logs / "supervisor.log"
        with ThreadPoolExecutor() as beside:
            with read_only(berth.layout.database):
                up = beside.submit(berth.up)
                refused = f"not started yet: {berth.layout.database} cannot be written (Read-only file system)"
                berth.wait(lambda: refused in log.read_text(), limit_s=60, what="words")
                assert berth.pids("portal") == {}
            assert up.result().returncode == 0
        works(berth)


@elsewhere
def test_in_a_namespace_of_its_own():
    """The same without root."""
    in_namespace(__file__)
