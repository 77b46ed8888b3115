"""The process engine: one shim for each part, on this machine. Files in the part's control directory pass on all messages."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar, get_args

from workers.controls.cgroups import group_find, part_name
from workers.controls.cores import HELD, ORDER
from workers.controls.killing import Traces, leftovers_kill
from workers.controls.partfiles import void_part
from workers.controls.throttles import resctrl_remove
from workers.controls.usage import Usage, usage_read
from workers.protocol.wire import Reason
from workers.system import log
from workers.system.files import BrokenFileError, read_bytes, read_json, read_record, set_aside, write_json
from workers.system.netns import inside
from workers.system.procs import Identity, boot_id
from workers.system.room import is_no_room, write_over

if TYPE_CHECKING:
    from collections.abc import Callable


Life = Literal["absent", "void", "alive", "ended", "lost"]
LAST_WORDS_LIMIT = 2**20
_LARGEST_PID, _LATEST = 2**22, 1e11
TERMINAL = "terminal.json"
_Value = TypeVar("_Value")
_SHIM = Path(__file__).resolve().parent.parent / "shim.py"
_IDENTITY: dict[str, Any] = {"pid": int, "start_ticks": int, "boot_id": str}
_NUMBER, _WHOLE = (int, float), (int, type(None))
_RESULT: dict[str, Any] = {
    "reason": str,
    "detail": str,
    "exit_code": _WHOLE,
    "signal": _WHOLE,
    "pid": _WHOLE,
    "ended_at": _NUMBER,
}


class ProcessEngine:
    """Runs parts whose control directory is prepared. All answers are read from that directory, so any agent may ask.

    A file there that is not as it was written is renamed, and counts as missing; `on_broken` hears of it.
    """

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._boot_id = boot_id()
        self.on_broken: Callable[[BrokenFileError], None] = lambda error: log.error("broken file", reason=str(error))

    def start(self, directory: Path, secrets: bytes = b"", network: int | None = None) -> None:
        """Start the part with its secrets, as the portal sent them; b"": it has none. Calling it again does no harm.

        `network`: a descriptor of the namespace that the part lives in; None: the agent's.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(directory / "shim.log", flags, 0o600), "ab") as output, _in_memory(secrets) as given:
            streams: dict[str, Any] = {"stdin": given, "stdout": output, "stderr": output}
            command = [sys.executable, "-I", "-S", str(_SHIM), str(directory)]

            def started() -> subprocess.Popen[bytes]:
                return subprocess.Popen(command, **streams, env={}, cwd=directory, start_new_session=True)  # noqa: S603 - our own file

            self._children.append(
                inside(network, started)
            )  # so all that it ever starts lives there: job, stages, terminals

    def life(self, directory: Path) -> Life:
        """Return the part's state.

        `absent`: not started. `void`: it never will be. `alive`: its shim runs. `ended`: the shim left a result. `lost`: the
        shim is gone and left none.
        """
        # The result is read last, because a shim writes it before it ends.
        try:
            shim = _identity(directory / "shim.json")
        except BrokenFileError as error:
            self._broken(error)
            return "lost"
        if shim is None:
            return "absent"
        if shim.pid == 0:
            return "void"
        if shim.is_alive():
            return "alive"
        return "ended" if self.result(directory) is not None else "lost"

    def shim(self, directory: Path) -> Identity | None:
        """Return the process that watches the part, alive or not; None before it has started."""
        return self._read(_identity, directory / "shim.json")

    def job(self, directory: Path) -> dict[str, Any] | None:
        """Return the shim's record of the command: `pid, started_at`, and the identities of its log files (`logs`)."""
        return self._read(_job, directory / "job.json")

    def stop(self, directory: Path, *, grace_s: float, detail: str) -> None:
        """Send SIGTERM now and SIGKILL after `grace_s`. 0 kills at once."""
        shim = self.shim(directory)
        try:
            write_json(directory / "stop.json", {"grace_s": grace_s, "detail": detail})
        except OSError as error:
            if shim is None or not is_no_room(error):
                raise
            shim.signal(
                signal.SIGTERM
            )  # without a file it stops with its usual grace; killing at once must wait for room
            return
        if shim is not None:
            shim.signal(signal.SIGUSR1)  # "look now"; without the signal it looks within a second

    def lease(self, directory: Path, *, until: float) -> None:
        """Let the part run until `until` (seconds since boot)."""
        # Not durable: after a power cut the lease would be of an earlier boot, and so be void.
        # Its length and layout never change, so that on a full disk it can be written over.
        write_over(directory / "lease.json", b'{"until":%18.3f, "boot_id": "%s"}' % (until, self._boot_id.encode()))

    def limit(self, directory: Path, *, limit_s: float) -> None:
        """Let the part run for `limit_s` seconds from its start; never fewer than before. Raises OSError."""
        self._order(directory / "limit.json", {"limit_s": limit_s})

    def terminal(self, directory: Path, tty: str, end: str, command: str | None = None, **more: Any) -> None:
        """Order a shell, or `command`, on this terminal inside the running part. One order at a time. Raises OSError.

        `end`: the pipe in `directory` that gets its exit code. `plain=True`: nobody types, so it reads from /dev/null.
        `ssh`: a server of ssh instead, for this `user` and `key`, which speaks by the pipes `in` and `out` in `directory`.
        """
        self._order(directory / TERMINAL, {"tty": tty, "end": end, "command": command, **more})

    def terminal_taken(self, directory: Path) -> bool:
        """Say whether the part has opened the terminal of the last order, or has refused it."""
        return not (directory / TERMINAL).exists()

    def terminal_forget(self, directory: Path) -> None:
        """Take back an order that nobody follows. Raises OSError."""
        (directory / TERMINAL).unlink(missing_ok=True)

    def cores(self, directory: Path, cores: list[int], *, sequence: int, share: float = 1.0) -> None:
        """Order the part onto these declared cores, held back to a share of its present use; 1: not held back.

        Calling it again does no harm. Raises OSError.
        """
        # Not durable: the journal has the order, and after a power cut nothing runs that it could be for.
        self._order(directory / ORDER, {"sequence": sequence, "cores": cores, "share": share})

    def cores_held(self, directory: Path) -> dict[str, Any] | None:
        """Return the last order that holds, `sequence, cores, settled, by`; None before the first.

        `settled` false: the job kept binding itself elsewhere. `by`: the kernel's means, `cpuset2`, `cpuset1`, `affinity`.
        """
        return self._read(
            lambda path: read_record(path, sequence=int, cores=list, settled=bool, by=str), directory / HELD
        )

    def result(self, directory: Path) -> dict[str, Any] | None:
        """Return how it ended: `reason, detail, exit_code, signal, pid, ended_at`; None before that."""
        return self._read(_result, directory / "result.json")

    def usage(self, directory: Path) -> Usage | None:
        return self._read(usage_read, directory / "usage")

    def void(self, directory: Path) -> bool:
        """Close the directory of a part that has not started, so that it never will; False when it has started."""
        return void_part(directory)

    def purge(self, directory: Path, *, mark: str) -> int:
        """Kill what a lost part left behind; return how many processes. `mark`: one of the ways to recognise them."""
        group = group_find(part_name(directory))
        killed = leftovers_kill(self._traces(directory, mark), group)
        group.remove()
        resctrl_remove(part_name(directory))
        return killed

    def abandon(self, directory: Path) -> int:
        """End all processes of a part of which only the directory is known; return how many were killed."""
        shim = self.shim(directory)
        if shim is not None and shim.pid:
            shim.signal(signal.SIGKILL)
        launch = self._read(lambda path: read_record(path, mark=str), directory / "launch.json") or {}
        return self.purge(directory, mark=launch.get("mark", ""))

    def last_words(self, directory: Path) -> str:
        """Return the last output of a shim that did not start."""
        try:
            data = self._read(lambda path: read_bytes(path, limit=LAST_WORDS_LIMIT), directory / "shim.log")
        except OSError as error:
            return str(error)
        return (data or b"").decode(errors="replace")[-500:]

    def reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]

    def _order(self, path: Path, order: dict[str, Any]) -> None:
        """Leave an order for the shim, and let it look now. Raises OSError."""
        write_json(path, order, durable=False)
        shim = self.shim(path.parent)
        if shim is not None and shim.pid:
            shim.signal(signal.SIGUSR1)

    def _traces(self, directory: Path, mark: str) -> Traces:
        """Return the traces of a part's processes. It ignores a missing or broken file."""
        job = self._read(lambda path: read_record(path, **_IDENTITY), directory / "job.json") or {}
        noted = self._read(read_json, directory / "processes") or []
        family = {tuple(n) for n in noted if isinstance(n, list) and len(n) == 2} if isinstance(noted, list) else set()
        pipes = [str(p) for p in job.get("pipes") or []] or [str(directory / name) for name in ("stdout", "stderr")]
        leader = Identity.from_json(job) if job else None
        if leader is not None and leader.boot_id != self._boot_id:
            family = set()
        return Traces(directory, mark, leader, frozenset(pipes), frozenset(family))

    def _read(self, read: Callable[[Path], _Value], path: Path) -> _Value | None:
        try:
            return read(path)
        except BrokenFileError as error:
            self._broken(error)
            return None

    def _broken(self, error: BrokenFileError) -> None:
        """Rename the broken file, so that a person can look into it and no later reader finds it."""
        with contextlib.suppress(OSError):  # it is gone, or we may not rename it
            set_aside(Path(error.path))
        self.on_broken(error)


def _in_memory(data: bytes) -> IO[bytes]:
    """Return a file that holds the data, at its beginning; no disk holds it."""
    if not data:
        return Path(os.devnull).open("rb")
    file = os.fdopen(os.memfd_create("secrets"), "w+b")
    file.write(data)
    file.seek(0)
    return file


def _identity(path: Path) -> Identity | None:
    value = read_record(path, **_IDENTITY)
    if value is None:
        return None
    _check(path, value, {"pid": _LARGEST_PID})
    return Identity.from_json(value)


def _result(path: Path) -> dict[str, Any] | None:
    """Read how it ended, and check the figures: for one bad figure the portal would refuse the whole message."""
    value = read_record(path, **_RESULT)
    if value is None:
        return None
    most = {"exit_code": 255, "signal": 64, "pid": _LARGEST_PID}
    if value["reason"] not in get_args(Reason):
        raise BrokenFileError(path, "has no known 'reason'")
    _check(path, value, most | {"ended_at": _LATEST})
    return value


def _job(path: Path) -> dict[str, Any] | None:
    value = read_record(path, pid=int, started_at=_NUMBER)
    if value is not None:
        _check(path, value, {"pid": _LARGEST_PID, "started_at": _LATEST})
    return value


def _check(path: Path, value: dict[str, Any], most: dict[str, float]) -> None:
    """Raise BrokenFileError when a number is not between 0 and its limit in `most`."""
    for name, limit in most.items():
        if value[name] is not None and not 0 <= value[name] <= limit:
            raise BrokenFileError(path, f"has no proper {name!r}")
