"""What breaks. Each fault takes (stage, rng), lasts as long as it says, and leaves nothing broken but what Berth must mend."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

from portal.launch import broker
from tests.system.campaign.stage import BROKER, CLOCKS, DATABASE, DISKS, FAR, LOW_MIB
from tests.system.campaign.wires import HOLD, RESET, SLOW
from tests.system.helpers.ledger import Ledger


def _killed(role):
    return lambda stage, rng: stage.berth.kill(role)


def _stopped(role, seconds):
    """One process of a role hangs (SIGSTOP), for longer than Berth lets it, or for less."""

    def fault(stage, rng):
        if pids := sorted(stage.berth.pids(role).values()):
            _stop(rng.choice(pids), seconds)

    return fault


def _stop(pid, seconds):
    with contextlib.suppress(ProcessLookupError):  # killed meanwhile, as it should be
        os.kill(pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)


def _wire(names, mode, seconds):
    """`names`: wires, or None for that of one far node."""

    def fault(stage, rng):
        with stage.wires.broken(names or [rng.choice(FAR)], mode):
            time.sleep(seconds)

    return fault


def _node_gone(leases):
    def fault(stage, rng):
        with stage.wires.broken([rng.choice(FAR)], HOLD):
            time.sleep(leases * stage.lease_s)

    return fault


def _agent_killed(stage, rng):
    name = rng.choice(FAR)
    stage.agents[name].kill()
    stage.agents[name].wait()
    time.sleep(rng.choice((1, 5)))
    stage.agent_start(name)


def _agent_stopped(stage, rng):
    _stop(stage.agents[rng.choice(FAR)].pid, 2 * stage.lease_s)


def _told(stage):
    """The jobs' processes that have said so in the ledger: of another the verdict could not tell that we killed it."""
    return Ledger(stage.ledger, None).running()


def _job_killed(stage, rng):
    if pids := _told(stage):
        pid = rng.choice(sorted(pids))
        stage.killed.add(pid)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _shim_killed(stage, rng):
    if pids := _told(stage):
        pid = rng.choice(sorted(pids))
        with contextlib.suppress(OSError):  # it has ended just now
            parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if parent > 1:
                stage.killed.add(pid)
                os.kill(parent, signal.SIGKILL)


def _broker_forgets(stage, rng):
    import redis

    redis.Redis.from_url(stage.broker.url).flushall()


def _broker_killed(stage, rng):
    stage.broker.kill()
    time.sleep(rng.choice((1, 20)))
    stage.broker.start()
    broker.wait_until_up(stage.broker.url)


def _connections_ended(stage, rng):
    stage.rows("select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()")


def _two_beats(stage, rng):
    """A second beat beside the first, as after a wrong installation: the same command with the same environment."""
    for pid in stage.berth.pids("beat").values():
        known = Path(f"/proc/{pid}")
        argv = known.joinpath("cmdline").read_bytes().split(b"\0")[:-1]
        pairs = known.joinpath("environ").read_bytes().split(b"\0")
        environment = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
        with (stage.berth.layout.logs / "beat-2.log").open("a") as log:
            second = subprocess.Popen(argv, env=environment, cwd=(known / "cwd").readlink(), stdout=log, stderr=log)
        time.sleep(20)
        second.kill()
        second.wait()


def _disk(name, seconds, leave_mib=0):
    """Filled at once, and for so long at most as others make room: to the last byte, or below the mark of a low disk."""

    def fault(stage, rng):
        disk, end = getattr(stage, name), time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                disk.fill(leave_mib=leave_mib)
                time.sleep(0.2)
        finally:
            disk.give_back()

    return fault


def _clock(name, ahead_s, seconds):
    def fault(stage, rng):
        getattr(stage, name).set(ahead_s)
        time.sleep(seconds)
        getattr(stage, name).set(0)

    return fault


FAULTS = {
    "portal killed": _killed("portal"),
    "worker killed": _killed("worker"),
    "beat killed": _killed("beat"),
    "agents killed": _killed("agent"),
    "portal hangs": _stopped("portal", 25),
    "worker hangs": _stopped("worker", 25),
    "beat hangs": _stopped("beat", 25),
    "agent hangs shortly": _stopped("agent", 8),
    "agent hangs for two leases": _agent_stopped,
    "far agent killed": _agent_killed,
    "job killed": _job_killed,
    "shim killed": _shim_killed,
    "two beats": _two_beats,
    "broker forgets all": _broker_forgets,
    "broker killed": _broker_killed,
    "broker gone for 60 s": _wire([BROKER], RESET, 60),
    "broker hangs for 40 s": _wire([BROKER], HOLD, 40),
    "broker slow": _wire([BROKER], SLOW, 20),
    "database connections ended": _connections_ended,
    "database gone for 10 s": _wire([DATABASE], RESET, 10),
    "database hangs for 10 s": _wire([DATABASE], HOLD, 10),
    "database hangs for 40 s": _wire([DATABASE], HOLD, 40),
    "database slow": _wire([DATABASE], SLOW, 30),
    "node cut off for half a lease": _node_gone(0.5),
    "node cut off for two leases": _node_gone(2),
    "node's connections reset": _wire(None, RESET, 12),
    "all far nodes cut off": _wire(list(FAR), HOLD, 12),
    "own disk full": _disk("own_disk", 15),
    "own disk low": _disk("own_disk", 15, LOW_MIB / 2),
    "far disks full": _disk("far_disk", 15),
    "far disks low": _disk("far_disk", 15, LOW_MIB / 2),
    "portal's clock 50 s ahead": _clock("own_clock", 50, 15),
    "portal's clock 50 s behind": _clock("own_clock", -50, 15),
    "portal's clock an hour ahead": _clock("own_clock", 3600, 15),
    "portal's clock an hour behind": _clock("own_clock", -3600, 15),
    "far clocks a day ahead": _clock("far_clock", 86400, 15),
    "far clocks a day behind": _clock("far_clock", -86400, 15),
}
NEEDS = {name: DISKS if "disk" in name else CLOCKS for name in FAULTS if "disk" in name or "clock" in name}
"""What more than processes and connections a fault breaks."""
