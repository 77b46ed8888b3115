"""Lines of a log that a job looks for: found across pieces at a bounded cost, told at once, then together, to who asked."""

import random
import re
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.people.tenants.models import Tenant
from portal.work.jobs.models import Job, JobEvent
from portal.work.jobs.services.logs import log_append
from portal.work.notifications import matches
from portal.work.notifications.choosing import wishes_set
from portal.work.notifications.matches import GAPS, Tail, digests_note, lines_find
from portal.work.notifications.models import Happening, Item, LogMatch, LogTail
from portal.work.notifications.spreading import happenings_spread, messages_expire
from tests.portal import given

# ---- finding ---------------------------------------------------------------------------------------------------------


def found_in(text, pattern, cuts=()):
    """How many lines have the pattern, with the text cut into pieces at these places."""
    tail, lines = Tail(), 0
    for start, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
        found, tail = lines_find([pattern], tail, text[start:end])
        lines += sum(each.lines for each in found)
    return lines


def meant(text, pattern):
    """What the pattern means, said by another program: an expression of Python's, for a few short lines only."""
    expression = ".*".join(map(re.escape, pattern.split("*"))).encode()
    return sum(any(re.search(expression, drawn) for drawn in _drawn(line)) for line in text.split(b"\n"))


def _drawn(line):
    """What was drawn of a line one after the other, and what it leaves."""
    pieces = re.sub(rb"\x1b\[[0-9;]*[mK]", b"", line).split(b"\r")
    left = b""
    for piece in pieces:
        left = piece + left[len(piece) :]
    return [*pieces, left]


def test_any_cut_of_any_log_gives_the_same_lines():
    draw = random.Random(7)
    for _ in range(600):
        text = b"".join(draw.choices([b"a", b"b", b"*", b"\n", b"\r", b"\x1b[1;31m"], k=draw.randint(0, 40)))
        pattern = "".join(draw.choices("ab*", k=draw.randint(1, 5)))
        if not pattern.replace("*", ""):
            continue
        cuts = sorted(draw.sample(range(len(text) + 1), k=min(len(text), draw.randint(0, 6))))
        assert found_in(text + b"\n", pattern, cuts) == meant(text, pattern), (text, pattern, cuts)


PATTERNS = [
    ("loss * nan", b"step 7 loss = nan", True),
    ("loss * nan", b"nan loss", False),
    ("NaN", b"loss nan", False),
    ("a.c", b"abc", False),
    ("[E]", b"12:01 [E] disk", True),
    ("Müller", "für Müller".encode(), True),
    ("ERROR: disk", b"\x1b[1;31mERROR\x1b[0m: \x1b]8;;http://x\x1b\\disk", True),
    ("[31m", b"\x1b[31mred", False),
    ("loss nan", b"\rstep 1 loss 0.5\r\x1b[Kstep 2 loss nan\r\x1b[Kstep 3", True),
    ("loss nan step", b"loss nan\rstep", False),
    ("Name?", b"\x1b[32m? \x1b[1mName?\x1b[22m \x1b[?25h", True),
    ("a\u2028b", "a\u2028b".encode(), True),
]


def test_a_pattern_is_text_and_stars(subtests):
    for pattern, line, has in PATTERNS:
        with subtests.test(pattern=pattern, line=line):
            assert bool(found_in(line, pattern)) is has


def test_a_line_that_is_redrawn_counts_once():
    assert found_in(b"\r 1 nan\r 2 nan\r 3 nan\n 4 nan\n", "nan", (4, 9)) == 2


def test_what_a_piece_cuts_is_found():
    text = "\x1b[1;31mERROR\x1b[0m \u00e9t\u00e9\n".encode()
    assert {found_in(text, "ERROR \u00e9t\u00e9", (cut,)) for cut in range(len(text))} == {1}


def test_a_line_is_found_before_it_is_over_and_not_twice():
    found, tail = lines_find(["password:"], Tail(), b"your password: ")
    assert [each.lines for each in found] == [1]
    found, tail = lines_find(["password:"], tail, b"****\nyour password: ")
    assert [each.lines for each in found] == [1]
    assert lines_find(["password:"], tail, b"again password: \n")[0] == []


def test_a_line_without_end_keeps_little_and_is_told_once():
    tail, lines = Tail(), 0
    for _ in range(40):
        found, tail = lines_find(["x*x"], tail, b"x" * 1000)
        lines += sum(each.lines for each in found)
        assert len(tail.text) <= matches.TAIL_BYTES
    assert lines == 1


def test_what_a_hostile_log_costs_is_bounded(monkeypatch):
    """Each line has the first piece and none the last: so many lines are looked at, and no more."""
    looked = []

    def has(*arguments):
        looked.append(1)
        return False

    monkeypatch.setattr(matches, "_has", has)
    assert lines_find(["aa*b"], Tail(), b"aa\n" * 87_000) == ([], Tail())
    assert len(looked) == matches.LINES_TRIED


# ---- the field -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("loss", "wrong_type"),
        (["*"], "invalid"),
        ([" * "], "invalid"),
        (["a\nb"], "control_character"),
        (["a" * 201], "too_long"),
        (["a*b*c*d*e*f"], "invalid"),
        (["a", "b", "c", "d"], "too_many"),
    ],
)
@pytest.mark.django_db
def test_a_wrong_pattern_is_refused_by_name_and_makes_no_job(cluster, value, code):
    with pytest.raises(BerthError) as refused:
        cluster.submit(log_matches=value)
    assert (refused.value.field, refused.value.code) == ("log_matches", code)
    assert not Job.objects.exists()


@pytest.mark.django_db
def test_tasks_look_for_what_their_array_does(cluster):
    array = cluster.submit(log_matches=["nan", "nan"], array={"size": 2})
    assert {tuple(job.log_matches) for job in Job.objects.filter(array=array)} == {("nan",)}


@pytest.mark.django_db
def test_what_the_form_says_is_submitted_and_comes_back(cluster, client):
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    said = {"command": "true", "gpu_mode": "set", "gpus": "1", "log_matches": "CUDA error\r\nloss * nan\r\n"}
    client.post("/jobs/new", said)
    job = Job.objects.get()
    assert job.log_matches == ["CUDA error", "loss * nan"]
    assert client.get(f"/jobs/new?from={job.pk}").context["fields"]["log_matches"]["value"] == "CUDA error\nloss * nan"
    refusal = client.post("/jobs/new", said | {"log_matches": "*"})
    assert refusal.status_code == 400
    assert "needs more than *" in refusal.context["fields"]["log_matches"]["error"]


# ---- telling ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def says(cluster):
    wishes_set(user=cluster.owner, mail=["log"], waits_h=24)
    attempt = cluster.running(name="night-run", log_matches=["loss * nan", "saved"])
    lengths = {}

    def says(data, stream="stdout"):
        offset = lengths.get(stream, 0)
        log_append(node=cluster.node, key=attempt.key, epoch=1, rank=0, stream=stream, offset=offset, data=data)
        lengths[stream] = offset + len(data)

    says.attempt, says.cluster = attempt, cluster
    return says


def told():
    happenings_spread()
    return list(Item.objects.filter(what="log").values_list("detail", flat=True))


@pytest.mark.django_db
def test_the_first_line_is_told_at_once_with_job_and_line(says):
    says(b"step 1 loss 0.5\nstep 2 lo")
    assert told() == []
    says(b"ss = nan\nste")
    assert told() == ["a line has loss * nan: step 2 loss = nan"]
    says(b"saved best\n", stream="stderr")
    assert told()[1:] == ["a line has saved: saved best"]
    assert JobEvent.objects.filter(job=says.attempt.job, kind="log-match").count() == 2


@pytest.mark.django_db
def test_further_lines_are_told_together_and_at_last_no_more(says):
    messages = []
    for _ in range(8):
        says(b"loss is nan\n" * 500)
        assert digests_note() == 0, "not before its time"
        LogMatch.objects.filter(due_at__isnull=False).update(due_at=timezone.now())
        digests_note()
        messages = told()
    assert messages[0] == "a line has loss * nan: loss is nan"
    assert messages[1] == "499 more lines have loss * nan, the last one: loss is nan"
    assert "no more is told of this text" in messages[-1]
    assert len(messages) == 1 + len(GAPS)
    assert LogMatch.objects.get().lines == 4000


@pytest.mark.django_db
def test_who_asked_for_it_is_told_and_nobody_of_another_tenant(says):
    foreign = given.member("zoe", Tenant.objects.create(name="zebra"))
    wishes_set(user=foreign, mail=["log"], waits_h=24)
    wishes_set(user=says.cluster.owner, mail=["ended"], waits_h=24)
    says(b"loss nan loss - nan\n")
    assert told() == []
    assert not Happening.objects.exists()


@pytest.mark.django_db
def test_a_piece_that_comes_twice_is_noted_once(says):
    from portal.work.jobs.services.logs import OffsetMismatch

    says(b"saved\n")
    with pytest.raises(OffsetMismatch):
        log_append(
            node=says.cluster.node, key=says.attempt.key, epoch=1, rank=0, stream="stdout", offset=0, data=b"saved\n"
        )
    assert LogMatch.objects.get().lines == 1


@pytest.mark.django_db
def test_markup_and_controls_in_a_line_are_plain_text(says):
    says(b"saved \x1b[31m<b>\xff\x00 to disk\n")
    [detail] = told()
    assert detail.isprintable()
    assert "<b>" in detail


@pytest.mark.django_db
def test_a_job_that_looks_for_nothing_costs_its_log_nothing(cluster):
    attempt = cluster.running()
    named = {"node": cluster.node, "key": attempt.key, "epoch": 1, "rank": 0, "stream": "stdout"}
    log_append(**named, offset=0, data=b"saved\n")
    assert not LogTail.objects.exists()
    assert not LogMatch.objects.exists()


@pytest.mark.django_db
def test_tails_go_a_day_after_the_attempt(says, monkeypatch):
    says(b"unfinished")
    says.cluster.end(says.attempt)
    messages_expire()
    assert LogTail.objects.count() == 1
    later = timezone.now() + timedelta(days=2)
    monkeypatch.setattr("portal.work.notifications.spreading.timezone", SimpleNamespace(now=lambda: later))
    messages_expire()
    assert not LogTail.objects.exists()
