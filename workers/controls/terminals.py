"""Starts a terminal's shell inside a running part: in the command's own namespaces, walls, account, group and cores.

The agent makes the pty and leaves its name in `terminal.json`; the shim opens it, takes the file away, and forks the shell.
It is a descendant of the shim: it counts in the part's limits and dies with the part. Standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import sys
import termios
from typing import TYPE_CHECKING, Any

from workers.controls.jobenv import job_environment
from workers.controls.spawn import apart_load, end_with, give_way, limit_processes, signals_reset, started
from workers.system.files import BrokenFileError, read_record
from workers.system.procs import show

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn

    from workers.controls.cgroups import Group

ORDER = "terminal.json"
SHELL = "[ -x /bin/bash ] && exec /bin/bash -i; exec /bin/sh -i"
_PTS = re.compile(r"/dev/pts/[0-9]{1,9}", re.ASCII)
_NAMESPACES = ("ipc", "mnt")


def terminal_begin(directory: Path, launch: dict[str, Any], command: int, group: Group | None) -> None:
    """Start the shell that the order asks for; `command` is the process whose view it shares. Never raises OSError."""
    try:
        tty = _taken(directory / ORDER)
    except (OSError, BrokenFileError) as error:
        sys.stderr.write(f"terminal: {error}\n")
        return
    if tty is None:
        return
    try:
        if launch.get("account"):  # else it could not open its terminal by its name
            os.fchown(tty, launch["account"]["uid"], -1)
        parent = os.getpid()
        if os.fork() == 0:
            _child(launch, tty, command, parent, group)
    except OSError as error:
        _say(tty, "process", error)
    finally:
        os.close(tty)


def _taken(order: Path) -> int | None:
    """Open the terminal that the order names, and take the order away; None without an order."""
    try:
        asked = read_record(order, tty=str)
        if asked is None:
            return None
        if not _PTS.fullmatch(asked["tty"]):
            raise BrokenFileError(order, "names no terminal")
        return os.open(asked["tty"], os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    finally:
        order.unlink(missing_ok=True)


def _child(launch: dict[str, Any], tty: int, command: int, parent: int, group: Group | None) -> NoReturn:
    """Do what stands between fork and exec. Never returns."""
    step = "session"
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
        for descriptor in (0, 1, 2):
            os.dup2(tty, descriptor)
        apart = apart_load()
        step = "the job's view of files"
        if launch.get("account") and launch.get("view"):
            _join(command)
        for doing in apart({**launch, "view": None}):
            step = doing
        if os.getppid() != parent:
            os._exit(1)
        step = f"working directory {launch['cwd']}"
        os.chdir(launch["cwd"])
        step = "shell"
        environment = job_environment(launch) | {"TERM": "xterm-256color"}
        argv, environment = started({**launch, "command": SHELL}, environment)
        os.umask(0o022)
        os.execve(argv[0], argv, environment)  # noqa: S606 - it is the job
    except BaseException as error:  # noqa: BLE001 - whoever opened the terminal must hear of any error
        _say(tty, step, error)
    os._exit(127)


def _join(command: int) -> None:
    """Enter the namespaces of the command. Raises OSError, also where the job has moved to a user namespace of its own."""
    own = "/proc/self/ns/user"
    if os.stat(own).st_ino != os.stat(f"/proc/{command}/ns/user").st_ino:  # noqa: PTH116
        raise PermissionError("the command lives in a user namespace that it made itself")
    libc = ctypes.CDLL(None, use_errno=True)
    for name in _NAMESPACES:
        handle = os.open(f"/proc/{command}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            if libc.setns(ctypes.c_int(handle), ctypes.c_int(0)) != 0:
                raise OSError(ctypes.get_errno(), f"setns({name}) failed")
        finally:
            os.close(handle)


def _say(tty: int, step: str, error: BaseException) -> None:
    os.write(tty, f"\r\nThe shell could not be started: {step}: {error}\r\n".encode(errors="replace"))
