"""The right to plan, with planners that are processes: killed, slow, stopped and hung ones (invariant 6)."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from datetime import timedelta

from django.db import connection
from django.utils import timezone

from portal.foundation.layout import SOURCE
from portal.planning.rounds.models import Planning, PlanningLease
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Attempt, Job
from tests.portal import given

PATIENCE_S = 60
LEASE_S = 1.0
PLANNER = f"""
import sys, django
django.setup()
from portal.planning.rounds.planning import lease, run as planning
lease.LEASE_S, lease.RENEWED_EVERY_S, lease.SILENCE_S = {LEASE_S}, {LEASE_S} / 5, float(sys.argv[1])
original = planning.plan
def plan(*arguments, **keywords):
    planning.plan = original  # another one, for word that was left meanwhile, goes straight through
    made = original(*arguments, **keywords)
    print("planned", flush=True)
    sys.stdin.readline()
    return made
planning.plan = plan
print(planning.planning_run().status, flush=True)
"""


def database_url():
    told = connection.settings_dict
    if connection.vendor == "sqlite":
        return f"sqlite:///{told['NAME']}"
    return f"postgresql://{told['USER']}:{told['PASSWORD']}@/{told['NAME']}?host={told['HOST']}&port={told['PORT']}"


@contextmanager
def planner(*, silence_s=60.0):
    """A process that has loaded and planned, and applies when it gets the order to go on."""
    environment = os.environ | {"DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "tests.settings"}
    process = subprocess.Popen(
        [sys.executable, "-c", PLANNER, str(silence_s)],
        env=environment,
        cwd=SOURCE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline() == "planned\n"
        yield process
    finally:
        process.kill()
        process.communicate()


def goes_on(process):
    """Let it apply; return its planning's record."""
    process.stdin.write("\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def wait(what):
    until = time.monotonic() + PATIENCE_S
    while not (found := what()):
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)
    return found


def the_job_was_placed_once():
    assert (Job.objects.get().state, Attempt.objects.count()) == ("STARTING", 1)
    assert not given.violations()


def test_a_killed_planner_is_replaced_within_a_lease(shared_cluster):
    shared_cluster.submit()
    with planner() as process:
        assert planning_run() is None, "it holds the lease"
        process.send_signal(signal.SIGKILL)
        process.wait()
        until = PlanningLease.objects.get().until
        assert until <= timezone.now() + timedelta(seconds=LEASE_S)
        made = wait(planning_run)
    assert made.status == Planning.Status.APPLIED
    the_job_was_placed_once()


def test_a_slow_planner_keeps_its_lease_and_its_result_counts(shared_cluster):
    shared_cluster.submit()
    with planner() as process:
        late = timezone.now() + timedelta(seconds=2 * LEASE_S)
        wait(lambda: PlanningLease.objects.get().until > late)
        assert planning_run() is None, "it still holds the lease"
        assert goes_on(process) == "applied"
    the_job_was_placed_once()


def test_a_stopped_planner_is_replaced_and_applies_nothing_when_it_goes_on(shared_cluster):
    shared_cluster.submit()
    with planner() as process:
        process.send_signal(signal.SIGSTOP)
        made = wait(planning_run)
        assert made.status == Planning.Status.APPLIED
        process.send_signal(signal.SIGCONT)
        assert goes_on(process) == "superseded"
    the_job_was_placed_once()


def test_a_planner_that_hangs_is_not_renewed_for_ever(shared_cluster):
    shared_cluster.submit()
    with planner(silence_s=-14.0) as process:  # with a limit of 15 s: it counts as hung after a second
        made = wait(planning_run)
        assert made.status == Planning.Status.APPLIED
        assert goes_on(process) == "superseded"
    the_job_was_placed_once()
