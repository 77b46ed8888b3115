"""Starts a terminal's shell inside a running part: in the command's own namespaces, walls, account, group and cores.

The agent makes the pty and a pipe with a name, and leaves both names in `terminal.json`; the shim opens them, takes the file
away, and forks the shell, or the one command that was asked for. It is a descendant of the shim: it counts in the part's
limits and dies with the part. How it ended goes into the pipe. Standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import sys
import termios
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workers.controls.jobenv import job_environment
from workers.controls.logins import Login, account_name, login_open, sshd_of
from workers.controls.spawn import command_of, end_with, give_way, limit_processes, signals_reset
from workers.system.files import BrokenFileError, read_record
from workers.system.procs import show

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

    from workers.controls.cgroups import Group

ORDER = "terminal.json"
SHELL = "[ -x /bin/bash ] && exec /bin/bash -i; exec /bin/sh -i"
PROMPT = """[ -e ~/.bashrc ] || PS1='job-$BERTH_JOB_ID@\\h:\\w\\$ '; unset PROMPT_COMMAND"""
"""Done once, after all that the machine or the image sets: theirs names the account, which often has no name to be found
("I have no name!"), and not the job. A tenant's `.bashrc` sets its own prompt."""
FAILED = 127
"""How a shell that could not be started ends."""


@dataclass(slots=True)
class Order:
    """`tty` and `end`: descriptors, open here. `command`: runs instead of a shell. `plain`: it reads nothing.

    `ssh`: a server of ssh runs instead, and the terminal has only what it complains of.
    """

    tty: int
    end: int
    command: str | None
    plain: bool
    ssh: Login | None


def terminal_begin(
    directory: Path, launch: dict[str, Any], command: int, group: Group | None
) -> tuple[int, int] | None:
    """Start the shell that the order asks for; `command` is the process whose view it shares. Never raises OSError.

    Return its pid and the pipe for `terminal_ended`; None where nothing was started.
    """
    try:
        order = _take_order(directory)
    except (OSError, BrokenFileError) as error:
        sys.stderr.write(f"terminal: {error}\n")
        return None
    if order is None:
        return None
    try:
        if launch.get("account"):  # else it could not open its terminal by its name
            os.fchown(order.tty, launch["account"]["uid"], -1)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _child(launch, order, command, parent, group)
    except OSError as error:
        _say(order.tty, "process", error)
        terminal_ended(order.end, FAILED << 8)
        return None
    finally:
        for descriptor in (order.tty, *(order.ssh.pipes if order.ssh else ())):
            os.close(descriptor)
    return pid, order.end


def terminal_ended(end: int, status: int) -> None:
    """Tell the agent the shell's exit code, 128 and its number for a signal. `status`: as waitpid gives it."""
    code = os.waitstatus_to_exitcode(status)
    try:
        os.write(end, b"%d" % (code if code >= 0 else 128 - code))
    except OSError:  # nobody waits for it any more
        pass
    finally:
        os.close(end)


def _take_order(directory: Path) -> Order | None:
    """Open what the order names, and take the order away; None without an order."""
    order = directory / ORDER
    try:
        asked = read_record(order, tty=str)
        if asked is None:
            return None
        named, command = asked.get("end"), asked.get("command")
        if not re.fullmatch(r"/dev/pts/[0-9]{1,9}", asked["tty"]):
            raise BrokenFileError(order, "names no terminal")
        if not isinstance(named, str) or not re.fullmatch(r"terminal-[0-9]{1,9}\.end", named):
            raise BrokenFileError(order, "names no pipe for its end")
        if not isinstance(command, str | None):
            raise BrokenFileError(order, "has a command that is no text")
        with ExitStack() as opened:
            end = os.open(directory / named, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            opened.callback(os.close, end)
            tty = os.open(asked["tty"], os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            opened.callback(os.close, tty)
            ssh = login_open(directory, asked["ssh"]) if asked.get("ssh") else None
            opened.pop_all()
        return Order(tty, end, command, plain=asked.get("plain") is True, ssh=ssh)
    finally:
        order.unlink(missing_ok=True)


def _child(launch: dict[str, Any], order: Order, command: int, parent: int, group: Group | None) -> NoReturn:
    step, tty = "session", order.tty
    try:
        end_with(parent)
        signals_reset()
        os.setsid()
        fcntl.ioctl(tty, termios.TIOCSCTTY, 0)
        step = "control group and cores"
        if group is not None:
            group.enter()
        os.sched_setaffinity(0, os.sched_getaffinity(command))
        show()
        give_way(launch["nice"])
        limit_processes(launch, group)
        reads = os.open(os.devnull, os.O_RDONLY) if order.plain else tty
        for descriptor, source in enumerate((*(order.ssh.pipes if order.ssh else (reads, tty)), tty)):
            os.dup2(source, descriptor)
        from workers.controls.apart import (
            live_apart,  # here, in the shell's own process, while Berth's files are in view
        )

        step = "the job's view of files"
        if launch.get("account") and launch.get("view"):
            _join(command)
        if order.ssh is not None:
            step = "its account"
            account_name(launch, order.ssh)
        for doing in live_apart({**launch, "view": None}):
            step = doing
        if os.getppid() != parent:
            os._exit(1)
        step = f"working directory {launch['cwd']}"
        os.chdir(launch["cwd"])
        step = "sshd" if order.ssh else "shell"
        argv, environment = _program(launch, order)
        os.umask(0o022)
        os.execve(argv[0], argv, environment)  # noqa: S606 - it is the job
    except BaseException as error:  # noqa: BLE001 - whoever opened the terminal must hear of any error
        _say(tty, step, error, "ssh" if order.ssh else "shell")
    os._exit(FAILED)


def _program(launch: dict[str, Any], order: Order) -> tuple[list[str], dict[str, str]]:
    prompt = {"PROMPT_COMMAND": PROMPT, "PS1": "job-$BERTH_JOB_ID$ "}  # for bash and for a plain `sh`
    environment = prompt | job_environment(launch) | {"TERM": "dumb" if order.plain else "xterm-256color"}
    if order.ssh is not None:
        return sshd_of(launch, order.ssh, environment)
    return command_of({**launch, "command": SHELL if order.command is None else order.command}, environment)


def _join(command: int) -> None:
    """Enter the namespaces of the command. Raises OSError, also where the job has moved to a user namespace of its own."""
    own = "/proc/self/ns/user"
    if os.stat(own).st_ino != os.stat(f"/proc/{command}/ns/user").st_ino:  # noqa: PTH116
        raise PermissionError("the command lives in a user namespace that it made itself")
    libc = ctypes.CDLL(None, use_errno=True)
    for name in ("ipc", "mnt"):
        handle = os.open(f"/proc/{command}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(ctypes.c_int(handle), ctypes.c_int(0)) != 0:
                raise OSError(ctypes.get_errno(), f"setns({name}) failed")
        finally:
            os.close(handle)


def _say(tty: int, step: str, error: BaseException, what: str = "shell") -> None:
    os.write(tty, f"\r\nThe {what} could not be started: {step}: {error}\r\n".encode(errors="replace"))
