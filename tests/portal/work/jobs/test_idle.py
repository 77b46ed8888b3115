"""Jobs that end when nobody uses them: what counts as use, the warning before, the end after, and what no clock can do."""

import random
import time
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.cluster.models import TelemetryFrame
from portal.foundation.errors import BerthError, Conflict, Forbidden
from portal.pages.dashboard.jobs.ended import remedy_for
from portal.people.tenants.models import AuditEvent
from portal.work.jobs.description import description_parse
from portal.work.jobs.idle import looking
from portal.work.jobs.idle.looking import Limits, Part, idle_after, idle_look
from portal.work.jobs.idle.using import idle_used, job_keep
from portal.work.jobs.models import Attempt, IdleWatch, Job, JobEvent
from portal.work.jobs.selectors import parts_wanted
from portal.work.notifications.choosing import wishes_set
from portal.work.notifications.models import Happening, Item
from portal.work.notifications.spreading import happenings_spread
from tests.portal import given

LIMITS = Limits(cores=0.1, gpu_percent=3.0)
GPU = Part("k1", ("0",), is_alone=True)
CPU = Part("k1", (), is_alone=True)

# ---- counting --------------------------------------------------------------------------------------------------------


def batch_of(cores, *, own=None, gpu=None, count=5, period_s=1.0):
    attempt = {"cpu_cores": cores} | ({"gpu_utilisation": own} if own is not None else {})
    gpus = {"0": {"utilisation": gpu}} if gpu is not None else {}
    return {"start": 0.0, "count": count, "period_s": period_s, "attempts": {"k1": attempt}, "gpus": gpus}


def test_what_one_batch_says(subtests):
    for batch, part, after in [
        (batch_of([0.0] * 5), CPU, (15.0, "")),
        (batch_of([0.0] * 5, gpu=[0.0] * 5), GPU, (15.0, "")),
        (batch_of([0.0, 0.0, 0.4, 0.0, 0.0]), CPU, (15.0, "")),
        (batch_of([0.0, 0.0, 0.6, 0.0, 0.0]), CPU, (0.0, "cores")),
        (batch_of([0.0] * 5, gpu=[50.0] * 5), GPU, (0.0, "GPUs")),
        (batch_of([0.0] * 5, own=[50.0] * 5, gpu=[0.0] * 5), GPU, (0.0, "GPUs")),
        (batch_of([0.0] * 5, own=[0.0] * 5, gpu=[50.0] * 5), GPU, (15.0, "")),
        # What was not measured is neither use nor idleness.
        (batch_of([None] * 5), CPU, (10.0, "")),
        (batch_of([]), CPU, (10.0, "")),
        (batch_of([0.0] * 5, gpu=[None] * 5), GPU, (10.0, "")),
        (batch_of([0.0] * 5), GPU, (10.0, "")),
        (batch_of([0.0] * 5) | {"attempts": {"other": {"cpu_cores": [0.0]}}}, CPU, (10.0, "")),
        (batch_of([0.0] * 5) | {"attempts": None}, CPU, (10.0, "")),
        # Of a shared GPU that works it is not known whose work it is, unless its processes are told apart.
        (batch_of([0.0] * 5, gpu=[50.0] * 5), Part("k1", ("0",), is_alone=False), (10.0, "")),
        (batch_of([0.0] * 5, gpu=[0.0] * 5), Part("k1", ("0",), is_alone=False), (15.0, "")),
        # A batch that says to be a day long counts as a minute.
        (batch_of([0.0], count=86_400), CPU, (70.0, "")),
        (batch_of([0.0], count=1, period_s=-5.0), CPU, (10.0, "")),
    ]:
        with subtests.test(batch=batch, part=part):
            assert idle_after(10.0, batch, part, LIMITS) == after


def test_idle_time_never_exceeds_what_was_measured_whatever_comes():
    draw = random.Random(3)
    for _ in range(300):
        idle_s = measured_s = 0.0
        for _ in range(draw.randint(1, 12)):
            count = draw.randint(1, 30)
            cores = [draw.choice([0.0, 0.05, 0.5, None]) for _ in range(count)]
            batch = batch_of(cores, count=count, gpu=[draw.choice([0.0, 90.0, None]) for _ in range(count)])
            idle_s, by = idle_after(idle_s, batch, GPU, LIMITS)
            measured_s += count
            assert 0.0 <= idle_s <= measured_s
            assert not by or idle_s == 0.0


# ---- looking ---------------------------------------------------------------------------------------------------------


class World:
    """A running job with an idle time-out, and what its nodes measure of it. `step` is five seconds of each node."""

    def __init__(self, cluster, *nodes, idle_timeout_s=100, **fields):
        self.cluster = cluster
        self.attempt = cluster.running(*nodes, idle_timeout_s=idle_timeout_s, **fields)
        self.nodes = list(nodes or (cluster.node,))
        self.at = time.time() - 3600
        idle_look()

    def step(self, *cores, gpu=0.0, count=5, look=True, at=None):
        for node, used in zip(self.nodes, cores or [0.0] * len(self.nodes), strict=True):
            held = self.attempt.allocations.get(node=node).gpu_allocations.values_list("gpu__index", flat=True)
            batch = {"start": self.at if at is None else at, "period_s": 1.0, "count": count, "host": {}}
            batch["gpus"] = {str(index): {"utilisation": [gpu] * count} for index in held}
            batch["attempts"] = {self.attempt.key: {"cpu_cores": [used] * count}}
            given.measured(node=node, batch=batch)
        self.at += count
        if look:
            idle_look()

    @property
    def watch(self):
        return IdleWatch.objects.get(attempt=self.attempt)

    @property
    def state(self):
        """What the node is asked to do, and whether people were warned."""
        wanted = parts_wanted(node_id=self.nodes[0].pk)
        return [each["action"] for each in wanted["attempts"]], self.watch.warned_idle_s is not None

    def events(self, kind):
        return list(JobEvent.objects.filter(job=self.attempt.job_id, kind=kind).values_list("text", flat=True))


@pytest.fixture
def world(cluster):
    return World(cluster)


def test_it_is_warned_of_and_then_ended_with_a_plain_reason(world):
    for _ in range(15):
        world.step()
    assert (world.watch.idle_s, world.state) == (75.0, (["run"], False))
    world.step()
    assert world.state == (["run"], True)
    assert world.events("idle") == ["Nobody has used it for 1 min 20 s; it ends in 20 s unless somebody does."]
    for _ in range(3):
        world.step()
    assert world.state == (["run"], True)
    world.step()
    assert world.state == (["stop"], True)
    world.cluster.end(world.attempt, reason="stopped", exit_code=None, detail="idle")
    job = Job.objects.get()
    assert (job.state, job.end_detail) == ("TIMEOUT", "nobody used it for 1 min 40 s, its idle time-out")
    assert "Run it again" in remedy_for(job)
    assert len(world.events("idle")) == 1


@pytest.mark.parametrize("use", [{"gpu": 40.0}, {"cores": 0.5}])
def test_work_takes_the_warning_back_and_begins_anew(world, use):
    for _ in range(17):
        world.step()
    assert world.state == (["run"], True)
    world.step(*[use.pop("cores")] if "cores" in use else (), **use)
    assert (world.watch.idle_s, world.state) == (0.0, (["run"], False))
    for _ in range(19):
        world.step()
    assert world.state == (["run"], True)
    assert len(world.events("idle")) == 2


def test_a_terminal_and_a_press_of_keep_begin_anew(world):
    for how in ("terminal", "kept"):
        for _ in range(18):
            world.step()
        assert world.state == (["run"], True)
        if how == "kept":
            job_keep(job=Job.objects.get(), actor=world.cluster.owner)
        else:
            idle_used(attempt_id=world.attempt.pk, by=how)
        assert (world.watch.idle_s, world.watch.used_by, world.state) == (0.0, how, (["run"], False))
    assert len(world.events("kept")) == 1


def test_a_script_that_presses_keep_each_second_is_noted_once_a_minute(world):
    def press():
        IdleWatch.objects.update(idle_s=30.0)
        job_keep(job=Job.objects.get(), actor=world.cluster.owner)
        assert world.watch.idle_s == 0.0
        return len(world.events("kept")), AuditEvent.objects.filter(action="job.keep").count()

    assert [press() for _ in range(3)] == [(1, 1)] * 3
    IdleWatch.objects.update(used_at=timezone.now() - timedelta(seconds=61))
    assert press() == (2, 2)


def test_use_while_it_was_counted_outweighs_what_was_counted(world, monkeypatch):
    """The look has read the watch; before it writes, somebody types."""
    for _ in range(18):
        world.step()

    counted = looking._counted

    def slow(*args):
        found = counted(*args)
        idle_used(attempt_id=world.attempt.pk, by="terminal")
        return found

    monkeypatch.setattr(looking, "_counted", slow)
    for _ in range(4):
        world.step(look=False)
    idle_look()
    assert (world.watch.idle_s, world.state) == (0.0, (["run"], False))


def test_a_clock_that_jumps_ends_nothing(world, monkeypatch):
    """The portal's clock, a day ahead and back; a node's clock, a day ahead and back: only what was measured counts."""
    now = time.time()
    for jump_s in (86_400, -86_400):
        monkeypatch.setattr(time, "time", lambda jump_s=jump_s: now + jump_s)
        idle_look()
    monkeypatch.undo()
    assert world.watch.idle_s == 0.0
    for at in (now + 86_400, now - 86_400, now + 172_800):
        world.step(at=at)
    assert (world.watch.idle_s, world.state) == (15.0, (["run"], False))


def test_nobody_away_counts_and_no_row_counts_twice(world):
    """The agent sends nothing; the same batch comes again; the worker looks again and again, and begins anew."""
    for _ in range(5):
        world.step()
    at = world.at - 5
    for _ in range(50):
        world.step(at=at)
        idle_look()
    assert (world.watch.idle_s, world.state) == (25.0, (["run"], False))
    TelemetryFrame.objects.all().delete()  # packed meanwhile: not counted, and nothing is lost
    idle_look()
    assert world.watch.idle_s == 25.0


def test_much_at_once_warns_and_never_ends_without_a_warning_that_was_counted_through(world):
    for _ in range(60):
        world.step(look=False)
    idle_look()
    assert world.state == (["run"], True)
    for _ in range(3):
        world.step()
    assert world.state == (["run"], True)
    world.step()
    assert world.state == (["stop"], True)


def test_on_several_nodes_it_is_idle_where_all_are(cluster):
    other = given.node_make("n2")
    world = World(cluster, cluster.node, other)
    for _ in range(10):
        world.step(0.0, 1.5)
    assert world.watch.idle_s == 0.0
    for _ in range(6):
        world.step(0.0, 0.0)
    assert world.watch.idle_s == 30.0


def test_jobs_without_one_and_jobs_that_wait_are_not_looked_at(cluster, django_assert_num_queries):
    cluster.running()
    cluster.submit(idle_timeout_s=100)
    with django_assert_num_queries(1):
        assert idle_look() == 0
    assert not IdleWatch.objects.exists()


def test_what_many_cost(cluster, monkeypatch):
    """Two jobs, or eight: what is read of nodes and watches stays as many statements, without one that changes."""
    monkeypatch.setattr(looking, "TURNS", 1)  # else one turn of three looks at neither of two
    node = given.node_make("big", gpus=8, cores=32)
    counts = []
    for more in (2, 6):
        for _ in range(more):
            cluster.running(node, idle_timeout_s=1000)
        idle_look()
        with CaptureQueriesContext(connection) as seen:
            idle_look()
        counts.append(len(seen))
    assert counts[0] == counts[1], counts


# ---- asking for it ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "code"), [(59, "out_of_range"), (0, "out_of_range"), ("60", "wrong_type"), (1.5e3 + 0.5, "wrong_type")]
)
def test_what_is_no_time_is_refused_by_name(value, code):
    with pytest.raises(BerthError) as error:
        description_parse({"command": "true", "idle_timeout_s": value})
    assert (error.value.status, error.value.field, error.value.code) == (400, "idle_timeout_s", code)


def test_an_arrays_tasks_have_it(cluster):
    array = cluster.submit(array={"size": 2}, idle_timeout_s=600)
    assert set(Job.objects.filter(array=array).values_list("idle_timeout_s", flat=True)) == {600}


def test_who_may_keep_it_running(cluster, client):
    world = World(cluster)
    viewer = given.member("vera", cluster.tenant, role="viewer")
    job = Job.objects.get()
    with pytest.raises(Forbidden):
        job_keep(job=job, actor=viewer)
    waiting = cluster.submit(idle_timeout_s=600)
    with pytest.raises(Conflict):
        job_keep(job=waiting, actor=cluster.owner)
    with pytest.raises(Conflict):
        job_keep(job=cluster.running().job, actor=cluster.owner)
    for _ in range(17):
        world.step()
    for user, shown in ((cluster.owner, True), (viewer, False)):
        client.force_login(user)
        page = client.get(f"/jobs/{job.number}/").content.decode()
        assert "Nobody has used this job for" in page
        assert ("Keep it running" in page) is shown
    client.force_login(cluster.owner)
    assert client.post(f"/jobs/{job.number}/keep").status_code == 302
    assert "Nobody has used this job" not in client.get(f"/jobs/{job.number}/").content.decode()
    assert Attempt.objects.get(pk=world.attempt.pk).stop_reason == ""


def test_who_asked_is_told_once_for_each_warning(cluster):
    wishes_set(user=cluster.owner, mail=["idle"], waits_h=1)
    world = World(cluster)
    for _ in range(18):
        world.step()
    assert Happening.objects.filter(what="idle").count() == 1
    happenings_spread()
    item = Item.objects.get(what="idle")
    assert item.detail.startswith("nobody has used it for")
    job_keep(job=Job.objects.get(), actor=cluster.owner)
    for _ in range(18):
        world.step()
    happenings_spread()
    assert Item.objects.filter(what="idle").count() == 2
