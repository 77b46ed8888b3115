"""A CPU job that takes a node's memory bandwidth from a training job: slowed, reported, and let go."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.cluster.models import Node, NodeEvent
from portal.people.tenants.models import Tenant, User
from portal.planning.rounds.contention.watching import relief_pass
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.tuning.measures import upset_read
from portal.work.jobs.listing import attempts_of
from portal.work.jobs.models import Allocation, Attempt, CoreSearch, Job, JobEvent, MemoryWatch, Slowing
from portal.work.jobs.selectors import parts_wanted
from portal.work.jobs.serializers.attempts import AttemptSerializer
from tests.portal import given

PERIOD_S, STEP_S = 10, 8
"""A pass each step: two of them are a period and the time in which its last figures come."""


class Pressed:
    """A node with a training job and a CPU job on a clock of its own: it measures by a law, and follows orders."""

    def __init__(self, cluster, *, draws=0.85, trains=0.05, sensitive=0.8, cores=8, quiet_s=20, throttle="cores"):
        settings_update(actor=None, relieve_period_s=PERIOD_S)
        self.node = given.node_make(
            "wide", gpus=4, cores=24, memory_traffic={"gb_s": 200, "meter": "simulated", "throttle": throttle}
        )
        self.now = timezone.now()
        self.hog = cluster.running(self.node, gpus=0, cores=cores)
        self.training = cluster.running(self.node, gpus=1, cores=2)
        Attempt.objects.update(started_at=self.now - timedelta(hours=1))
        Attempt.objects.filter(pk=self.hog.pk).update(cores_wanted=cores)
        self.cluster, self.cores, self.draws, self.trains, self.sensitive = cluster, cores, draws, trains, sensitive
        self.answers = True
        self.answer()
        if quiet_s:
            self.measure(quiet_s, draws=0.1)

    def part(self, attempt):
        return Allocation.objects.get(attempt=attempt)

    @property
    def held(self):
        return len(self.part(self.hog).core_ids)

    def answer(self):
        holding = [
            {**given.key_of(each), "cores_sequence": self.part(each).cores_sequence}
            for each in Attempt.objects.filter(ended_at=None)
        ]
        assert {w["attempt"] for w in parts_wanted(node_id=self.node.pk)["attempts"]} == {h["attempt"] for h in holding}
        given.heard(node=Node.objects.get(pk=self.node.pk), reports=[], holding=holding)

    def measure(self, seconds, *, draws=None):
        """Let time pass; traffic and utilisation follow the cores that are held."""
        share = self.held / self.cores * self.part(self.hog).share
        drawn = min(1.0, (self.draws if draws is None else draws) * share)
        total = min(1.0, drawn + self.trains)
        self.speed = 1 - self.sensitive * min(1.0, max(0.0, total / 0.75 - 1))
        used = 0.9 * self.speed
        batch = {
            "start": self.now.timestamp(),
            "period_s": 1.0,
            "count": seconds,
            "gpus": {"0": {"utilisation": [100 * used] * seconds}},
            "host": {"memory_share": [100 * total] * seconds},
            "attempts": {
                self.hog.key: {"memory_share": [100 * drawn] * seconds},
                self.training.key: {"memory_share": [100 * self.trains] * seconds},
            },
        }
        given.measured(node=Node.objects.get(pk=self.node.pk), batch=batch)
        self.now += timedelta(seconds=seconds)

    def go(self, periods, *, draws=None):
        """Let periods pass, with a pass of the portal every five seconds; return the orders that were given."""
        given_ = 0
        for _ in range(2 * periods + 1):
            self.measure(STEP_S, draws=draws)
            given_ += relief_pass(now=self.now)
            if self.answers:
                self.answer()
        return given_

    def wanted(self, attempt):
        return next(w for w in parts_wanted(node_id=self.node.pk)["attempts"] if w["attempt"] == attempt.key)

    @property
    def slowing(self):
        return Slowing.objects.get()


@pytest.fixture
def pressed(cluster):
    return Pressed(cluster)


def test_a_job_that_takes_the_memory_from_a_training_is_slowed_and_told_of(pressed):
    assert pressed.go(2) == 1
    slowing = pressed.slowing
    assert (slowing.attempt, slowing.helped, slowing.cause) == (pressed.hog, pressed.training, "hurt")
    assert (pressed.held, slowing.share, slowing.to_at) == (4, 0.5, None)
    assert (slowing.drew, slowing.lost) == (pytest.approx(0.85, abs=0.01), pytest.approx(0.16, abs=0.01))
    text = JobEvent.objects.get(job=pressed.hog.job, kind="slowed").text
    number = pressed.training.job.number
    assert text == f"Slowed, because it took 85 % of the node's memory bandwidth and #{number} lost 16 % of its speed."
    event = NodeEvent.objects.get(kind="job slowed")
    assert "85 % of the node's memory bandwidth" in event.detail
    assert "#" not in event.detail  # everybody reads it
    assert f"#{pressed.hog.job.number} on wide is slowed for this job" in JobEvent.objects.get(kind="relieved").text
    assert Attempt.objects.get(pk=pressed.hog.pk).cores == 4  # quotas, ledger and snapshot count these


@pytest.mark.parametrize("sensitive", [0.4, 0.8, 1.0])
def test_within_three_periods_the_training_is_back_at_nine_tenths_of_its_speed(cluster, sensitive):
    pressed = Pressed(cluster, draws=0.95, trains=0.05, sensitive=sensitive)
    pressed.measure(STEP_S)
    assert pressed.speed < 0.9
    pressed.go(3)
    assert pressed.speed >= 0.9


def test_it_is_let_go_after_three_calm_periods_and_takes_its_cores_again(pressed):
    pressed.go(2)
    assert pressed.go(5, draws=0.2) == 1
    assert (pressed.slowing.outcome, pressed.held) == ("calm", 8)
    assert pressed.slowing.cores_owed is None
    pressed.go(2, draws=0.2)
    assert not MemoryWatch.objects.exists()
    assert JobEvent.objects.get(kind="let go").text.endswith("there was room for its traffic again.")


def test_it_is_let_go_when_the_training_job_has_left(pressed):
    pressed.go(2)
    pressed.cluster.end(pressed.training)
    pressed.go(2)
    assert (pressed.slowing.outcome, pressed.held) == ("gone", 8)


def test_cores_that_another_took_meanwhile_come_back_when_they_are_idle(pressed):
    pressed.go(2)
    other = pressed.cluster.running(pressed.node, gpus=0, cores=18)
    Attempt.objects.filter(pk=other.pk).update(started_at=pressed.now)
    pressed.cluster.end(pressed.training)
    pressed.answer()
    pressed.go(2)
    assert (pressed.slowing.outcome, pressed.held, pressed.slowing.cores_owed) == ("gone", 6, 8)
    pressed.cluster.end(other)
    pressed.go(1)
    assert (pressed.held, pressed.slowing.cores_owed) == (8, None)


def test_a_node_that_can_hold_a_job_to_a_share_leaves_it_its_cores(cluster):
    pressed = Pressed(cluster, throttle="quota1")
    pressed.go(2)
    assert (pressed.slowing.means, pressed.held, pressed.wanted(pressed.hog)["share"]) == ("quota1", 8, 0.5)
    assert pressed.wanted(pressed.training)["share"] == 1
    pressed.cluster.end(pressed.training)
    pressed.answer()
    pressed.go(2)
    assert (pressed.slowing.outcome, pressed.wanted(pressed.hog)["share"], pressed.slowing.cores_owed) == (
        "gone",
        1,
        None,
    )


def test_a_training_that_began_beside_the_traffic_is_tried_once_and_the_harmless_job_let_go(cluster):
    pressed = Pressed(cluster, quiet_s=0, sensitive=0.0)
    orders = pressed.go(7)
    assert (orders, pressed.slowing.cause, pressed.slowing.outcome, pressed.held) == (2, "trial", "harmless", 8)
    assert "to see whether" in JobEvent.objects.get(kind="slowed").text


def test_what_is_not_measured_slows_nobody_and_lets_nobody_go(pressed):
    pressed.go(2)
    for _ in range(12):  # the agent is away
        pressed.now += timedelta(seconds=STEP_S)
        assert relief_pass(now=pressed.now) == 0
    assert (pressed.slowing.to_at, pressed.held) == (None, 4)
    assert pressed.go(5, draws=0.2) == 1
    assert pressed.slowing.outcome == "calm"


def test_an_order_that_is_not_acknowledged_is_told_of_and_given_once(pressed):
    pressed.answers = False
    assert pressed.go(12) == 1
    assert NodeEvent.objects.filter(kind="no answer").count() == 1
    assert (pressed.held, len(pressed.part(pressed.hog).core_ids_ordered)) == (8, 4)  # what leaves is held until then
    pressed.answer()
    assert pressed.held == 4


def test_switched_off_lets_everybody_go(pressed):
    pressed.go(2)
    settings_update(actor=None, relieve_memory="off")
    assert relief_pass(now=pressed.now) == 1
    pressed.answer()
    assert (pressed.slowing.outcome, pressed.held, MemoryWatch.objects.exists()) == ("off", 8, False)
    assert pressed.go(3) == 0


def test_a_job_that_ends_while_it_is_slowed_leaves_nothing_open(pressed):
    pressed.go(2)
    pressed.cluster.end(pressed.hog)
    relief_pass(now=pressed.now)
    assert (pressed.slowing.outcome, pressed.slowing.cores_owed) == ("ended", None)


def test_calm_nodes_cost_the_pass_the_same_however_many_there_are(cluster):
    settings_update(actor=None, relieve_period_s=PERIOD_S)
    cluster.running()
    relief_pass()
    with CaptureQueriesContext(connection) as one:
        relief_pass()
    for number in range(20):
        given.node_make(f"calm-{number}", memory_share=0.3)
    with given.statements(len(one)):
        relief_pass()


def test_where_nothing_runs_and_nobody_is_held_back_a_pass_writes_nothing(cluster):
    cluster.submit()
    with CaptureQueriesContext(connection) as asked:
        assert relief_pass() == 0
    assert [each["sql"].split()[0] for each in asked] == ["SELECT"] * 3


def test_another_tenants_job_is_named_to_nobody(cluster):
    pressed = Pressed(cluster)
    other = Tenant.objects.create(name="secret-lab")
    Job.objects.filter(pk=pressed.training.job_id).update(tenant=other)
    pressed.go(2)
    texts = [*JobEvent.objects.filter(kind="slowed").values_list("text", flat=True)]
    assert "a job of another tenant lost 16 %" in texts[0]
    assert f"#{pressed.training.job.number}" not in texts[0]
    assert f"#{pressed.hog.job.number}" not in JobEvent.objects.get(kind="relieved").text
    body = AttemptSerializer(attempts_of(pressed.hog.job).get()).data
    assert (body["slowings"][0]["helped"], body["slowings"][0]["share"]) == (None, 0.5)


def test_a_step_of_core_tuning_in_which_somebody_was_slowed_is_made_again(pressed):
    search = CoreSearch(attempt=pressed.training, marked_at=pressed.now, step_s=10, begun_at=pressed.now, state={})
    assert upset_read([search]) == set()
    pressed.go(2)
    assert upset_read([search]) == {pressed.training.pk}
    search.marked_at = pressed.now + timedelta(seconds=1)
    assert upset_read([search]) == set()


def test_the_pages_of_both_jobs_of_the_node_and_the_cluster_tell_it(pressed, client):
    pressed.go(2)
    client.force_login(pressed.cluster.owner)
    hog, training = pressed.hog.job.number, pressed.training.job.number
    told = f"because it took 85 % of the node&#x27;s memory bandwidth and #{training} lost 16 % of its speed"
    node = client.get(reverse("node-detail", args=["wide"])).content.decode()
    assert told in node
    assert "held back by fewer cores" in node
    assert "This job is slowed since" in client.get(reverse("job-detail", args=[hog])).content.decode()
    other = client.get(reverse("job-detail", args=[training])).content.decode()
    assert f"#{hog}</a> is slowed since" in other
    assert "and this job lost 16 % of its speed" in other
    client.force_login(given.operator())
    events = client.get(reverse("cluster")).content.decode().partition('data-fold="cluster-events"')[2]
    assert "Slowed: " in events.partition("</details>")[0]
    client.force_login(User.objects.create(username="stranger"))
    seen = client.get(reverse("node-detail", args=["wide"])).content.decode()
    assert "A job of another tenant is slowed since" in seen
    assert f"#{hog}" not in seen


def test_less_than_a_minute_is_told_in_seconds_and_an_attempts_last_twenty_in_rest(pressed, client):
    pressed.go(2)
    Slowing.objects.update(to_at=pressed.slowing.from_at + timedelta(seconds=25), outcome="calm")
    client.force_login(pressed.cluster.owner)
    page = client.get(reverse("job-detail", args=[pressed.hog.job.number])).content.decode()
    assert "was slowed at" in page
    assert "for 25 s" in page
    one = pressed.slowing
    later = [timedelta(hours=n + 1) for n in range(30)]
    for each in later:
        one.pk, one.from_at = None, one.from_at + each
        one.save(force_insert=True)
    attempt = next(each for each in attempts_of(pressed.hog.job) if each.pk == pressed.hog.pk)
    told = AttemptSerializer(attempt).data["slowings"]
    assert len(told) == 20
    assert told == sorted(told, key=lambda each: each["from_at"], reverse=True)
