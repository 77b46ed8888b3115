"""Many short jobs, and troubles one after the other: none is lost, and none runs twice at a time. Run by `tests.system.slurm`."""

import os
import random
import time

from tests.system.slurm.bridges import ONE_CORE

JOBS, SEED = int(os.environ.get("SLURM_TRIAL_JOBS", "500")), int(os.environ.get("SLURM_TRIAL_SEED", "1"))
AWAKE_S, AWAY_S, LIMIT_S = (3, 9), (1, 12), 3600


def controller(slurm, bridge):
    slurm.controller_kill()
    time.sleep(random.uniform(*AWAY_S))
    slurm.controller_start()


def daemon(slurm, bridge):
    name = random.choice(("n1", "n2"))
    slurm.slurmd_kill(name)
    time.sleep(random.uniform(*AWAY_S))
    slurm.slurmd_start(name)


def bridge_killed(slurm, bridge):
    bridge.kill()
    bridge.start()


def cancelled(slurm, bridge):
    for number in bridge.pilots()[:1]:
        slurm.run("scancel", *random.choice(([], ["--signal=KILL"])), number)


def test_many_jobs(bridge, tenant, slurm, ledger):
    """Print the verdict; `requeues` counts runs that were lost with a node."""
    random.seed(SEED)
    more = {"restartable": True, "max_requeues": 100, **ONE_CORE}
    jobs = {f"{place}": tenant.submit(ledger.command(f"{place}"), gpus=1, **more) for place in range(JOBS)}
    done, until = set(), time.monotonic() + LIMIT_S
    troubles = dict.fromkeys((controller, daemon, bridge_killed, cancelled), 0)
    while len(done) < JOBS and time.monotonic() < until:
        time.sleep(random.uniform(*AWAKE_S))
        trouble = random.choice(list(troubles))
        trouble(slurm, bridge)
        troubles[trouble] += 1
        waiting = [place for place in jobs if place not in done]
        done |= {place for place in waiting if tenant.job(jobs[place])["state"] == "COMPLETED"}
    for place in jobs:
        ledger.check(place)
    states = [tenant.job(number) for number in jobs.values()]
    print({"jobs": JOBS, "done": len(done), "requeues": sum(each["requeues"] for each in states)})
    print({each.__name__: count for each, count in troubles.items()})
    assert len(done) == JOBS
