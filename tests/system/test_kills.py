"""Each part of Berth is killed while jobs run: no job is lost, none runs twice, and all comes back by itself.

The jobs hold file locks and write a ledger (`helpers/ledger_job.py`), so the truth does not come from the database. Six
`anchors` run through all that is done here; each fault also meets a crowd of eight.
"""

import os
import signal
import threading
import time
import uuid
from pathlib import Path

import pytest
import redis

from portal.foundation.layout import read_json
from portal.launch.processes import identity
from tests.servers import stretched
from tests.system.helpers.client import Tenant, operator_settings, rows
from tests.system.helpers.ledger import Ledger, alive, pids_running

pytestmark = pytest.mark.system

BACK_WITHIN_S = {"portal": 15, "worker": 20, "beat": 20, "agent": 10, "broker": 15, "supervisor": 30, "flushall": 10}
BUSY_MACHINE = 3.0
"""The bounds are for an idle machine of two cores; a test machine may be busy with more than this test."""
LEASE_S = 60
SHARED = {"shareable": True, "gpu_compute": 0.3, "gpu_memory_mib": 4096}
ANCHORS = 6
CROWD = 8
KINDS = ({}, {"restartable": True}, {"checkpointable": True})


@pytest.fixture(scope="module")
def berth(berth_up):
    """The lease is longer than any outage here, so that whatever ends a job early is a fault of ours."""
    started = berth_up(demo=True, workload=False, environment={"BERTH_LEASE_S": str(LEASE_S)})
    operator_settings(
        started, shared_gpus=0.125, sharing_slowdown=""
    )  # nobody saw the two anchors run that are to share
    return started


@pytest.fixture(scope="module")
def ledger(berth, tmp_path_factory):
    return Ledger(tmp_path_factory.mktemp("ledger"), Tenant(berth))


@pytest.fixture(scope="module")
def anchors(berth, ledger):
    """{number: pid} of six jobs, of every kind, that run until the end of this module; two of them share a GPU."""
    finish = ledger.directory / "finish"
    numbers = [ledger.submit(3000, "--until", finish, **kind) for kind in (*KINDS, {"gpus": 2}, SHARED, SHARED)]
    berth.wait(lambda: len(ledger.running()) == ANCHORS, limit_s=60, what="the anchors")
    by_job = {entry["job"]: pid for pid, entry in ledger.running().items()}
    yield {number: by_job[int(number)] for number in numbers}
    finish.touch()


class Crowd:
    """Eight jobs whenever a fault comes, some of them waiting for one another's end.

    After each fault the four oldest are let end; the others go on through the next one, beside four new ones.
    """

    def __init__(self, ledger):
        self.ledger, self.numbers, self.made = ledger, [], 0

    def fill(self):
        while len(self.numbers) < CROWD:
            until, i = self.ledger.directory / f"end-{self.made}", self.made
            kind = {"gpus": 1 + i % 3, **KINDS[i % 3]}
            self.numbers.append((self.ledger.submit(3000, "--until", until, **kind), until))
            self.made += 1
        enough = lambda: len(self.ledger.running()) >= ANCHORS + CROWD // 2  # noqa: E731
        self.ledger.tenant.berth.wait(enough, limit_s=60, what="half of the crowd")

    def let_end(self, count=CROWD // 2):
        """The numbers of the oldest, which were told to end now."""
        ended, self.numbers = self.numbers[:count], self.numbers[count:]
        for _, until in ended:
            until.touch()
        return [number for number, _ in ended]


@pytest.fixture(scope="module")
def whole_crowd(ledger, anchors):
    return Crowd(ledger)


@pytest.fixture
def crowd(whole_crowd):
    whole_crowd.fill()
    return whole_crowd


@pytest.fixture(scope="module")
def recoveries():
    """{fault: seconds}, printed at the end."""
    found = {}
    yield found
    print("\nrecovery, seconds until healthy and a new job runs:", {k: round(v, 1) for k, v in found.items()})


def service_is_back(berth, ledger, fault, recoveries, began):
    """All is well again, and a job submitted after the fault runs, within the bound."""
    limit_s = BACK_WITHIN_S[fault] * BUSY_MACHINE
    key = uuid.uuid4().hex

    def accepted():
        return ledger.submit(0.5, key=key, name=f"after-{fault}", gpus=0, cores=1)

    number = berth.wait(accepted, limit_s=limit_s, what=f"a submission after {fault}")
    berth.wait(lambda: ledger.entries("start", number), limit_s=limit_s, what=f"a start after {fault}")
    berth.wait_healthy(limit_s)
    recoveries[fault] = time.monotonic() - began
    print(f"recovery after {fault}: {recoveries[fault]:.1f} s")
    assert recoveries[fault] <= stretched(limit_s)


def all_is_true(ledger, anchors, crowd):
    """Nothing lost, nothing doubled, and the anchors are the very processes that they were."""
    numbers = crowd.let_end()
    states = ledger.tenant.ends(numbers, limit_s=90)
    assert set(states.values()) == {"COMPLETED"}, states
    assert ledger.violations() == []
    shared_gpus_are_within_what_they_have(ledger.tenant.berth)
    assert {number: len(ledger.entries("done", number)) for number in numbers} == dict.fromkeys(numbers, 1)
    assert all(alive(pid) for pid in anchors.values())
    assert {number: ledger.tenant.job(number)["epoch"] for number in anchors} == dict.fromkeys(anchors, 1)
    ledger.tenant.berth.wait(
        lambda: all_answered_for(ledger), limit_s=15, what="the end of processes that nobody answers for"
    )


def all_answered_for(ledger):
    """Each process of a job is the only one of an attempt and a node that Berth knows to be under way."""
    started = {entry["pid"]: (entry["job"], entry["epoch"], entry["rank"]) for entry in ledger.entries("start")}
    found = [started[pid] for pid in pids_running(ledger.directory)]
    under_way = rows(ledger.tenant.berth, "select job_id, epoch from jobs_attempt where ended_at is null")
    return len(found) == len(set(found)) and {(job, epoch) for job, epoch, _ in found} <= set(under_way)


def shared_gpus_are_within_what_they_have(berth):
    """The two anchors that share are on one GPU still, and no GPU has given more than it has."""
    held = rows(
        berth,
        "select count(*), sum(h.compute), sum(h.memory_mib), g.memory_mib from jobs_gpuallocation h "
        "join cluster_gpu g on g.id = h.gpu_id where h.released_at is null and h.mode = 'shared' group by g.id",
    )
    assert max(count for count, *_ in held) >= 2
    assert all(compute <= 1000 and memory <= most for _, compute, memory, most in held), held


@pytest.mark.parametrize(
    "role", ["portal", *(pytest.param(role, marks=pytest.mark.slow) for role in ("worker", "beat", "broker"))]
)
def test_a_service_is_killed(berth, ledger, anchors, crowd, recoveries, role):
    before = berth.kill(role)
    began = time.monotonic()
    assert before
    berth.wait(lambda: set(berth.pids(role).values()) - set(before), what=f"a new {role}")
    service_is_back(berth, ledger, role, recoveries, began)
    all_is_true(ledger, anchors, crowd)


def test_agents_are_killed_and_find_their_jobs_again(berth, ledger, anchors, crowd, recoveries):
    """Two agents that have jobs: the jobs run on under the same pids, and the next agents tell of their ends."""
    busy = sorted({entry["node"] for entry in ledger.running().values()})[:2]
    pids = set(ledger.running())
    began = time.monotonic()
    killed = [pid for node in busy for pid in berth.kill("agent", node)]
    assert len(killed) == len(busy)
    gone = [pid for pid in pids if not alive(pid) and pid not in {e["pid"] for e in ledger.entries("done")}]
    assert gone == [], "jobs that died with their agent"
    berth.wait(lambda: len(set(berth.pids("agent").values()) - set(killed)) == 4, what="all agents")
    service_is_back(berth, ledger, "agent", recoveries, began)
    all_is_true(ledger, anchors, crowd)


@pytest.mark.slow
def test_the_broker_forgets_everything(berth, ledger, anchors, crowd, recoveries):
    client = redis.Redis.from_url(read_json(berth.layout.mode)["redis_url"])
    for database in (0, 1):
        client.execute_command("SELECT", database)
        client.flushall()
    began = time.monotonic()
    service_is_back(berth, ledger, "flushall", recoveries, began)
    all_is_true(ledger, anchors, crowd)


def test_a_submission_torn_off_and_repeated_is_one_job(berth, ledger, anchors):
    """The portal is killed while 20 submissions are under way; each is repeated with its key until it is answered."""
    keys = [uuid.uuid4().hex for _ in range(20)]
    answers, torn = {}, []

    def submit(key):
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            try:
                answers.setdefault(key, []).append(ledger.submit(0.1, key=key, gpus=0, cores=1, name=f"torn-{key}"))
            except OSError:  # refused, or cut off in the middle
                torn.append(key)
                time.sleep(0.3)
            else:
                return

    threads = [threading.Thread(target=submit, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
        time.sleep(0.02)
    berth.kill("portal")
    for thread in threads:
        thread.join()
    assert sorted(answers) == sorted(keys), "a submission that was never answered"
    assert torn, "the kill came too late to tear anything off"
    made = rows(berth, "select name, count(*) from jobs_job where name like 'torn-%' group by name")
    assert dict(made) == {f"torn-{key}": 1 for key in keys}
    numbers = [number for (number,) in answers.values()]
    berth.wait(lambda: {ledger.tenant.state(n) for n in numbers} == {"COMPLETED"}, limit_s=120, what="their ends")
    assert {number: len(ledger.entries("done", number)) for number in numbers} == dict.fromkeys(numbers, 1)


@pytest.mark.slow
def test_a_killed_shim_is_noticed_and_its_job_runs_again_if_it_may(berth, ledger, anchors):
    """Its processes are killed before anything else is done: the job's next attempt finds its lock free."""
    rigid = ledger.submit(3000)
    restartable = ledger.submit(3000, restartable=True, **SHARED)
    started = lambda number: next(iter(ledger.entries("start", number)), None)  # noqa: E731
    berth.wait(lambda: started(rigid) and started(restartable), limit_s=60, what="both jobs")
    for number in (rigid, restartable):
        os.kill(parent_of(started(number)["pid"]), signal.SIGKILL)
    job = ledger.tenant.wait_state(rigid, "NODE_FAIL")
    assert "shim" in job["end_detail"]
    assert not alive(started(rigid)["pid"])
    berth.wait(lambda: len(ledger.entries("start", restartable)) == 2, limit_s=60, what="the second attempt")
    assert not alive(started(restartable)["pid"])
    assert ledger.tenant.job(restartable)["requeues"] == 1
    ledger.tenant.act(restartable, "cancel")
    ledger.tenant.wait_state(restartable, "CANCELLED")
    assert ledger.violations() == []


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.slow
def test_the_supervisor_is_killed_and_the_next_up_takes_over(berth, ledger, anchors, crowd, recoveries):
    old = {process.pid for process in identity.leftovers(berth.layout)}
    assert set(berth.pids("broker").values()) < old
    began = time.monotonic()
    berth.kill("supervisor")
    assert berth.status()["state"] == "crashed"
    berth.up()
    assert not old & {process.pid for process in identity.leftovers(berth.layout)}, "no old service beside the new"
    service_is_back(berth, ledger, "supervisor", recoveries, began)
    all_is_true(ledger, anchors, crowd)


@pytest.mark.slow
def test_everything_is_killed_at_once(berth, ledger, anchors, crowd):
    """Supervisor first, so that nothing is started again; only jobs and their shims are spared."""
    for role in ("supervisor", "broker", "portal", "worker", "beat", "agent"):
        berth.kill(role)
    berth.up()
    berth.wait_healthy(60)
    all_is_true(ledger, anchors, crowd)


def test_in_the_end_every_job_ran_once_and_nothing_is_held(berth, ledger, anchors, whole_crowd):
    whole_crowd.let_end(CROWD)
    (ledger.directory / "finish").touch()
    states = ledger.settle(limit_s=90)
    assert {states[number] for number in anchors} == {"COMPLETED"}
    ledger.check(states)
    assert pids_running(ledger.directory) == []
