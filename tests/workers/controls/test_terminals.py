"""A terminal's shell under a shim: what it sees is what the job sees, it is the job's, and no order does harm to the job."""

from __future__ import annotations

import os
import re
import select
import time
from pathlib import Path

import pytest

from tests.workers.conftest import wait_until
from tests.workers.controls.test_gpu_devices import program_of, shim  # noqa: F401 - the fixture
from tests.workers.controls.test_shim import ShimRun
from workers.system.files import write_json
from workers.system.procs import stat
from workers.system.view import View


class Pty:
    def __init__(self, shim: ShimRun, command: str | None = None, *, plain: bool = False) -> None:  # noqa: F811
        self.shim, self.shown = shim, b""
        self.master, slave = os.openpty()
        os.mkfifo(path := shim.directory / "terminal-1.end")
        self.end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        shim.engine.terminal(shim.directory, os.ttyname(slave), path.name, command, plain=plain)
        wait_until(lambda: shim.engine.terminal_taken(shim.directory))
        os.close(slave)
        path.unlink()

    def ended(self) -> bytes:
        """What the shim says of its end; all that it has shown is in `shown`."""
        told = b""
        while piece := self._read(self.end, 16):
            told += piece
        while piece := self._read(self.master, 4096):
            self.shown += piece
        return told

    @staticmethod
    def _read(descriptor: int, size: int) -> bytes:
        assert select.select([descriptor], [], [], 60)[0]
        try:
            return os.read(descriptor, size)
        except OSError:  # the terminal's last holder has gone
            return b""

    def ask(self, command: str, pattern: bytes) -> bytes:
        os.write(self.master, f"{command}\n".encode())
        end = time.monotonic() + 60
        while not (found := re.search(pattern, self.shown)):
            assert time.monotonic() < end, self.shown
            if select.select([self.master], [], [], 1.0)[0]:
                self.shown += os.read(self.master, 4096)
        return found[1]


def begun(shim: ShimRun, **more) -> ShimRun:  # noqa: F811
    shim.prepare(command="touch made; sleep 300", **more).start()
    wait_until(lambda: shim.engine.job(shim.directory) is not None)
    return shim


def test_the_shell_is_the_jobs_and_ends_with_it(shim):  # noqa: F811
    begun(shim, environment={"MINE": "forty-two"})
    pty = Pty(shim)
    pid = int(pty.ask("echo pid-$$-", rb"pid-(\d+)-"))
    assert pty.ask("echo mine-$MINE-$BERTH_EPOCH-; ls", rb"mine-(forty-two-2)-")
    pty.ask("ls m*e", rb"(made)\r")
    seen, shim_pid = stat(pid), shim.engine.shim(shim.directory).pid
    assert seen.ppid == shim_pid
    assert os.sched_getaffinity(pid) == os.sched_getaffinity(shim.engine.job(shim.directory)["pid"])
    shim.engine.stop(shim.directory, grace_s=0.5, detail="enough")
    assert shim.result()["reason"] == "stopped"
    assert stat(pid) is None


def test_a_closed_terminal_hangs_the_shell_up_and_the_job_runs_on(shim):  # noqa: F811
    begun(shim)
    pty = Pty(shim)
    pid = int(pty.ask("echo pid-$$-", rb"pid-(\d+)-"))
    os.close(pty.master)
    wait_until(lambda: stat(pid) is None)
    assert shim.engine.life(shim.directory) == "alive"
    assert Pty(shim).ask("echo more-$((40+2))-", rb"more-(42)-")


@pytest.mark.parametrize(
    ("command", "code"), [("exit 0", b"0"), ("exit 7", b"7"), ("kill -9 $$", b"137"), ("no-such-program", b"127")]
)
def test_one_command_and_how_it_ends(shim, command, code):  # noqa: F811
    begun(shim)
    pty = Pty(shim, f"echo seen-$BERTH_EPOCH; {command}")
    assert pty.ended() == code
    assert b"seen-2\r\n" in pty.shown
    assert shim.engine.life(shim.directory) == "alive"


def test_a_plain_command_has_nothing_to_read_and_its_shell_is_no_interactive_one(shim):  # noqa: F811
    begun(shim)
    pty = Pty(shim, "cat; echo $TERM-$-", plain=True)
    assert pty.ended() == b"0"
    assert re.search(rb"dumb-[^i]*\r\n", pty.shown)


def test_a_directory_that_is_gone_ends_with_127_and_says_so(shim):  # noqa: F811
    begun(shim)
    shim.job.rename(shim.job.with_name("gone"))
    pty = Pty(shim, "true")
    assert pty.ended() == b"127"
    assert b"The shell could not be started: working directory" in pty.shown


@pytest.mark.parametrize("tty", ["/etc/passwd", "/dev/pts/../../etc/passwd", "/dev/pts/999999", "", 5, None])
def test_an_order_that_names_no_terminal_is_taken_away_and_does_nothing(shim, tty):  # noqa: F811
    begun(shim)
    write_json(shim.directory / "terminal.json", {"tty": tty, "end": "terminal-9.end"})
    wait_until(lambda: shim.engine.terminal_taken(shim.directory))
    assert shim.engine.life(shim.directory) == "alive"
    assert Pty(shim).ask("echo more-$((40+2))-", rb"more-(42)-")


@pytest.mark.parametrize("end", ["../terminal-1.end", "lease.json", "", 5, None, "terminal-7.end"])
def test_an_order_that_names_no_pipe_of_its_own_does_nothing(shim, end):  # noqa: F811
    begun(shim)
    master, slave = os.openpty()
    write_json(shim.directory / "terminal.json", {"tty": os.ttyname(slave), "end": end})
    wait_until(lambda: shim.engine.terminal_taken(shim.directory))
    for descriptor in (master, slave):
        os.close(descriptor)
    assert shim.engine.life(shim.directory) == "alive"
    assert Pty(shim).ask("echo more-$((40+2))-", rb"more-(42)-")


def test_the_prompt_names_the_job_unless_the_job_brings_its_own(shim):  # noqa: F811
    begun(shim)
    host = os.uname().nodename.partition(".")[0].encode()
    assert Pty(shim).ask("true", rb"(job-9)@" + host + rb":~[$#] ")
    assert Pty(shim).ask("echo \"PS1='mine> '\" > ~/.bashrc; echo d$((1+1))ne", rb"(d2ne)")
    assert Pty(shim).ask("true", rb"(mine)> ")


@pytest.mark.skipif(os.geteuid() != 0, reason="SKIPPED LOUDLY: only root can start jobs under other accounts")
def test_under_a_tenants_account_it_enters_the_jobs_own_view(shim):  # noqa: F811
    """The job's /tmp, its mount and IPC namespaces, its account, and no way to new rights."""
    begun(shim, view=View((shim.root,), program_of(shim.root)), accounts=True)
    job = shim.engine.job(shim.directory)["pid"]
    wait_until(lambda: Path(f"/proc/{job}").stat().st_uid != 0)
    pty = Pty(shim)
    pid = int(pty.ask("echo pid-$$-", rb"pid-(\d+)-"))
    for name in ("mnt", "ipc"):
        shell, job_s, ours = (Path(f"/proc/{each}/ns/{name}").readlink() for each in (pid, job, "self"))
        assert shell == job_s != ours
    assert Path(f"/proc/{pid}/cgroup").read_text() == Path(f"/proc/{job}/cgroup").read_text()
    both = [
        re.findall(
            r"^(?:Uid|Gid|Groups|NoNewPrivs|Seccomp|CapEff):.*", Path(f"/proc/{each}/status").read_text(), re.MULTILINE
        )
        for each in (pid, job)
    ]
    assert both[0] == both[1]
    assert "NoNewPrivs:\t1" in both[0]
    assert pty.ask("true", rb"(job-9)@")
    assert b"no name" not in pty.shown
