"""The campaign itself: jobs keep coming, faults come one after the other, and in the end all must have ended as it should."""

import itertools
import random
import threading
import time
import uuid

from tests.system.campaign.faults import FAULTS, NEEDS
from tests.system.campaign.stage import Stage
from tests.system.campaign.verdict import judge
from tests.system.helpers.client import FINAL, Tenant
from tests.system.helpers.ledger import Ledger, pids_running

WELL_LIMIT_S = 120
STILL_LIMIT_S, SETTLE_LIMIT_S = 300, 3600
"""Jobs are stuck when none of them has moved for so long: a busy machine takes its time. No campaign waits longer in all."""
ANSWER_LIMIT_S = 300
UNAVAILABLE = (503, 507)
"""Nothing, or the disk, takes it now."""
NAME = "campaign"
SIZES = (0, 1, 1, 1, 2, 4, [1, 2, 4])
KINDS = ({}, {"restartable": True}, {"checkpointable": True})


def campaign(directory, *, seconds, rng, rate, lease_s, faults, source, say):
    """Return the Verdict, and {fault: [seconds until /healthz said ok again]}."""
    needs = {NEEDS[name] for name in faults if name in NEEDS}
    with Stage(directory, lease_s=lease_s, source=source, needs=needs) as stage:
        tenants = [Tenant(stage.berth, name) for name in stage.berth.tokens]
        crowd = Crowd([Ledger(stage.ledger, tenant) for tenant in tenants], rng=rng, rate=rate)
        with crowd:
            recoveries = _faults_come(stage, rng, faults, seconds, say)
        say(f"{len(crowd.accepted)} jobs accepted; no more faults")
        verdict = _settled(stage, crowd)
        for line in stage.told_of(verdict.stuck):
            say(line)
    verdict.unwell = [name for name, times in recoveries.items() if max(times) >= WELL_LIMIT_S]
    return verdict, recoveries


def _faults_come(stage, rng, names, seconds, say):
    """Let each fault come once in a random order, then again, until the time is over."""
    recoveries, began, bag = {}, time.monotonic(), []
    while time.monotonic() < began + seconds:
        bag = bag or rng.sample(names, len(names))
        name = bag.pop()
        say(f"{time.monotonic() - began:7.1f} s: {name}")
        FAULTS[name](stage, rng)
        over = time.monotonic()
        while not stage.healthy() and time.monotonic() < over + WELL_LIMIT_S:
            time.sleep(0.3)
        recoveries.setdefault(name, []).append(round(time.monotonic() - over, 1))
        time.sleep(rng.uniform(1, 4))
    return recoveries


def _settled(stage, crowd):
    """Wait until all jobs have ended, and judge."""
    states = states_at_last(stage)
    verdict = judge(accepted=crowd.accepted, states=states, entries=crowd.ledgers[0].entries(), killed=stage.killed)
    verdict.orphans, verdict.leaks, verdict.refused = pids_running(stage.ledger), stage.leaks(), stage.refused()
    return verdict


def states_at_last(stage):
    """{number: state} of all jobs, once they have ended or nothing moves any more."""
    began = moved = time.monotonic()
    states = {}
    while min(moved + STILL_LIMIT_S, began + SETTLE_LIMIT_S) > (now := time.monotonic()):
        found = dict(stage.rows(f"select id, state from jobs_job where name = '{NAME}'"))
        if all(state in FINAL for state in found.values()):
            return found
        if found != states:
            states, moved = found, now
        time.sleep(2)
    return states


class Crowd:
    """Five people who submit jobs of 0 to 20 s, `rate` a second together. What is not answered is repeated with its key.

    `accepted`: {number: whether it may run again}.
    """

    PEOPLE = 5

    def __init__(self, ledgers, *, rng, rate):
        self.ledgers, self.rate, self.accepted = ledgers, rate, {}
        self._seeds = [rng.random() for _ in range(self.PEOPLE)]
        self._over, self._failed = threading.Event(), []

    def __enter__(self):
        ledgers = itertools.cycle(self.ledgers)
        self._threads = [threading.Thread(target=self._submit, args=(next(ledgers), seed)) for seed in self._seeds]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        for thread in self._threads:
            thread.join()
        if self._failed:
            raise self._failed[0]

    def _submit(self, ledger, seed):
        try:
            self._submit_all(ledger, seed)
        except AssertionError as error:
            self._failed.append(error)

    def _submit_all(self, ledger, seed):
        rng = random.Random(seed)
        while not self._over.wait(rng.expovariate(self.rate / self.PEOPLE)):
            kind = {"name": NAME, **rng.choice(KINDS), "gpus": rng.choice(SIZES)}
            if kind["gpus"] == 0:
                kind["cores"] = 1
            flags = ["--stubborn"] if rng.random() < 0.1 else []
            self._repeat(ledger, round(rng.uniform(0, 20), 1), flags, kind, uuid.UUID(int=rng.getrandbits(128)).hex)

    def _repeat(self, ledger, seconds, flags, kind, key):
        ends = time.monotonic() + ANSWER_LIMIT_S
        while time.monotonic() < ends:
            try:
                number = ledger.submit(seconds, *flags, key=key, **kind)
            except OSError:  # cut off: the answer to the same key tells whether it was accepted
                time.sleep(0.5)
            except AssertionError as error:
                if error.args[0][0] not in UNAVAILABLE:
                    raise
                time.sleep(0.5)
            else:
                self.accepted[int(number)] = "restartable" in kind or "checkpointable" in kind
                return
        raise AssertionError(f"a submission was not answered for {ANSWER_LIMIT_S} s")
