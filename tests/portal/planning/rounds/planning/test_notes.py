"""A plan's news of waiting jobs is found in columns by the rules that write it down."""

from collections import Counter
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from portal.planning.rounds.planning.apply import note_of, notes_of
from portal.planning.rounds.planning.queued import QueuedJob
from portal.planning.rounds.record.packing import columns_of
from portal.work.jobs.services.waiting import _set, _Waiting
from scheduler.model import Reason
from tests.portal.planning.rounds.record.test_decisions import placed, waiting

NOW = datetime(2026, 3, 1, tzinfo=UTC)
AGES = st.sampled_from([None, 100.0, 104.0, 106.0, 0.0])
REASONS = (Reason.HELD, Reason.TENANT_QUOTA, Reason.GPUS_SCATTERED)

row = st.builds(
    dict,
    state=st.sampled_from(["PENDING", "HELD"]),
    reason=st.sampled_from(["", "gone-since", *(str(each) for each in REASONS)]),
    in_window=st.sampled_from([None, True, False]),
    waiting_since_s=st.sampled_from([None, 1000.0]),
    started=st.booleans(),
    age_s=AGES,
)
word = st.builds(dict, reason=st.sampled_from(REASONS), inside_window=st.booleans(), eligible=st.booleans(), age_s=AGES)


def queued(pk, told):
    empty = dict.fromkeys(QueuedJob._fields)
    return QueuedJob(**empty | {"pk": pk, "waited_s": 5.0} | told)


def is_news(stored, note):
    """By the rule that writes it down."""
    job = _Waiting(
        stored.pk,
        stored.state,
        NOW if stored.started else None,
        stored.reason,
        stored.in_window,
        stored.waiting_since_s,
        stored.waited_s,
        stored.age_s,
    )
    return _set(job=job, note=note, now=NOW)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 40), row, word), max_size=12, unique_by=lambda each: each[0]), st.randoms())
def test_the_same_as_the_rule_that_writes_it_down(cases, rng):
    rows = {pk: queued(pk, told) for pk, told, _ in cases}
    decisions = [waiting(pk, None, **said) for pk, _, said in cases]
    decisions += [waiting(99, 1), placed(98, 2)]  # gone since the snapshot; started
    rng.shuffle(decisions)
    found = notes_of(decisions, columns_of(decisions), [rows[pk] for pk in sorted(rows)])
    wanted = [note for each in decisions if each.job in rows and is_news(rows[each.job], note := note_of(each, {}))]
    assert found == wanted


def test_a_started_jobs_row_is_left_to_its_start():
    job = queued(5, {"state": "PENDING", "reason": "", "started": False})
    assert notes_of([placed(5, 1)], columns_of([placed(5, 1)]), [job]) == []
    assert Counter(each.job_id for each in notes_of([waiting(5, 1)], columns_of([waiting(5, 1)]), [job])) == {5: 1}
