"""`berth shell`: a terminal inside a running job from one's own terminal, which is a real pty here; and one command there."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from portal.foundation.layout import SOURCE
from tests.servers import stretched
from tests.system.helpers.client import Tenant, rows
from tests.system.helpers.ledger import alive

pytestmark = [pytest.mark.system, pytest.mark.slow, pytest.mark.xdist_group("shells")]
PATIENCE_S = 60


@pytest.fixture(scope="module")
def berth(berth_shared):
    return berth_shared


@pytest.fixture(scope="module")
def tenant(berth):
    return Tenant(berth)


@pytest.fixture(scope="module")
def job(tenant):
    number = tenant.submit("touch made-by-the-job; sleep 900", name="interactive")
    tenant.wait_state(number, "RUNNING")
    yield number
    tenant.act(number, "cancel")


@pytest.fixture(scope="module")
def environment(berth, tenant, tmp_path_factory):
    own = {"BERTH_URL": berth.url, "BERTH_TOKEN": tenant.token, "TERM": "xterm", "PYTHONPATH": str(SOURCE / "client")}
    return {**os.environ, **own, "BERTH_CONFIG": str(tmp_path_factory.mktemp("own") / "config.ini")}


def argv(number, *more):
    return [sys.executable, "-m", "berth_client", "shell", str(number), *more]


def once(environment, number, *command, **more):
    return subprocess.run(
        argv(number, "--", *command), env=environment, capture_output=True, timeout=stretched(PATIENCE_S), **more
    )


class Own:
    """One's own terminal with `berth shell` in it. What it shows is `shown`."""

    def __init__(self, environment, number, *more, columns=91, rows=33):
        self.shown = b""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(sys.executable, argv(number, *more), environment)
        self.before = termios.tcgetattr(self.master)

    def type(self, text):
        os.write(self.master, text.encode())

    def until(self, pattern):
        deadline = time.monotonic() + stretched(PATIENCE_S)
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < deadline, self.shown
            if select.select([self.master], [], [], 1.0)[0]:
                self.shown += os.read(self.master, 4096)
        return found

    def ended(self):
        """Its exit code; all that it has shown is in `shown` then, and `after` is how it left the terminal."""
        with contextlib.suppress(OSError):  # EIO at the end
            while data := os.read(self.master, 4096):
                self.shown += data
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.after = termios.tcgetattr(self.master)
        return code


def test_a_shell_with_sizes_ctrl_c_and_its_exit_code(berth, environment, job):
    own = Own(environment, job)
    own.type("stty size; ls made-*; echo job-$BERTH_JOB_ID-\n")
    own.until(rb"[\r\n]33 91")
    own.until(rb"[\r\n]made-by-the-job")
    own.until(rf"[\r\n]job-{job}-".encode())
    assert not termios.tcgetattr(own.master)[3] & (termios.ECHO | termios.ICANON | termios.ISIG), "raw meanwhile"
    fcntl.ioctl(own.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    own.type("until stty size | grep -q '40 100'; do sleep 0.1; done; echo re$((40+2))sized\n")
    own.until(rb"[\r\n]re42sized")
    own.type("echo go$((40+2))es; sleep 600\n")
    own.until(rb"[\r\n]go42es")
    time.sleep(1)
    own.type("\x03")
    own.type("echo status-$?-\n")
    own.until(rb"[\r\n]status-130-")
    own.type("echo still-$((40+2))-here; exit 7\n")
    own.until(rb"[\r\n]still-42-here")
    assert own.ended() == 7
    assert own.after == own.before


def again(berth):
    try:
        return berth.request("/healthz")[0] in {200, 503}
    except OSError:
        return False


@pytest.mark.parametrize("way", ["exit", "SIGTERM", "job", "lost"])
def test_the_terminal_is_put_back_however_it_ends(berth, tenant, environment, job, way):
    """The test holds the terminal's other end open, as one's own shell does, and looks at its modes after the end."""
    if way == "job":
        job = tenant.submit("sleep 900", grace_s=3)  # a shell that somebody types in heeds no SIGTERM
        tenant.wait_state(job, "RUNNING")
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    process = subprocess.Popen(argv(job), env=environment, stdin=slave, stdout=slave, stderr=subprocess.PIPE)
    shown = b""
    os.write(master, b"echo ready-$((40+2))-\n")
    while b"ready-42-" not in shown:
        assert select.select([master], [], [], stretched(PATIENCE_S))[0], shown
        shown += os.read(master, 4096)
    assert termios.tcgetattr(slave) != before
    if way == "exit":
        os.write(master, b"exit 3\n")
    elif way == "SIGTERM":
        process.terminate()
    elif way == "lost":
        berth.kill("portal")
        berth.wait(lambda: again(berth), limit_s=90, what="the portal that began again")
    else:
        tenant.act(job, "cancel")
    said = process.communicate(timeout=stretched(PATIENCE_S))[1].decode()
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)
    expected = {"exit": ({3}, ""), "SIGTERM": ({143}, ""), "lost": ({1}, "berth: "), "job": ({1, 129, 137, 143}, "")}
    codes, words = expected[way]
    assert process.returncode in codes, (process.returncode, said)
    assert said.startswith(words)


def test_one_command_and_its_exit_code(environment, job):
    done = once(environment, job, "echo out; echo err >&2; cat; exit 5", input=b"not read")
    assert (done.returncode, done.stdout, done.stderr) == (5, b"out\nerr\n", b"")
    words = once(environment, job, "printf", "%s|", "a b", "$HOME", "'")
    assert (words.returncode, words.stdout) == (0, b"a b|$HOME|'|")
    assert once(environment, job, "kill -9 $$").returncode == 137
    assert once(environment, job, "no-such-program").returncode == 127


def test_all_that_a_command_prints_comes_also_where_it_leaves_something_behind(environment, job):
    done = once(environment, job, "sleep 300 & seq 200000; exit 4")
    assert done.returncode == 4
    assert done.stdout == b"".join(b"%d\n" % number for number in range(1, 200001))


def test_who_reads_slowly_loses_nothing_and_a_closed_pipe_is_no_error(environment, job):
    slow = f"{sys.executable} -m berth_client shell {job} -- 'seq 400000' | (sleep 4; tail -n 1)"
    assert subprocess.run(slow, shell=True, env=environment, capture_output=True, timeout=150).stdout == b"400000\n"
    head = f"{sys.executable} -m berth_client shell {job} -- 'seq 400000' | head -n 1"
    done = subprocess.run(head, shell=True, env=environment, capture_output=True, timeout=150)
    assert (done.stdout, done.stderr) == (b"1\n", b"")


def test_a_command_in_ones_own_terminal_can_be_typed_to(environment, job):
    own = Own(environment, job, "--", "read -r word; echo heard-$word-; exit 6")
    own.type("something\n")
    own.until(rb"[\r\n]heard-something-")
    assert own.ended() == 6


def test_ctrl_c_of_a_plain_command_ends_it_in_the_job(berth, environment, job):
    process = subprocess.Popen(
        argv(job, "--", "echo pid-$$-; exec sleep 600"),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    pid = int(re.match(rb"pid-([0-9]+)-", process.stdout.readline())[1])
    assert alive(pid)
    process.send_signal(signal.SIGINT)
    assert process.wait(stretched(PATIENCE_S)) == 130
    berth.wait(lambda: not alive(pid), what="the end of the command whose terminal is gone")


def test_what_is_refused_is_said(berth, tenant, environment, job):
    def said(number, *more, token=None, stdin=subprocess.DEVNULL):
        own = environment | ({"BERTH_TOKEN": token} if token else {})
        done = subprocess.run(
            argv(number, *more), env=own, stdin=stdin, capture_output=True, text=True, timeout=stretched(PATIENCE_S)
        )
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        return done.returncode, done.stderr

    waits = tenant.submit("true", depends_on=[int(job)])
    foreign = Tenant(berth, "speech-lab") if "speech-lab" in berth.tokens else None
    found = {
        "no terminal": said(job),
        "nothing after --": said(job, "--"),
        "missing": said(987654, "--", "true"),
        "not running": said(waits, "--", "true"),
        "rank": said(job, "--rank", "7", "--", "true"),
        "token": said(job, "--", "true", token="berth_wrong"),
        "long": said(job, "--", "true " + "x" * 3000),
    }
    if foreign:
        found["foreign"] = said(job, "--", "true", token=foreign.token)
    assert {code for code, _ in found.values()} == {2}, found
    words = {
        "no terminal": "a shell needs a terminal",
        "nothing after --": "a shell needs a terminal",
        "missing": "No such job",
        "not running": f"Job {waits} has no running part 0",
        "rank": "no running part 7",
        "token": "unknown or was revoked",
        "long": "more than 2048 bytes",
        "foreign": "No such job",
    }
    assert not {name: text for name, (_, text) in found.items() if words[name] not in text}


def test_the_trail_names_the_session_and_not_the_command(berth, environment, job):
    assert once(environment, job, "echo secret-word").returncode == 0
    trail = rows(berth, "select target, detail from tenants_auditevent where action like 'job.terminal%'")
    assert any(target == f"job:{job}" for target, _ in trail)
    assert "secret-word" not in str(trail)
