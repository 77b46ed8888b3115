"""Every verb anywhere: where the terminal knows few letters, the disk is full, the reader went, or the system is not POSIX."""

import argparse
import io
import os
import re
import subprocess
import sys

import pytest

from berth_client.cli import main, parser_make
from berth_client.cli.verbs import VERBS
from portal.foundation.layout import SOURCE
from portal.work.jobs.models import Job, LogChunk
from tests.client.conftest import URL, secret_of
from tests.portal import given

pytestmark = [pytest.mark.impure, pytest.mark.django_db(transaction=True)]
NAME = "训练 é ε " + "x" * 60
GAPS = {"URL": "{url}", "JOB": "{job}", "JOB:PATH": "{job}:训练.pt", "TO": ".", "NODE": "nö", "PORT": "8888"}
OWN = {
    "submit": ["--name", NAME, "-o", "wide", "--", "true"],
    "plan": ["--name", NAME, "--", "true"],
    "ps": ["-a", "-o", "wide"],
    "shell": ["{job}", "--", "true"],
    "forward": ["{job}", "8888", "--local", "0"],
    "ssh": ["{job}"],
    "cancel": ["{waiting}", "-o", "yaml"],
    "hold": ["{waiting}"],
    "release": ["{waiting}"],
    "edit": ["{waiting}", "--name", NAME, "-o", "wide"],
}
"""Words of verbs that need more than their parser asks for."""


def needed(parser):
    """The words that a parser asks for: `ls` of a verb about things, each argument by its metavar, and no option."""
    for action in parser._actions:
        if action.dest == "act_on" or isinstance(action, argparse._SubParsersAction):
            yield "ls"
        elif action.option_strings:
            yield from (action.option_strings[0], NAME) if action.required else ()
        elif action.nargs not in {"?", "*"}:
            yield next(iter(action.choices)) if action.choices else GAPS[action.metavar]


PARSERS = next(each for each in parser_make()._actions if each.dest == "verb").choices
WALK = {verb: [verb, *OWN.get(verb, needed(PARSERS[verb]))] for verb in VERBS}
STAND_IN = """\
import os, signal, sys
for name in "fcntl grp pwd resource termios tty pty posix_spawn syslog readline".split():
    sys.modules[name] = None
for name in "fork forkpty getuid geteuid getgid getpgid setsid killpg mkfifo fchmod chown get_blocking set_blocking".split():
    os.__dict__.pop(name, None)
for name in "SIGWINCH SIGHUP SIGPIPE SIGCONT SIGKILL SIGALRM SIGUSR1 SIGCHLD".split():
    signal.__dict__.pop(name, None)
"""
RUN = "from berth_client.cli import run; sys.exit(run())"


@pytest.fixture
def berth(live_server, world, tmp_path):
    """Call the command as a process of its own, as lena: its arguments' gaps are filled, its environment is bare."""
    cluster = given.Cluster(world.tenants["vision-lab"], world.users["lena"], given.node_make("n1"))
    attempt = cluster.running(name=NAME)
    text = "进度 é\n".encode()
    LogChunk.objects.create(
        attempt=attempt, rank=0, stream="stdout", offset=0, length=len(text), data=text, at=attempt.created_at
    )
    waiting = world.owner.submit(name=NAME)["number"]
    filled = {"url": live_server.url, "job": attempt.job.number, "waiting": waiting}
    bare = {"BERTH_URL": live_server.url, "BERTH_TOKEN": secret_of(world.caller("lena")), "HOME": str(tmp_path)}

    def call(words, *, script="import sys; ", env=None, **more):
        argv = [word.format(**filled) for word in words]
        begun = f"import sys; sys.path.insert(0, {str(SOURCE / 'client')!r})\n{script}\n{RUN}"
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
        return subprocess.run(
            [sys.executable, "-S", "-c", begun, *argv],
            input=f"{bare['BERTH_TOKEN']}\n".encode(),
            env=bare | (env or {}),
            cwd=tmp_path,
            check=False,
            timeout=60,
            **more,
        )

    return call


def complaints(done):
    said = (done.stderr or b"").decode()
    assert "Traceback" not in said, said
    assert "Exception ignored" not in said, said
    return said


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"PYTHONIOENCODING": "cp1252"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=["ascii", "cp1252", "LANG=C"],
)
def test_letters_that_the_terminal_does_not_know_are_written_as_numbers(berth, env):
    for verb, words in WALK.items():
        done = berth(words, env=env)
        assert done.returncode in {0, 1, 2}, (verb, done)
        complaints(done)
        if verb in {"ps", "show"}:
            assert b"\\u8bad\\u7ec3" in done.stdout, (verb, done)
        if verb == "logs":
            assert b"\\u8fdb\\u5ea6" in done.stdout, done


def test_what_cannot_be_written_is_an_error(berth):
    """A full disk took the answer, and the exit code said 1 below a traceback, 120, or with `print` 0."""
    for verb, words in WALK.items():
        with open("/dev/full", "wb") as full:
            done = berth(words, stdout=full)
        said = complaints(done)
        assert done.returncode, (verb, done)
        if verb in {"ps", "show", "logs", "plan", "submit", "nodes", "usage", "templates", "members", "lab", "cancel"}:
            assert done.returncode == 1, (verb, done)
            assert said == "berth: the output cannot be written: No space left on device\n", verb


def test_where_nothing_can_be_said_the_exit_code_says_it(berth):
    with open("/dev/full", "wb") as full:
        assert berth(["show", "99999"], stderr=full).returncode == 2
        assert berth(["show", "99999"], stdout=full, stderr=full).returncode == 2
        assert berth(["ps", "-a"], stdout=full, stderr=full).returncode == 1


@pytest.mark.slow
def test_a_reader_that_left_is_no_error_and_nothing_is_said_of_it(berth):
    for verb, words in WALK.items():
        reader, writer = os.pipe()
        os.close(reader)
        done = berth(words, stdout=writer)
        os.close(writer)
        said = complaints(done)
        assert "Broken pipe" not in said, (verb, said)
        if verb != "completion" and (VERBS[verb].reads or words[1] == "ls"):
            assert (done.returncode, said) == (0, ""), (verb, done)


def test_a_job_that_is_waited_for_has_not_ended_well_because_its_reader_left(berth):
    """`submit --follow | head` ended with 0 while the job ran."""
    reader, writer = os.pipe()
    os.close(reader)
    follow = "import berth_client as p; p.Berth.jobs_follow = lambda *_: iter([{'attempt': 1, 'text': 'x'}])"
    done = berth(["submit", "--follow", "--", "true"], script=follow, stdout=writer)
    os.close(writer)
    assert done.returncode == 141
    complaints(done)


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_stream_that_is_closed_from_the_beginning(berth, closed):
    for verb, words in WALK.items():
        close = f"import os; os.close({closed}); sys.{['stdin', 'stdout', 'stderr'][closed]} = None"
        done = berth(words, script=close)
        said = complaints(done)
        if closed == 1:
            assert (done.returncode, said[:37]) == (1, "berth: standard output is closed; sen"), (verb, done)
    assert Job.objects.count() == (2 if closed == 1 else 3), "nothing was done without a message"


@pytest.mark.slow
def test_without_posix_all_but_the_shell_works(berth):
    """As on Windows: its modules, functions and signals are not there."""
    for verb, words in WALK.items():
        done = berth(words, script=STAND_IN)
        said = complaints(done)
        if verb == "shell":
            assert (done.returncode, said) == (
                2,
                "berth: `berth shell` does not work on Windows; use WSL there, or the terminal on the job's page\n",
            )
        elif verb == "completion":
            assert "needs argcomplete" in said
        else:
            usual = berth(words)
            if verb not in {"login", "cancel", "hold", "release", "submit"}:
                assert done.returncode == usual.returncode, (verb, done, usual)
            assert "Windows" not in said


@pytest.mark.parametrize("text", ["\udcff\udcfe", "\ud800", "é训练", "a b", "\x1b[2J", "x" * 5000, "%2f..", ""])
def test_any_text_as_an_argument_is_answered_in_a_sentence(world, transport, monkeypatch, capsys, tmp_path, text):
    monkeypatch.setenv("BERTH_URL", URL)
    monkeypatch.setenv("BERTH_TOKEN", secret_of(world.owner))
    monkeypatch.setattr("sys.stdin", io.StringIO("token\n"))
    monkeypatch.chdir(tmp_path)
    for verb, words in WALK.items():
        argv = [text if word.startswith("{") or word in {NAME, "nö", "ls"} else word for word in words]
        argv = ["cp", f"{text}:{text}", "."] if verb == "cp" else argv
        try:
            code = main(argv, transport=transport)
        except SystemExit as ended:
            code = ended.code
        said = capsys.readouterr().err
        assert code in {0, 1, 2}, (verb, said)
        assert not re.search(r"[^\x20-\U0010ffff\n]", said), (verb, said)


def test_a_token_or_key_that_no_request_can_carry(berth):
    for env in (
        {"BERTH_TOKEN": "é训"},
        {"BERTH_TOKEN": "a\nb"},
        {"BERTH_URL": "http://h:port"},
        {"BERTH_URL": "http://é"},
    ):
        done = berth(["ps"], env=env)
        said = complaints(done)
        assert done.returncode == 2, done
        assert len(said.splitlines()) == 1
    assert berth(["submit", "--key", "训", "--", "true"]).returncode == 2
