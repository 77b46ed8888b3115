"""The disk of a whole Berth fills while jobs run, first below the mark, then to the last byte, and is given room again.

Everything goes on by itself: no process has died for ever, no job is lost or run twice, no answer is a 500, and new jobs
are taken in again. DIR lies on a small file system of its own; without root the test runs in a namespace of its own.
"""

import shutil
import time
import uuid

import pytest

from portal.launch import broker
from tests.berths import demo_copy
from tests.servers import RunningBerth
from tests.smalldisk import elsewhere, in_namespace, needs_mounts, small_disk
from tests.system.helpers.client import Tenant, leaks
from tests.system.helpers.ledger import Ledger, alive

pytestmark = [pytest.mark.system, pytest.mark.slow]

DISK_MIB, MARK_MIB = 420, 60
LEASE_S = 300
QUIET = "> /dev/null 2>&1"
"""What a job prints would have no room either, and that is the job's own affair."""


@pytest.fixture(scope="module")
def disk():
    with small_disk(DISK_MIB) as disk:
        yield disk


@pytest.fixture(scope="module")
def berth(disk, template, demo_template):
    environment = {"BERTH_DEMO_WORKLOAD": "0", "BERTH_LEASE_S": str(LEASE_S), "BERTH_DISK_LOW_MIB": str(MARK_MIB)}
    environment |= {"BERTH_AGENT_DISK_LOW_MIB": str(MARK_MIB), "BERTH_AGENT_ACCOUNTS": "off"}
    berth = RunningBerth(disk.path / "data", broker.free_port(), ["--demo"], environment)
    demo_copy(demo_template, template, berth.data, copy=shutil.copy)
    berth.up()
    yield berth
    disk.give_back()
    berth.end()


@pytest.fixture(scope="module")
def ledger(berth, tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"), Tenant(berth))


@pytest.fixture(scope="module")
def anchors(berth, ledger):
    """{number: pid} of jobs that run through all that is done here."""
    finish = ledger.directory / "finish"
    numbers = [ledger.submit(3000, "--until", finish, QUIET, **kind) for kind in ({}, {"restartable": True})]
    berth.wait(lambda: len(ledger.running()) == len(numbers), limit_s=120, what="the anchors")
    yield {int(entry["job"]): pid for pid, entry in ledger.running().items()}
    finish.touch()


def ask(berth, *arguments, **options):
    """A request that may be answered late on a busy machine."""
    return berth.request(*arguments, limit_s=60, **options)


def refused(berth, ledger):
    """A submission is refused with the clear error; True for use in waits."""
    body = {"command": "true", "gpus": 0}
    status, answer = ask(berth, "/api/v1/jobs", method="POST", body=body, token=ledger.tenant.token)
    assert (status, answer["error"]["code"]) == (507, "disk_low"), (status, answer)
    return True


def well_again(berth, ledger, anchors, jobs):
    """All jobs have ended well, once; the anchors are the same processes; and a new job runs."""
    states = {}

    def ended():
        states.update({number: ledger.tenant.state(number) for number in jobs})
        print("states", states)
        return [states[number] for number in jobs] == ["COMPLETED"] * len(jobs)

    berth.wait(ended, limit_s=180, what="the jobs' ends")
    assert {number: len(ledger.entries("done", number)) for number in jobs} == dict.fromkeys(jobs, 1)
    assert ledger.violations() == []
    assert all(alive(pid) for pid in anchors.values())
    assert {number: ledger.tenant.job(number)["epoch"] for number in anchors} == dict.fromkeys(anchors, 1)
    key = uuid.uuid4().hex
    submit = lambda: ledger.submit(0.2, QUIET, key=key, name="after", gpus=1)  # noqa: E731
    number = berth.wait(submit, limit_s=120, what="a submission")
    berth.wait(lambda: ledger.tenant.state(number) == "COMPLETED", limit_s=120, what="a new job's end")
    berth.wait_healthy(120)
    assert leaks(berth) == []


def everyone(berth):
    """{name: pid} of all processes, the supervisor too."""
    return {name: each["pid"] for name, each in berth.status()["processes"].items()} | berth.pids("supervisor")


@needs_mounts
class TestFullDisk:
    def test_below_the_mark_nothing_new_begins_and_what_runs_ends_well(self, berth, ledger, anchors, disk):
        short = [ledger.submit(20, QUIET, gpus=1) for _ in range(4)]
        berth.wait(lambda: len(ledger.running()) == len(anchors) + 4, limit_s=120, what="four short jobs")
        waiting = ledger.submit(0.2, QUIET, gpus=0, cores=1, depends_on=[int(short[0])], name="waits")
        disk.fill(leave_mib=MARK_MIB / 2)
        assert refused(berth, ledger)
        status, health = ask(berth, "/healthz")
        assert (status, health["state"], health["disk"]["low"], health["disk"]["mark_mib"]) == (
            503,
            "disk-low",
            True,
            MARK_MIB,
        )
        assert health["disk"]["free_mib"] < MARK_MIB
        assert any(line.startswith("disk: ") for line in berth.status()["problems"])
        berth.wait(
            lambda: (
                [n["health"] for n in ask(berth, "/api/v1/nodes", token=ledger.tenant.token)[1]["results"]]
                == ["disk-low"] * 4
            ),
            limit_s=60,
            what="the nodes to say that their disk is almost full",
        )
        for number in short:
            berth.wait(
                lambda n=number: ledger.tenant.state(n) == "COMPLETED", limit_s=120, what="an end below the mark"
            )
        assert ledger.tenant.state(waiting) == "PENDING", "nothing is placed"
        disk.give_back()
        well_again(berth, ledger, anchors, [*short, waiting])

    def test_without_any_room_everything_waits_and_goes_on(self, berth, ledger, anchors, disk):
        before = everyone(berth)
        short = [ledger.submit(15 + i, QUIET, gpus=1, **kind) for i, kind in enumerate(({}, {}, {"restartable": True}))]
        berth.wait(lambda: len(ledger.running()) == len(anchors) + 3, limit_s=120, what="three short jobs")
        began = time.monotonic()
        while time.monotonic() - began < 45:
            disk.fill()
            assert refused(berth, ledger)
            for path in ("/api/v1/jobs", "/healthz", "/login", "/api/v1/nodes"):
                status, answer = ask(berth, path, token=ledger.tenant.token)
                assert status in {200, 503, 507}, (path, status, answer)
            if time.monotonic() - began > 20 and before is not None:
                for role in ("worker", "beat"):  # a service that ends now is started on a full disk
                    berth.kill(role)
                berth.kill("agent", "rtx-01")
                after, before = before, None
            time.sleep(1)
        assert disk.free_mib() < 1
        disk.give_back()
        well_again(berth, ledger, anchors, short)
        now = everyone(berth)
        assert {name: now[name] for name in ("supervisor", "portal", "redis")} == {
            name: after[name] for name in ("supervisor", "portal", "redis")
        }, "they were not even restarted"
        assert all(now.values())

    def test_up_again_on_an_almost_full_disk(self, berth, ledger, anchors, disk):
        """What exists is served: the room that a first start needs is not asked of a later one."""
        berth.down("--keep-jobs")
        disk.fill(leave_mib=MARK_MIB - 10)
        berth.up()
        assert berth.status()["health"]["state"] == "disk-low"
        assert refused(berth, ledger)
        disk.give_back()
        well_again(berth, ledger, anchors, [])


@elsewhere
def test_in_a_namespace_of_its_own():
    """The same without root."""
    in_namespace(__file__)
