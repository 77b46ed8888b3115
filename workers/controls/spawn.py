"""Starts a job's command with its session, cores, descriptors, directory and environment; tells which step failed."""

from __future__ import annotations

import os
import resource
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.controls.cores import cores_map
from workers.controls.jobenv import job_environment
from workers.system.procs import die_with_parent, show

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

    from workers.controls.cgroups import Group
    from workers.controls.joblog import JobLog

AUTOGROUP, AUTOGROUP_TRIES = Path("/proc/self/autogroup"), 10
PROCESSES_SHARE = 0.75
"""The share of the account's process limit that a job may use. The rest is for agent, shims and portal."""


class StartFailedError(Exception):
    """The command could not be started; the text says which step failed and why."""


def command_spawn(launch: dict[str, Any], log: JobLog, group: Group | None = None) -> int:
    """Start `/bin/sh -c COMMAND` as its own session, writing into `log`; return its pid. Raises StartFailedError.

    `group`: in which it begins; its limits and the launch's cores are set already.
    """
    environment = job_environment(launch)
    try:
        outputs = [stream.open() for stream in log.streams]
    except OSError as error:
        raise StartFailedError(f"log files: {error}") from error
    if launch.get("account"):  # else it could not open /dev/stderr by its name
        for output in outputs:
            os.fchown(output, launch["account"]["uid"], -1)
    reader, writer = os.pipe()  # both close at exec: reading nothing means that exec worked
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _child(launch, outputs, environment, writer, parent, group)
    for descriptor in (writer, *outputs):
        os.close(descriptor)
    with os.fdopen(reader, "rb") as file:
        failure = file.read().decode(errors="replace")
    if failure:
        os.waitpid(pid, 0)
        raise StartFailedError(failure)
    return pid


def _child(
    launch: dict[str, Any],
    outputs: list[int],
    environment: dict[str, str],
    writer: int,
    parent: int,
    group: Group | None,
) -> NoReturn:
    step = "its processes' death signal"
    try:
        end_with(parent)
        signals_reset()
        step = "session"
        os.setsid()
        step = "control group"
        if group is not None:
            group.enter()
        step = "cores"
        os.sched_setaffinity(0, cores_map(launch["cores"], sorted(os.sched_getaffinity(0))))
        show()  # undo the shim's `hide`, which fork has copied: while hidden, /proc/self belongs to root
        step = "niceness"
        give_way(launch["nice"])
        step = "number of processes"
        limit_processes(launch, group)
        step = "log"
        for descriptor, source in enumerate((os.open(os.devnull, os.O_RDONLY), *outputs)):
            os.dup2(source, descriptor)
        copy = _copying(launch)
        from workers.controls.apart import live_apart  # here, in the job's own process, while Berth's files are in view

        for doing in live_apart(launch):
            step = doing
        if os.getppid() != parent:  # it ended while nothing watched it
            os._exit(1)
        step = f"working directory {launch.get('copied_from') or launch['cwd']}"
        if copy is not None:
            os.chdir(launch["copied_from"])
            _below(launch.get("code_roots"))
            copy(Path(launch["copied_from"]), Path(launch["cwd"]))
        os.chdir(launch["cwd"])
        if copy is None:
            _below(launch.get("code_roots"))
        step = "container"
        argv, environment = command_of(launch, environment)
        step = argv[0]
        os.umask(0o022)
        os.execve(argv[0], argv, environment)  # noqa: S606 - it is the job
    except BaseException as error:  # noqa: BLE001 - the parent must hear of any error
        os.write(writer, f"{step}: {error}".encode())
    os._exit(127)


def _below(roots: list[str] | None) -> None:
    """Refuse a directory of code that a link leads out of those that the operator opened. It is entered already: no race."""
    here = Path.cwd()
    if roots is not None and not any(here.is_relative_to(os.path.realpath(root)) for root in roots):
        raise PermissionError(
            f"it leads to {here}, which is not below {' or '.join(roots) or 'any directory for code'}"
        )


def command_of(launch: dict[str, Any], environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return the job's program and environment: a shell, here or in a container."""
    if not launch.get("container"):
        return ["/bin/sh", "-c", launch["command"]], environment
    from workers.controls.apart import container_start  # few jobs need it

    return container_start(launch, environment)


def _copying(launch: dict[str, Any]) -> Callable[[Path, Path], None] | None:
    """Return the function that copies the tenant's own directory for a profile; loaded while Berth's files are in view."""
    if not launch.get("copied_from"):
        return None
    from workers.controls.scratch import scratch_copy  # few jobs need it; every shim would hold it

    return scratch_copy


def end_with(parent: int) -> None:
    """Let the command end when its shim is killed. End at once if the shim, process `parent`, is gone already."""
    die_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def signals_reset() -> None:
    signal.set_wakeup_fd(-1)
    for sig in range(1, signal.NSIG):
        if sig not in (signal.SIGKILL, signal.SIGSTOP) and signal.getsignal(sig) is not None:
            signal.signal(sig, signal.SIG_DFL)


def give_way(nice: int) -> None:
    """Set the niceness of the process, and that of its session: with autogroups Linux shares cores between sessions.

    The kernel allows ten changes of autogroups a second on the whole machine; after a refusal this tries again.
    """
    os.nice(nice)
    if not nice or not AUTOGROUP.exists():
        return
    for _ in range(AUTOGROUP_TRIES):
        try:
            AUTOGROUP.write_text(str(nice))
        except BlockingIOError:
            time.sleep(0.11)
        else:
            return


def limit_processes(launch: dict[str, Any], group: Group | None) -> None:
    """Lower the job's limit of processes where no control group holds it. The kernel counts all processes of the account.

    Under the agent's own account this keeps some for Berth; a tenant's account has the limit of one part for all its parts.
    """
    if group is not None and group.home("pids") is not None and launch.get("pids_limit"):
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = hard if hard == resource.RLIM_INFINITY else int(hard * PROCESSES_SHARE)
    if launch.get("account") and launch.get("pids_limit"):
        most = launch["pids_limit"] if most == resource.RLIM_INFINITY else min(most, launch["pids_limit"])
    if most != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NPROC, (most if soft == resource.RLIM_INFINITY else min(soft, most), most))
