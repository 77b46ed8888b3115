"""A job that is waited for and its log followed: over attempts, through broken connections, to its exit code."""

import io
import itertools
import sys

import pytest
from django.utils import timezone

from berth_client import AwayError, Berth, jobs, rest
from berth_client.cli import logs, main
from portal.people.tenants.services import token_create
from portal.work.jobs.models import Job, LogChunk
from tests.client.conftest import URL, InProcess
from tests.portal.conftest import cluster  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db


MOST = 100


class Happening(InProcess):
    """Events of the job come from a list, one step before each request `at` its log; `cuts` are answers that are lost."""

    def __init__(self, steps, cuts=(), at="/logs"):
        super().__init__()
        self.at = at
        self.steps, self.cuts, self.count = iter(steps), set(cuts), itertools.count()

    def __call__(self, method, url, **more):
        number = next(self.count)
        assert number < MOST or self.cuts, "it asks without end"
        if self.at in url or number == 0:
            next(self.steps, lambda: None)()
        answer = super().__call__(method, url, **more)
        if number in self.cuts:
            raise AwayError("the connection broke")
        return answer


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    for module in (jobs, rest):
        for name in ("POLL_S", "RETRY_S"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, 0.01)
    monkeypatch.setattr(jobs, "FOLLOW_S", 1)


@pytest.fixture
def token(cluster):  # noqa: F811
    return token_create(user=cluster.owner, name="cli", scopes=["jobs:read", "jobs:write"], actor=None)[1]


def write(attempt, text, stream="stdout"):
    held = LogChunk.objects.filter(attempt=attempt, stream=stream)
    offset = sum(held.values_list("length", flat=True))
    data = text.encode()
    LogChunk.objects.create(
        attempt=attempt, rank=0, stream=stream, offset=offset, length=len(data), data=data, at=timezone.now()
    )


@pytest.fixture
def two_attempts(cluster):  # noqa: F811
    """A job and the steps of its life: an attempt that fails in the middle of its output, and one that completes."""
    job = cluster.submit(retries=1)
    first = cluster.start(job)

    def second():
        cluster.end(first, exit_code=3)
        again = cluster.start(job)
        write(again, "again\n")
        steps.append(lambda: write(again, "done\n"))
        steps.append(lambda: cluster.end(again))

    steps = [
        lambda: write(first, "one\ntw"),
        lambda: write(first, "o\n"),
        lambda: write(first, "warning\n", "stderr"),
        second,
    ]
    return job, steps


@pytest.mark.parametrize("cuts", [(), (1, 2, 4), range(0, 12, 2)])
def test_no_line_is_missing_or_comes_twice(two_attempts, token, cuts):
    job, steps = two_attempts
    berth = Berth(URL, token, transport=Happening(steps, cuts))
    pieces = list(berth.jobs_follow(job.pk))
    assert "".join(piece["text"] for piece in pieces) == "one\ntwo\nwarning\nagain\ndone\n"
    assert [piece["attempt"] for piece in pieces][-1] == 2


def test_of_one_attempt_until_that_has_ended(two_attempts, token):
    job, steps = two_attempts
    berth = Berth(URL, token, transport=Happening(steps))
    assert "".join(piece["text"] for piece in berth.jobs_follow(job.pk, attempt=1)) == "one\ntwo\nwarning\n"


def test_a_job_that_never_began_ends_the_log_too(cluster, token):  # noqa: F811
    job = cluster.submit()
    berth = Berth(URL, token, transport=Happening([lambda: None, lambda: berth.jobs_cancel(job.pk)]))
    assert list(berth.jobs_follow(job.pk)) == []


def test_a_portal_that_stays_away_is_told(cluster, token, monkeypatch):  # noqa: F811
    monkeypatch.setattr(jobs, "PATIENCE_S", 0.05)
    berth = Berth(URL, token, transport=Happening([], cuts=range(10_000)))
    with pytest.raises(AwayError):
        berth.jobs_wait(cluster.submit().pk)


ENDS = [
    ({}, "COMPLETED", 0),
    ({"exit_code": 3}, "FAILED, exit code 3", 3),
    ({"signal": 9}, "FAILED, signal 9", 137),
    ({"signal": 11}, "FAILED, signal 11", 139),
    ({"reason": "out_of_memory", "detail": "too much"}, "OUT_OF_MEMORY, signal 9, too much", 137),
    ({"reason": "time_limit", "detail": "its limit"}, "TIMEOUT, signal 15, its limit", 1),
    ({"reason": "time_limit", "exit_code": 143, "detail": "its limit"}, "TIMEOUT, exit code 143, its limit", 1),
    ({"reason": "lost", "detail": "gone"}, "NODE_FAIL, gone", 1),
]


@pytest.mark.parametrize(("end", "words", "ends_with"), ENDS)
@pytest.mark.parametrize("how", ["--follow", "--wait"])
def test_submit_ends_as_the_job_s_command_did(cluster, token, monkeypatch, capsys, how, end, words, ends_with):  # noqa: F811
    monkeypatch.setenv("BERTH_URL", URL)
    monkeypatch.setenv("BERTH_TOKEN", token)

    def life():
        attempt = cluster.start(Job.objects.get())
        write(attempt, "hello\n")
        steps.append(lambda: cluster.end(attempt, **end))

    steps = [lambda: None, life]
    assert main(["submit", how, "--gpus", "1", "--", "true"], transport=Happening(steps, at="/jobs/")) == ends_with
    told = capsys.readouterr()
    assert told.out == ("hello\n" if how == "--follow" else "")
    assert f"job {Job.objects.get().pk}: {words}" in told.err


def test_a_job_without_an_exit_code_ends_with_one(cluster, token, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setenv("BERTH_URL", URL)
    monkeypatch.setenv("BERTH_TOKEN", token)
    transport = Happening([])
    berth = Berth(URL, token, transport=transport)
    original = berth.jobs_show

    def cancelled(_self, number):
        berth.jobs_cancel(number)
        return original(number)

    monkeypatch.setattr(Berth, "jobs_show", cancelled)
    assert main(["submit", "--wait", "-o", "name", "--", "true"], transport=transport) == 1
    assert capsys.readouterr().out == f"{Job.objects.get().pk}\n"


def test_an_order_whose_answer_is_lost_is_sent_again_and_made_once(cluster, token):  # noqa: F811
    berth = Berth(URL, token, transport=Happening([], cuts=(0, 1)))
    assert berth.jobs_submit({"command": "true"})["id"] == Job.objects.get().pk


def test_logs_once_by_tail_and_by_stream(cluster, token, monkeypatch, capsys):  # noqa: F811
    monkeypatch.setenv("BERTH_URL", URL)
    monkeypatch.setenv("BERTH_TOKEN", token)
    attempt = cluster.running()
    write(attempt, "one\ntwo\nthr")
    write(attempt, "error\n", "stderr")
    for arguments, printed in (
        ([], "one\ntwo\nerror\nthr"),
        (["--tail", "1", "--stream", "stdout"], "thr"),
        (["--stream", "stderr", "--attempt", "1"], "error\n"),
    ):
        assert main(["logs", str(attempt.job_id), *arguments], transport=InProcess()) == 0
        assert capsys.readouterr().out == printed


class Terminal(io.StringIO):
    def isatty(self):
        return True


PIECES = [
    {"attempt": 1, "text": "one\n", "open": [{"stream": "stdout", "text": " 10%"}]},
    {"attempt": 1, "text": "", "open": [{"stream": "stdout", "text": " 20%"}]},
    {"attempt": 1, "text": " 100%\n", "open": [{"stream": "stdout", "text": "Name? " + "\u8bad" * 500}]},
    {"attempt": 1, "text": "Name? x\n"},
]


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_what_has_not_ended_is_drawn_on_a_terminal_and_kept_out_of_a_file(monkeypatch, kind):
    monkeypatch.setattr("sys.stdout", kind())
    monkeypatch.setenv("COLUMNS", "40")
    logs.print_pieces(PIECES)
    anew, shown = logs.ANEW, sys.stdout.getvalue()
    if kind is Terminal:
        prompt = f"Name? {chr(0x8BAD) * 16}"
        assert shown == f"one\n 10%{anew} 20%{anew} 100%\n{prompt}{anew}Name? x\n"
    else:
        assert shown == "one\n 100%\nName? x\n"


def test_a_prompt_and_a_bar_are_seen_while_they_stand(cluster, token):  # noqa: F811
    attempt = cluster.running()
    steps = [
        lambda: write(attempt, "begun\n\r 10%"),
        lambda: write(attempt, "\r 20%"),
        lambda: write(attempt, "\n\x1b[1mName?\x1b[0m "),
        lambda: cluster.end(attempt),
    ]
    pieces = list(Berth(URL, token, transport=Happening(steps)).jobs_follow(attempt.job_id))
    assert "".join(piece["text"] for piece in pieces) == "begun\n 20%\nName? "
    seen = [line["text"] for piece in pieces for line in piece["open"]]
    assert list(dict.fromkeys(seen)) == [" 10%", " 20%", "Name? "]
