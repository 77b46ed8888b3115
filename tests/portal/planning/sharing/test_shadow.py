"""A shadow decides on a planning's own input and harms nothing: it may hang, fail or end, and is reported then."""

import threading
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update
from portal.planning.sharing.keeping import shadow_expire
from portal.planning.sharing.models import ShadowDecision, ShadowPlanning
from portal.planning.sharing.shadow import Companion, Question, Runner, ShadowFailed
from portal.work.jobs.models import GpuAllocation
from tests.portal import given

pytestmark = pytest.mark.django_db
HANGS = "import time\ntime.sleep(600)\n"
ENDS = "raise SystemExit(3)\n"
FAILS = """
import json, sys
size = int.from_bytes(sys.stdin.buffer.read(8), "big")
sys.stdin.buffer.read(size)
told = json.dumps({"error": "ValueError: no such thing"}).encode()
sys.stdout.buffer.write(len(told).to_bytes(8, "big") + told)
sys.stdout.buffer.flush()
"""


def test_both_answers_are_kept_of_the_very_same_planning(cluster, shadowed):
    """Nothing was seen of either job: res-ag lets the second join, cbp does not."""
    jobs = [cluster.submit(**given.shareable(0.25)) for _ in range(2)]
    shadowed()
    record = ShadowPlanning.objects.get()
    assert (record.acting, record.shadow, record.error) == ("res-ag", "cbp", "")
    assert (record.number, record.asked, record.agreed) == (Planning.objects.get().number, 2, 1)
    assert record.spent_ms > 0
    rows = {row.job_id: row for row in ShadowDecision.objects.all()}
    second = rows[jobs[1].pk]
    assert (second.acting_rule, second.shadow_rule) == ("fits", "unknown")
    assert (second.acting["gpu"], second.shadow["closed"]) == (3, {"unknown": 1})
    assert second.acting["beside"] == [[jobs[0].pk, f"job:{jobs[0].pk}"]]
    assert GpuAllocation.objects.count() == 2, "the shadow started nobody and kept nobody from starting"


def test_a_job_that_waits_is_kept_once_until_something_else_is_said(cluster, shadowed):
    first, second = (cluster.submit(**given.shareable(0.75)) for _ in range(2))
    shadowed()
    attempt = first.attempts.get()
    shadowed()
    assert ShadowPlanning.objects.count() == 2
    assert list(ShadowDecision.objects.values_list("acting_rule", flat=True)) == ["compute", "alone"]
    cluster.report(attempt, "running", pid=100)
    cluster.end(attempt)
    shadowed()
    assert [row.acting_rule for row in ShadowDecision.objects.filter(job=second)] == ["alone", "compute"]


def test_without_the_knob_or_without_sharers_nothing_is_asked(cluster, shadowed):
    assert shadowed() == []
    settings_update(actor=given.operator(), sharing_shadow="off")
    cluster.submit(**given.shareable())
    assert shadowed() == []


@pytest.mark.parametrize(
    ("program", "why"),
    [
        (HANGS, "it gave no answer within 1 s"),
        (ENDS, "its process ended with 3"),
        (FAILS, "ValueError: no such thing"),
    ],
)
def test_a_shadow_that_hangs_ends_or_fails_is_recorded_and_its_process_gone(
    cluster, shadowed, tmp_path, monkeypatch, program, why
):
    monkeypatch.setattr("portal.planning.sharing.shadow.LIMIT_S", 1)
    path = tmp_path / "child.py"
    path.write_text(program)
    cluster.submit(**given.shareable())
    (question,) = shadowed()
    ShadowPlanning.objects.all().delete()
    bad = Companion(path)
    Runner(bad).answer(question)
    assert ShadowPlanning.objects.get().error == why
    assert not ShadowDecision.objects.exists()
    bad.close()


def test_after_a_failure_it_is_started_again(companion):
    with pytest.raises(ShadowFailed, match=r"UnpicklingError|pickle"):
        companion.ask(b"no pickle", limit_s=60)
    with pytest.raises(ShadowFailed, match="AttributeError"):
        companion.ask(b"N.", limit_s=60)


def test_plannings_wait_for_no_shadow_and_those_that_come_meanwhile_are_counted():
    """The first is being answered, the second waits, the third is counted; `offer` returned each time."""
    there, go = threading.Event(), threading.Event()

    class Slow(Runner):
        def answer(self, question):
            there.set()
            go.wait(60)

    runner = Slow()
    record = Planning(number=1, started_at=timezone.now())
    runner.offer(record, None)
    assert there.wait(60)
    runner.offer(record, None)
    runner.offer(record, None)
    assert runner._skipped == 1
    go.set()


def test_one_that_cannot_even_be_offered_does_not_fail_the_planning(cluster, monkeypatch):
    def broken(record, sharing):
        raise RuntimeError("no threads left")

    monkeypatch.setattr("portal.planning.rounds.planning.shadowed._followers", [broken])
    settings_update(actor=given.operator(), sharing_shadow="cbp")
    given.shared(cluster.node, 3)
    cluster.submit(**given.shareable())
    assert planning_run().status == Planning.Status.APPLIED


def test_what_is_kept_is_bounded_by_a_planning_by_age_and_by_number(cluster, shadowed, monkeypatch):
    monkeypatch.setattr("portal.planning.sharing.keeping.ROWS", 2)
    for _ in range(4):
        cluster.submit(**given.shareable(0.5))
    shadowed()
    assert (ShadowDecision.objects.count(), ShadowPlanning.objects.get().left_out) == (2, 2)
    assert {row.acting_admits == row.shadow_admits for row in ShadowDecision.objects.all()} == {True, False}
    monkeypatch.setattr("portal.planning.sharing.keeping.MOST", 1)
    assert shadow_expire() == 1
    ShadowPlanning.objects.update(at=timezone.now() - timedelta(days=8))
    shadow_expire()
    assert not ShadowPlanning.objects.exists()
    assert not ShadowDecision.objects.exists()


def test_a_question_is_answered_once(cluster, shadowed, companion):
    cluster.submit(**given.shareable())
    (question,) = shadowed()
    Runner(companion).answer(Question(question.number, question.at, question.sharing))
    assert (ShadowPlanning.objects.count(), ShadowDecision.objects.count()) == (1, 1)
