"""A process's name: pid, start time and boot id. Another process with the same pid is never taken for it.

An flock lets one supervisor use a data directory; the kernel releases it when its holder dies.
"""

import fcntl
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import psutil

from portal.foundation.alive import MARK
from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout, read_json
from portal.launch.guarded import directory_of

# All processes but agents name their data directory on their command line (`guarded`). The broker, and processes of version
# 0.1, name it in the variable MARK.
# An embedded broker is recognised by its working directory too, because it overwrites its environment with its title.
BROKER_NAMES = ("valkey-server", "redis-server")


@dataclass(frozen=True)
class Identity:
    """One process of one boot. `started` is in the kernel's unit (clock ticks since boot, or seconds)."""

    pid: int
    started: float
    boot_id: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "Identity":
        return cls(pid=int(value["pid"]), started=float(value["started"]), boot_id=str(value["boot_id"]))


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"boot-{psutil.boot_time():.0f}"


def _started(pid: int) -> float | None:
    """Return when the process started; None when it is gone or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
        return _started_elsewhere(pid)
    except ProcessLookupError:
        return None
    return None if fields[0] in "ZX" else float(fields[19])


def _started_elsewhere(pid: int) -> float | None:
    """Return the same without /proc (macOS)."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.NoSuchProcess:
        return None


def identity_of(pid: int) -> Identity | None:
    started = _started(pid)
    return None if started is None else Identity(pid=pid, started=started, boot_id=boot_id())


def is_alive(identity: Identity) -> bool:
    return identity_of(identity.pid) == identity


def _belongs(process: psutil.Process, layout: Layout) -> bool:
    try:
        if process.uids().real != os.getuid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        argv = process.cmdline()
        if directory_of(argv) == str(layout.root) or _is_agent(argv, layout):
            return True
        if process.environ().get(MARK) == str(layout.root):
            return True
        return process.name() in BROKER_NAMES and process.cwd() == str(layout.redis)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False


def _is_agent(argv: list[str], layout: Layout) -> bool:
    """Say whether it is `python -m workers.agent ... --dir DIR/nodes/NAME`, or such a fork. Its shims and jobs are not."""
    if argv[1:4] == ["-m", "workers.nursery", str(layout.nodes)]:
        return True
    if argv[1:3] != ["-m", "workers.agent"] or "--dir" not in argv[:-1]:
        return False
    return Path(argv[argv.index("--dir") + 1]).parent == layout.nodes


def leftovers(layout: Layout) -> list[psutil.Process]:
    """Return the processes that a killed supervisor left here: services and agents, never shims or jobs."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and _belongs(process, layout)]


def end(processes: list[psutil.Process], *, patience_s: float = 8.0) -> None:
    """Send SIGTERM to each, and SIGKILL to those that still live after `patience_s`."""
    for process in processes:
        _signal(process, terminate=True)
    _, stubborn = psutil.wait_procs(processes, timeout=patience_s)
    for process in stubborn:
        _signal(process, terminate=False)
    psutil.wait_procs(stubborn, timeout=patience_s)


def _signal(process: psutil.Process, *, terminate: bool) -> None:
    try:
        if terminate:
            process.terminate()
        else:
            process.kill()
    except psutil.NoSuchProcess:
        return  # it ended by itself: what was wanted


class SupervisorLock:
    """Held from before the first child's start until after the last child's end. Children do not inherit it (PEP 446)."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: IO[str] | None = None

    def acquire(self) -> bool:
        """Take the lock, and write into it who holds it. False when another process holds it."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        file = os.fdopen(descriptor, "r+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return False
        me = identity_of(os.getpid())
        file.truncate(0)
        file.write("" if me is None else f"{me.pid} {me.started} {me.boot_id}\n")
        file.flush()
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def lock_or_refuse(layout: Layout) -> SupervisorLock:
    """Take the lock. Raises LaunchError, with the URL of the Berth that holds it."""
    lock = SupervisorLock(layout.lock)
    if lock.acquire():
        return lock
    state = read_json(layout.state) or {}
    url = state.get("url", "(it is still starting)")
    raise LaunchError(
        f"Berth already runs on {layout.root}: {url}",
        "Open that address in a browser, or stop Berth with `./berth down`.",
    )


def supervisor_state(layout: Layout) -> dict[str, Any] | None:
    """Return the running supervisor's words about itself; None when none runs."""
    state = read_json(layout.state)
    if state is None or not is_alive(Identity.from_dict(state["supervisor"])):
        return None
    return dict(state)
