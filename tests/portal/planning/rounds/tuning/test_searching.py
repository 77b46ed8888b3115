"""Core tuning of running attempts, from figures to orders to the owner's next job."""

import itertools
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.cluster.services.operating import node_tuning
from portal.foundation.errors import BerthError
from portal.planning.estimation.models import AttemptSpeed
from portal.planning.rounds.planning.lease import errand
from portal.planning.rounds.planning.snapshot import state_load
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.planning.rounds.tuning.ending import Figures, step_end
from portal.planning.rounds.tuning.searching import tuning_pass
from portal.work.jobs.models import Allocation, Attempt, CoreSearch, CoreStep, CoreTuning, Job, JobEvent, Slowing
from portal.work.jobs.selectors import parts_wanted
from portal.work.jobs.services.cores import core_tuning_record
from tests.portal import given


class Tuned:
    """A running attempt on a clock of its own: its node follows orders and measures by a curve of cores a GPU."""

    def __init__(self, cluster, curve, *, gpus=1, cores=3, node=None, **fields):
        self.curve = curve
        node = node or given.node_make("wide", gpus=4, cores=24)
        self.attempt = cluster.running(node, gpus=gpus, cores=cores * gpus, **fields)
        self.now = timezone.now()
        self.node = node
        Attempt.objects.filter(pk=self.attempt.pk).update(cores_wanted=cores, started_at=self.now - timedelta(hours=1))
        self.held = []
        self.busy = None  # cores that its processes keep busy, by the cores a GPU that they have; None = not measured
        self.answer()

    def answer(self):
        """The node follows the list that it gets, and says so."""
        (wanted,) = [w for w in parts_wanted(node_id=self.node.pk)["attempts"] if w["attempt"] == self.attempt.key]
        self.held.append(len(wanted["cores"]) // self.attempt.gpus)
        given.heard(
            node=self.node,
            reports=[],
            holding=[given.key_of(self.attempt) | {"cores_sequence": wanted["cores_sequence"]}],
        )

    def measure(self, seconds):
        """Let time pass at the present cores."""
        indices = self.attempt.allocations.get().gpu_allocations.values_list("gpu__index", flat=True)
        used = 100 * self.curve(self.held[-1])
        series = {str(index): {"utilisation": [used] * seconds} for index in indices}
        batch = {"start": self.now.timestamp(), "period_s": 1.0, "count": seconds, "gpus": series}
        if self.busy is not None:
            batch["attempts"] = {self.attempt.key: {"cpu_cores": [self.busy(self.held[-1])] * seconds}}
        given.measured(node=self.node, batch=batch)
        self.now += timedelta(seconds=seconds)

    def go(self, most=60):
        for _ in range(most):
            if CoreSearch.objects.filter(done_at__isnull=False).exists():
                return self
            tuning_pass(now=self.now)
            if self.search.due_at is None and not self.search.done_at:
                self.answer()
            self.measure(25)
        raise AssertionError(f"the search does not end: {vars(self.search)}")

    @property
    def search(self):
        return CoreSearch.objects.get()

    @property
    def steps(self):
        return list(CoreStep.objects.values_list("cores_per_gpu", flat=True))


def rising_to(optimum):
    return lambda cores: 0.95 * min(1.0, cores / optimum)


@pytest.mark.parametrize(("optimum", "steps"), [(3, [3, 2, 4]), (2, [3, 2, 1]), (4, [3, 2, 4, 5]), (1, [3, 2, 1])])
def test_an_attempt_is_searched_for_its_optimum_a_step_at_a_time(cluster, optimum, steps):
    run = Tuned(cluster, rising_to(optimum), gpus=2, category="cv").go()
    assert (run.steps, run.search.outcome, run.search.signal) == (steps, "found", "utilisation")
    assert CoreTuning.objects.get(job=run.attempt.job).cores_per_gpu == optimum
    assert CoreStep.objects.first().utilisation == pytest.approx(rising_to(optimum)(3), abs=0.01)
    part = Allocation.objects.get(attempt=run.attempt)
    run.answer()
    part.refresh_from_db()
    assert (len(part.core_ids), run.held[-1]) == (2 * optimum, optimum)
    assert Attempt.objects.get(pk=run.attempt.pk).cores == 2 * optimum
    assert (
        JobEvent.objects.filter(kind="tuned")
        .get()
        .text.startswith(f"{optimum} core{'s' * (optimum != 1)} a GPU found best")
    )


@pytest.mark.parametrize(
    ("optimum", "busy", "steps"),
    [
        (1, lambda cores: 2.0, [5, 2, 1]),  # a core of each GPU's five: four idle
        (3, lambda cores: 2.0, [5, 2, 4, 3]),  # the use deceives: loading comes in bursts
        (1, lambda cores: 2.0 * cores, [5, 4, 3, 2, 1]),  # loaders that spin
    ],
)
def test_cores_that_idle_are_given_back_in_one_step(cluster, optimum, busy, steps):
    """Two GPUs, five cores each; use is given for both together."""
    run = Tuned(cluster, rising_to(optimum), gpus=2, cores=5, category="nlp")
    run.busy = busy
    run.go()
    assert (run.steps, run.search.outcome) == (steps, "found")
    assert CoreTuning.objects.get(job=run.attempt.job).cores_per_gpu == optimum


def test_its_owners_next_job_and_its_own_restart_begin_there(cluster):
    run = Tuned(cluster, rising_to(5), cores=3, category="cv").go()
    later = cluster.submit(category="cv")
    Job.objects.filter(pk=run.attempt.job_id).update(cores_per_gpu=9)
    cluster.end(run.attempt, reason="stopped", exit_code=None)
    Job.objects.filter(pk=run.attempt.job_id).update(state="PENDING", waiting_since=timezone.now())
    state = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    assert {job.id: job.cores for job in state.jobs} == {later.pk: 5, run.attempt.job_id: 5}


def test_a_job_that_reports_iterations_is_tuned_by_its_throughput(cluster):
    """Its GPU looks busy with any cores; its reports say that four cores are best."""
    run = Tuned(cluster, lambda _: 0.99, instrumented=True)

    def measure(seconds, told=run.measure):
        told(seconds)
        speed, _ = AttemptSpeed.objects.get_or_create(attempt=run.attempt, defaults={"at": run.now})
        speed.samples += 1000 * seconds * rising_to(4)(run.held[-1])
        speed.seconds += seconds
        speed.save()

    run.measure = measure
    run.go()
    assert (run.search.signal, run.steps) == ("throughput", [3, 2, 4, 5])
    assert CoreStep.objects.get(number=3).samples_per_s == pytest.approx(950, rel=0.05)


def telling(run, rate, *, lag_s=0, each_s=1):
    """Let the job report its samples: each second's `lag_s` late, or each `each_s` seconds together. Passes come each second."""
    untold = []

    def measure(_):
        run.now += timedelta(seconds=1)
        untold.append((run.now, rate(run.held[-1])))
        told = [entry for entry in untold if (run.now - entry[0]).total_seconds() >= lag_s]
        if len(told) >= each_s:
            del untold[: len(told)]
            speed, _ = AttemptSpeed.objects.get_or_create(attempt=run.attempt, defaults={"at": run.now})
            speed.samples += sum(samples for _, samples in told)
            speed.seconds += len(told)
            speed.save()

    run.measure = measure
    return run


def test_what_is_reported_late_is_not_taken_for_the_next_cores(cluster):
    """Two cores are 1.5 % slower than three. With some seconds at three mixed in they would pass for as fast."""
    settings_update(actor=None, tune_step_s=10)
    run = telling(Tuned(cluster, lambda _: 0.9), lambda cores: {1: 500, 2: 985}.get(cores, 1000), lag_s=5).go(most=200)
    assert (run.steps, run.search.signal) == ([3, 2, 4], "throughput")
    speeds = CoreStep.objects.order_by("number").values_list("samples_per_s", flat=True)
    assert list(speeds) == pytest.approx([1000, 985, 1000])


def test_a_job_that_reports_seldom_is_still_tuned_by_its_throughput(cluster):
    """No report fell into the first step. Its GPUs, always busy, are not asked in its place."""
    settings_update(actor=None, tune_step_s=10)
    run = Tuned(cluster, lambda _: 0.99)
    AttemptSpeed.objects.create(attempt=run.attempt, at=run.now, samples=100.0, seconds=90.0)
    telling(run, lambda cores: 1000 * rising_to(4)(cores), each_s=30)
    heard = run.measure

    passes = itertools.count()

    def measure(_):
        if next(passes) % 5 == 0:
            series = {"0": {"utilisation": [99.0] * 5}}
            batch = {"start": run.now.timestamp(), "period_s": 1.0, "count": 5, "gpus": series}
            given.measured(node=run.node, batch=batch)
        heard(1)

    run.measure = measure
    run.go(most=900)
    assert (run.search.signal, run.steps) == ("throughput", [3, 2, 4, 5])


def test_a_fast_search_is_the_operators_choice(cluster):
    settings_update(actor=None, tune_faster="on", tune_step_s=20)
    run = Tuned(cluster, rising_to(12)).go()
    assert run.steps[:4] == [3, 2, 4, 6]
    assert (CoreTuning.objects.get().cores_per_gpu >= 12, len(run.steps) <= 8) == (True, True)


def test_what_cannot_be_had_ends_the_search(cluster):
    node = given.node_make("narrow", gpus=4, cores=8)
    cluster.started(node, gpus=0, cores=4)
    run = Tuned(cluster, rising_to(8), node=node).go()
    assert (run.steps, run.search.outcome) == ([3, 2, 4], "limited")
    assert CoreTuning.objects.get().cores_per_gpu == 4


def test_the_tenants_quota_and_promises_bound_it(cluster):
    cluster.tenant.core_quota = 3
    cluster.tenant.save()
    run = Tuned(cluster, rising_to(8)).go()
    assert (run.steps, CoreTuning.objects.get().cores_per_gpu) == ([3, 2], 3)


def test_a_node_with_few_idle_cores_is_searched_with_what_there_is_and_again_when_there_are_more(cluster):
    """Three wanted, two idle: fewer are worse. Nothing is kept of that; with the other job's cores it begins with three."""
    node = given.node_make("full", gpus=4, cores=4)
    other = cluster.started(node, gpus=0, cores=2)
    run = Tuned(cluster, rising_to(3), node=node, cores=2)
    Attempt.objects.filter(pk=run.attempt.pk).update(cores_wanted=3)
    for _ in range(40):
        tuning_pass(now=run.now)
        if run.search.due_at is None:
            run.answer()
        run.measure(25)
    assert (run.steps, run.search.state["way"], CoreTuning.objects.exists()) == ([2, 1], "short", False)
    assert (Attempt.objects.get(pk=run.attempt.pk).cores_wanted, run.held[-1]) == (3, 2)
    cluster.end(other, exit_code=0)
    run.go()
    assert (run.steps, run.search.outcome) == ([2, 1, 3, 2, 4], "found")
    assert CoreTuning.objects.get().cores_per_gpu == 3


def restarted(cluster, run, node, gpus=1):
    """End the attempt, and let its job run again on these GPUs of that node for an hour."""
    job = run.attempt.job
    cluster.end(run.attempt, reason="stopped", exit_code=None)
    Job.objects.filter(pk=job.pk).update(state="PENDING", waiting_since=run.now)
    job.refresh_from_db()
    attempt = cluster.start(job, node, gpus=gpus, cores=3 * gpus)
    cluster.report(attempt, "running", pid=100)
    Attempt.objects.filter(pk=attempt.pk).update(cores_wanted=3, started_at=run.now - timedelta(hours=1))
    given.heard(node=node, reports=[], holding=[given.held(attempt)])
    return attempt


@pytest.mark.parametrize(("what", "again"), [("restart", False), ("resize", True), ("move", True), ("by hand", False)])
def test_a_job_is_searched_again_after_a_resize_and_a_move(cluster, what, again):
    run = Tuned(cluster, rising_to(3), category="cv").go()
    if what == "by hand":
        core_tuning_record(job=run.attempt.job, cores_per_gpu=7)
    moved = given.node_make("other", gpus=4, cores=24)
    attempt = restarted(
        cluster, run, moved if what in {"move", "by hand"} else run.node, gpus=2 if what == "resize" else 1
    )
    tuning_pass(now=run.now)
    assert CoreSearch.objects.filter(attempt=attempt).exists() is again


@pytest.mark.parametrize(
    ("begun_h", "slowings", "again"),
    [
        (2, [(-90, -5)], True),
        (2, [(-90, -5), (-3, None)], False),  # one goes on
        (2, [], False),
        (0.5, [(-20, -5)], False),  # not within the hour
    ],
    ids=["ended", "another goes on", "none", "a new search"],
)
def test_a_search_is_made_again_when_a_slowing_on_its_node_has_ended(cluster, begun_h, slowings, again):
    run = Tuned(cluster, rising_to(3), category="cv").go()
    run.answer()
    over = run.now - timedelta(minutes=10)
    CoreSearch.objects.update(begun_at=run.now - timedelta(hours=begun_h), done_at=over)
    hog = cluster.started(run.node, gpus=0, cores=2)
    for from_min, to_min in slowings:
        to_at = None if to_min is None else run.now + timedelta(minutes=to_min)
        Slowing.objects.create(
            attempt=hog,
            node=run.node,
            means="cores",
            cause="hurt",
            share=0.5,
            drew=0.5,
            cores_before=2,
            to_at=to_at,
            from_at=run.now + timedelta(minutes=from_min),
            changed_at=to_at or run.now,
        )
    tuning_pass(now=run.now)
    assert (run.search.done_at is None) is again
    if again:
        run.curve = rising_to(4)
        run.go()
        assert (run.steps, run.search.outcome) == ([3, 2, 4, 3, 2, 4, 5], "found")
        assert CoreTuning.objects.get().cores_per_gpu == 4


def test_leaving_cores_are_held_until_the_node_says_that_they_are_free(cluster):
    run = Tuned(cluster, rising_to(1))
    while CoreSearch.objects.filter(ordered_at__isnull=False).count() == 0:
        tuning_pass(now=run.now)
        run.measure(25)
    part = Allocation.objects.get(attempt=run.attempt)
    assert (len(part.core_ids), len(part.core_ids_ordered)) == (3, 2)
    assert Attempt.objects.get(pk=run.attempt.pk).cores == 3
    state = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    idle = next(node.idle_cores for node in state.nodes if node.id == run.node.pk)
    assert not set(part.core_ids) & set(idle)
    stale = given.key_of(run.attempt) | {"cores_sequence": part.cores_sequence - 1}
    given.heard(node=run.node, reports=[], holding=[stale])
    part.refresh_from_db()
    assert len(part.core_ids) == 3, "an older order's number says nothing about this one"
    run.answer()
    part.refresh_from_db()
    assert (len(part.core_ids), part.core_ids) == (2, part.core_ids_ordered)
    assert Attempt.objects.get(pk=run.attempt.pk).cores == 2


@pytest.mark.parametrize("why", ["exactly", "node", "cluster", "agent", "spread", "cpu"])
def test_who_is_never_touched(cluster, why):
    fields = {"cores_per_gpu": 3, "cores_exactly": True} if why == "exactly" else {}
    nodes = [given.node_make(f"w{n}", gpus=2, cores=12) for n in range(2)]
    if why == "node":
        node_tuning(node=nodes[0], actor=None, allowed=False)
    if why == "cluster":
        settings_update(actor=None, tune_cores="off")
    attempt = cluster.running(*(nodes if why == "spread" else nodes[:1]), gpus=0 if why == "cpu" else 1, **fields)
    Attempt.objects.update(started_at=timezone.now() - timedelta(hours=1))
    for rank, part in enumerate(attempt.allocations.order_by("rank")):
        told = {} if why == "agent" else {"cores_sequence": 0}
        given.heard(node=part.node, reports=[], holding=[given.key_of(attempt, rank) | told])
    tuning_pass()
    assert not CoreSearch.objects.exists()
    if why == "agent":
        given.heard(node=nodes[0], reports=[], holding=[given.held(attempt)])
        tuning_pass()
        assert CoreSearch.objects.exists()


def test_switching_it_off_ends_open_searches_and_an_ended_attempt_has_none(cluster):
    run = Tuned(cluster, rising_to(3))
    tuning_pass(now=run.now)
    settings_update(actor=None, tune_cores="off")
    tuning_pass(now=run.now)
    assert (run.search.outcome, CoreTuning.objects.exists()) == ("off", False)


def test_a_step_without_figures_or_with_idle_gpus_is_measured_again(cluster):
    run = Tuned(cluster, lambda _: 0.0)
    for _ in range(10):
        tuning_pass(now=run.now)
        run.measure(25)
    assert run.steps == []
    run.curve = rising_to(3)
    assert run.go().steps == [3, 2, 4]


def test_a_node_that_never_answers_ends_the_search(cluster):
    run = Tuned(cluster, rising_to(3))
    for _ in range(10):
        tuning_pass(now=run.now)
        run.measure(25)
    assert run.search.due_at is None
    tuning_pass(now=run.now + timedelta(minutes=11))
    assert run.search.outcome == "unanswered"


def test_where_nothing_runs_and_nothing_is_searched_a_pass_writes_nothing(cluster):
    cluster.submit()
    with CaptureQueriesContext(connection) as asked:
        assert tuning_pass() == 0
    assert [each["sql"].split()[0] for each in asked] == ["SELECT"] * 2


def test_a_pass_costs_the_same_queries_whatever_the_number_of_searches(cluster, django_assert_max_num_queries):
    nodes = [given.node_make(f"n{n:02}", gpus=4, cores=40) for n in range(3, 9)]
    for node in nodes:
        for _ in range(3):
            attempt = cluster.running(node, gpus=1, cores=3)
            given.heard(node=node, reports=[], holding=[given.held(attempt)])
    now = timezone.now()
    Attempt.objects.update(started_at=now - timedelta(hours=1), cores_wanted=3)
    for later_s in (0, 6, 12):
        with django_assert_max_num_queries(19):
            tuning_pass(now=now + timedelta(seconds=later_s))
    assert CoreSearch.objects.filter(marked_at__isnull=False).count() == 18


def test_the_steps_stand_on_the_jobs_page_and_in_rest(cluster, client):
    run = Tuned(cluster, rising_to(2), category="cv").go()
    client.force_login(cluster.owner)
    Job.objects.filter(pk=run.attempt.job_id).update(cores_per_gpu=12)
    page = client.get(reverse("job-detail", args=[run.attempt.job.number])).content.decode()
    assert "asked 12, began with 3; 2 cores a GPU: found best" in page
    assert "asked 12 a GPU; it began with 3, tuned to 2" in page
    assert page.count('aria-label="Cores a GPU"') == 3
    (attempt,) = client.get(f"/api/v1/jobs/{run.attempt.job_id}").json()["attempts"]
    search = attempt["core_search"]
    assert (search["best"], search["outcome"], search["signal"]) == (2, "found", "utilisation")
    assert [step["cores_per_gpu"] for step in search["steps"]] == [3, 2, 1]


def test_a_waiting_jobs_page_says_what_was_asked_and_with_how_many_it_begins(cluster, client):
    client.force_login(cluster.owner)
    for fields, expected in (
        ({"cores_per_gpu": 12}, "cores: asked 12 a GPU; it begins with 3 and is tuned"),
        ({}, "cores: it begins with 3 a GPU and is tuned"),
        ({"cores_per_gpu": 12, "cores_exactly": True}, "exactly 12 cores a GPU"),
    ):
        job = cluster.submit(category="cv", **fields)
        assert expected in client.get(reverse("job-detail", args=[job.number])).content.decode()
    settings_update(actor=None, tune_cores="off")
    job = cluster.submit(category="cv", cores_per_gpu=12)
    assert "12 cores a GPU" in client.get(reverse("job-detail", args=[job.number])).content.decode()


def test_a_page_says_that_a_short_job_gets_more(cluster, client):
    run = Tuned(cluster, rising_to(3), cores=2, category="cv")
    tuning_pass(now=run.now)
    CoreSearch.objects.update(state={**run.search.state, "way": "short"})
    client.force_login(cluster.owner)
    page = client.get(reverse("job-detail", args=[run.attempt.job.number])).content.decode()
    assert "began with 2; 2 cores a GPU now; it gets more when some are idle" in page


def test_exactly_needs_a_number(cluster, client):
    client.force_login(cluster.owner)
    with pytest.raises(BerthError) as error:
        cluster.submit(cores_exactly=True)
    assert (error.value.code, error.value.field) == ("required", "cores_per_gpu")
    job = cluster.submit(cores_per_gpu=4, cores_exactly=True)
    state = state_load(now=timezone.now(), parameters=scheduler_parameters(knobs_current()))
    assert [(each.cores, each.least_cores) for each in state.jobs if each.id == job.pk] == [(4, 4)]


def many(cluster, *, cores_wanted):
    """Eighteen attempts on six nodes that are full, none of which is measured."""
    for n in range(6):
        node = given.node_make(f"m{n}", gpus=4, cores=9)
        for _ in range(3):
            attempt = cluster.running(node, gpus=1, cores=3)
            given.heard(node=node, reports=[], holding=[given.held(attempt)])
    Attempt.objects.update(started_at=timezone.now() - timedelta(hours=1), cores_wanted=cores_wanted)
    return timezone.now()


@pytest.mark.parametrize("cores_wanted", [3, 4], ids=["nothing measured", "no core idle"])
def test_searches_that_get_nowhere_lock_nobody(cluster, django_assert_max_num_queries, cores_wanted):
    """Thousands of attempts may wait for cores, or for figures, as long as they run."""
    now = many(cluster, cores_wanted=cores_wanted)
    if cores_wanted == 4:
        tuning_pass(now=now)
        CoreSearch.objects.update(state={**CoreSearch.objects.first().state, "way": "short", "best": 3})
    for later_s in range(0, 400, 25):
        with django_assert_max_num_queries(20):
            assert tuning_pass(now=now + timedelta(seconds=later_s)) == 0
    assert not CoreSearch.objects.filter(due_at=None).exists()


def test_what_fails_in_one_search_stops_no_other(cluster, caplog):
    run = Tuned(cluster, rising_to(3))
    while not CoreSearch.objects.filter(marked_samples__isnull=False).exists():
        tuning_pass(now=run.now)
        run.measure(25)
    run.measure(100)
    other = cluster.running(run.node, gpus=1, cores=3)
    Allocation.objects.filter(attempt=other).update(cores_acknowledged=0)
    AttemptSpeed.objects.create(attempt=other, at=run.now, samples=100.0, seconds=90.0)
    early = run.now - timedelta(hours=1)
    broken = CoreSearch(attempt=other, step_s=90, since=early, marked_at=early, due_at=early, begun_at=early)
    broken.marked_samples = broken.marked_seconds = 0.0
    broken.state = run.search.state | {"way": "fewer", "of a later version": 1}
    broken.save()
    tuning_pass(now=run.now)
    broken.refresh_from_db()
    assert (broken.done_at, broken.due_at) == (None, run.now + timedelta(minutes=10))
    assert f"core tuning of attempt {other.pk} failed" in caplog.text
    assert run.steps == [3]


def test_one_worker_at_a_time_makes_a_pass(cluster):
    run = Tuned(cluster, rising_to(3))
    with errand("tune", limit_s=60) as mine:
        assert mine
        assert tuning_pass(now=run.now) == 0
        assert not CoreSearch.objects.exists()
    tuning_pass(now=run.now)
    assert CoreSearch.objects.exists()


def test_a_step_that_another_has_ended_meanwhile_counts_once(cluster):
    run = Tuned(cluster, rising_to(3))
    while not CoreSearch.objects.filter(marked_samples__isnull=False).exists():
        tuning_pass(now=run.now)
        run.measure(25)
    run.measure(100)
    read = run.search
    parameters = scheduler_parameters(knobs_current())
    for _ in range(2):
        step_end(read, Figures(0.9, None), parameters=parameters, now=run.now)
    run.answer()
    step_end(read, Figures(0.9, None), parameters=parameters, now=run.now + timedelta(minutes=1))
    assert (run.steps, run.search.done_at) == ([3], None)


@pytest.mark.parametrize("where", ["cluster", "node"])
def test_who_is_stopped_in_a_trial_goes_back_to_the_best(cluster, where):
    run = Tuned(cluster, rising_to(3))
    while run.held[-1] != 2:
        tuning_pass(now=run.now)
        if run.search.due_at is None:
            run.answer()
        run.measure(25)
    if where == "cluster":
        settings_update(actor=None, tune_cores="off")
    else:
        node_tuning(node=run.node, actor=None, allowed=False)
    tuning_pass(now=run.now)
    run.answer()
    assert (run.search.outcome, run.held[-1], len(Allocation.objects.get().core_ids)) == ("off", 3, 3)
