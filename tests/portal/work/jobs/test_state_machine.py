"""The road of a job as a state machine: anything people, nodes and plannings do, in any order; looked at after each step."""

from collections import Counter
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from portal.cluster.models import Node
from portal.cluster.services.joining import node_hello
from portal.cluster.services.operating import node_declare_dead, node_resume
from portal.foundation.errors import BerthError
from portal.planning.rounds.models import OperatorSetting
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Allocation, Attempt, Job
from portal.work.jobs.services.control import attempt_stop, job_cancel, job_hold, job_release, job_requeue
from portal.work.jobs.services.reconciling import _arrays_refresh, _cancelled_end, leases_expire
from portal.work.jobs.services.retrying import job_retry
from portal.work.jobs.states import ACTIVE, FINAL, FOLLOWERS, StopReason
from tests.portal import given

REASONS = ["exit", "time_limit", "out_of_memory", "stopped", "lease", "start_failed", "lost", "tenant_not_trusted"]
LIMIT_STATES = 20


def reachable():
    """For each state, those that may follow in one service call: a requeue passes PREEMPTED, a late end RUNNING."""
    closure = {state: set(FOLLOWERS.get(state, ())) for state in ACTIVE} | {state: set() for state in FINAL}
    for _ in closure:
        for state, after in closure.items():
            closure[state] = after | {further for near in after for further in closure[near]}
    return closure


REACHABLE = reachable()
ENDS_KEEP = ("state", "ended_at", "waited_s", "exit_code", "end_detail", "epoch", "reason", "started_at")


class Road(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.atomic = transaction.atomic()
        self.atomic.__enter__()
        self.cluster = given.Cluster.make()
        OperatorSetting.objects.create(name="policy", value="fifo")  # the same road, without a solver's start-up
        self.nodes = [self.cluster.node, given.node_make("n2", gpus=2, cores=4)]
        self.seen, self.waited, self.ends, self.boots = {}, {}, {}, Counter({0: 1, 1: 1})
        self.retried = set()

    def teardown(self):
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)

    def pick(self, rows, choice):
        rows = list(rows[:LIMIT_STATES])
        return rows[choice % len(rows)] if rows else None

    def job(self, choice, **only):
        return self.pick(Job.objects.filter(**only).order_by("pk"), choice)

    def attempt(self, choice):
        return self.pick(Attempt.objects.filter(ended_at=None).order_by("pk"), choice)

    @initialize()
    def begin(self):
        self.submit(gpus=1, restartable=True, retries=1, checkpointable=False, after=None)

    @rule(
        gpus=st.sampled_from([0, 1, 2, 6]),
        restartable=st.booleans(),
        checkpointable=st.booleans(),
        retries=st.integers(0, 1),
        after=st.none() | st.integers(0, 9),
    )
    def submit(self, gpus, restartable, checkpointable, retries, after):
        fields = {"gpus": gpus, "restartable": restartable, "checkpointable": checkpointable, "retries": retries}
        if after is not None and (on := self.job(after)):
            fields["depends_on"] = [{"job": on.pk, "kind": "ok" if after % 2 else "any"}]
        try:
            self.cluster.submit(max_requeues=1, **fields)
        except BerthError as error:
            assert error.code == "dependency_failed"

    @rule(size=st.integers(1, 4), concurrency=st.none() | st.integers(1, 2))
    def submit_array(self, size, concurrency):
        array = {"size": size} | ({"concurrency": concurrency} if concurrency else {})
        self.cluster.submit(gpus=0, array=array, restartable=True)

    @rule(choice=st.integers(0, 99), verb=st.sampled_from([job_hold, job_release, job_cancel, job_requeue, job_retry]))
    def person(self, choice, verb):
        if job := self.job(choice):
            try:
                verb(job=job, actor=self.cluster.owner)
                if verb is job_retry:  # the one way out of an end
                    self.retried |= {job.pk, job.array_id, *Job.objects.filter(array=job).values_list("pk", flat=True)}
            except BerthError as error:
                assert error.status == 409, error.code

    @rule()
    def plan(self):
        planning_run()

    @rule(choice=st.integers(0, 99))
    def preempt(self, choice):
        if attempt := self.attempt(choice):
            attempt_stop(job_id=attempt.job_id, reason=StopReason.PREEMPT)

    @precondition(lambda self: Allocation.objects.filter(released_at=None).exists())
    @rule(
        choice=st.integers(0, 99),
        state=st.sampled_from(["prepared", "running", "running", "ended"]),
        reason=st.sampled_from(REASONS),
        exit_code=st.sampled_from([0, 0, 1]),
        stale=st.booleans(),
    )
    def report(self, choice, state, reason, exit_code, stale):
        part = self.pick(Allocation.objects.filter(released_at=None).order_by("pk"), choice)
        more = {"reason": reason, "exit_code": exit_code} if state == "ended" else {}
        sequence = part.sequence if stale and part.sequence else part.sequence + 1
        answer = self.cluster.report(part.attempt, state, rank=part.rank, sequence=sequence, **more)
        assert bool(answer["refused"]) == (stale and part.sequence > 0), answer

    @rule(which=st.integers(0, 1), new_boot=st.booleans())
    def hello(self, which, new_boot):
        node = Node.objects.get(pk=self.nodes[which].pk)
        self.boots[which] += new_boot
        node_hello(node=node, inventory=given.inventory(node, boot_id=f"boot-{self.boots[which]}"))
        if new_boot:
            assert not Allocation.objects.filter(node=node, released_at=None).exists()

    @rule()
    def silence(self):
        """Every lease runs out. What has none stays."""
        before = set(Attempt.objects.filter(ended_at=None, lease_s=None).values_list("pk", flat=True))
        Allocation.objects.exclude(lease_until=None).update(lease_until=timezone.now() - timedelta(hours=1))
        leases_expire(grace_s=1)
        assert before <= set(Attempt.objects.filter(ended_at=None).values_list("pk", flat=True))

    @rule(which=st.integers(0, 1))
    def dead_and_back(self, which):
        Node.objects.filter(pk=self.nodes[which].pk).update(last_contact_at=None)
        node = Node.objects.get(pk=self.nodes[which].pk)
        node_declare_dead(node=node, actor=None, reason="test")
        assert not Allocation.objects.filter(node=node, released_at=None).exists()
        node_resume(node=node, actor=None)
        Node.objects.filter(pk=node.pk).update(last_contact_at=timezone.now())

    @rule()
    def reconcile(self):
        _cancelled_end()
        _arrays_refresh()

    @invariant()
    def nothing_is_wrong(self):
        assert not given.violations()

    @invariant()
    def states_follow(self):
        for job in Job.objects.all():
            if job.pk in self.retried and not job.retry_asked_at:
                self.retried.discard(job.pk)
                self.ends.pop(job.pk, None)
                self.seen.pop(job.pk, None)
            before = self.seen.get(job.pk)
            if before and before != job.state and job.array_size is None:
                assert job.state in REACHABLE[before], f"{before} -> {job.state}"
            waited_s = job.waited_s
            assert waited_s >= self.waited.get(job.pk, 0.0)
            self.seen[job.pk], self.waited[job.pk] = job.state, waited_s
            if job.state in FINAL:
                end = {name: getattr(job, name) for name in ENDS_KEEP}
                assert self.ends.setdefault(job.pk, end) == end, "a job that has ended changed"
            else:
                assert job.pk not in self.ends


@pytest.mark.slow
def test_the_road(db):
    examples, steps = (5, 20) if connection.vendor == "postgresql" else (12, 30)
    run_state_machine_as_test(
        Road,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            # A failing road is printed as it is: to shorten it takes minutes.
            phases=[Phase.explicit, Phase.generate],
        ),
    )
