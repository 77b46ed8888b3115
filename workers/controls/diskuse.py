"""How much disk a part uses: a thread walks over its directories. It takes 2 % of a core, however many files there are.

The walk follows no link, waits for no pipe, and never leaves the part's file system. A dead
network mount blocks the thread, not the shim. Allocated blocks count (a file's holes do not), a file with several names
counts once, and a deleted file counts as long as a process of the job holds it open. Standard library only.
"""

from __future__ import annotations

import _thread
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_MIB = 2**20
_BLOCK = 512
SLICE_S, PAUSE_S = 0.02, 0.98
"""The walk works for the first and rests for the second: 100 000 files take half a minute, a thousand a moment."""
ENTRIES_A_LOOK_AT_THE_CLOCK = 64
DEEPEST = 100
"""Each level takes two descriptors, so what lies deeper cannot be measured."""
MOST_LINKED = 100_000
"""Most files with several names that are remembered. Beyond that, each name counts."""
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class DiskMeter:
    """Sums over `roots`. The shim sets `pids`, the job's processes."""

    used_bytes = 0
    too_deep = False
    stopped = False  # set by the shim: the thread ends soon
    _sum = 0

    def __init__(self, roots: list[Path], limit_mib: int, pids: Iterable[int] = ()) -> None:
        self.roots, self.limit_mib, self.pids = roots, limit_mib, pids
        self._seen: set[tuple[int, int]] = set()

    def start(self) -> None:
        _thread.start_new_thread(self._run, ())  # `threading` would cost each shim more than the thread does

    def _run(self) -> None:
        while not self.stopped:
            for _ in self.walk(pause_s=PAUSE_S):
                if self.stopped:
                    return
            time.sleep(PAUSE_S)

    def over(self) -> str | None:
        """Return why the job has to end; None while it is within its limit."""
        if self.too_deep:
            return f"its directories are nested more than {DEEPEST} deep, and its disk use cannot be measured there"
        used_mib = max(self.used_bytes, self._sum) / _MIB
        if used_mib <= self.limit_mib:
            return None
        return f"it used {used_mib:.0f} MiB of disk; its limit is {self.limit_mib} MiB (disk_gib)"

    def walk(self, *, pause_s: float = 0.0) -> Iterator[None]:
        """Make one whole sum, and set `used_bytes`. Yields and rests after each slice of work."""
        self._sum = 0
        self._seen.clear()
        slice_until = time.monotonic() + SLICE_S
        for count, _ in enumerate(self._steps()):
            if count % ENTRIES_A_LOOK_AT_THE_CLOCK == 0 and time.monotonic() > slice_until:
                yield
                time.sleep(pause_s)
                slice_until = time.monotonic() + SLICE_S
        self.used_bytes = self._sum

    def _steps(self) -> Iterator[None]:
        devices = set()
        for root in self.roots:
            try:
                descriptor = os.open(root, _FLAGS)
            except OSError:  # the job removed it: it holds nothing
                continue
            devices.add(os.fstat(descriptor).st_dev)
            yield from self._below(descriptor)
        for pid in list(self.pids):
            yield from self._held_open(pid, devices)

    def _below(self, root: int) -> Iterator[None]:
        """Walk depth first. The directories above stay open, so that one that is moved meanwhile leads nowhere else."""
        stack = [(root, os.scandir(root))]
        device = os.fstat(root).st_dev
        try:
            while stack:
                descriptor, entries = stack[-1]
                entry = _next(entries)
                if entry is None:
                    entries.close()
                    os.close(descriptor)
                    stack.pop()
                    continue
                below = self._count(entry, descriptor, device)
                if below is not None and len(stack) >= DEEPEST:
                    self.too_deep = True
                    os.close(below)
                elif below is not None:
                    stack.append((below, os.scandir(below)))
                yield
        finally:
            for descriptor, entries in stack:
                entries.close()
                os.close(descriptor)

    def _count(self, entry: os.DirEntry[str], above: int, device: int) -> int | None:
        """Add one entry; return a descriptor when it is a directory to go into."""
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:  # deleted since
            return None
        if found.st_dev != device:  # another file system, mounted here
            return None
        self._add(found)
        return _open_below(entry.name, above) if stat.S_ISDIR(found.st_mode) else None

    def _add(self, found: os.stat_result) -> None:
        if found.st_nlink != 1 and not stat.S_ISDIR(found.st_mode):
            key = (found.st_dev, found.st_ino)
            if key in self._seen:
                return
            if len(self._seen) < MOST_LINKED:
                self._seen.add(key)
        self._sum += found.st_blocks * _BLOCK

    def _held_open(self, pid: int, devices: set[int]) -> Iterator[None]:
        """Add the deleted files that a process still holds open: they take room too."""
        try:
            names = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - names only, and often
        except OSError:  # it has ended
            return
        for name in names:
            try:
                found = os.stat(f"/proc/{pid}/fd/{name}")  # noqa: PTH116 - as above
            except OSError:
                continue
            if found.st_nlink == 0 and stat.S_ISREG(found.st_mode) and found.st_dev in devices:
                self._add(found)
            yield


def _next(entries: Any) -> os.DirEntry[str] | None:
    try:
        return next(entries, None)
    except OSError:  # the directory was removed while it was read
        return None


def _open_below(name: str, above: int) -> int | None:
    """Open a directory, first making it readable if the job had forbidden that; None when it cannot be opened."""
    try:
        return os.open(name, _FLAGS, dir_fd=above)
    except PermissionError:
        pass
    except OSError:
        return None
    try:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        try:
            os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - of the very directory that was opened
        finally:
            os.close(handle)
        return os.open(name, _FLAGS, dir_fd=above)
    except OSError:
        return None


def disk_meter(launch: dict[str, Any], directory: Path) -> DiskMeter | None:
    """Return the meter of a launch; None when it has no limit.

    It sums over all that lies beside the job's directory, the logs (in `directory`), and the checkpoints.
    """
    if launch.get("disk_mib") is None:
        return None
    roots: list[Path] = []
    for path in (Path(launch["job_dir"]).parent, directory, Path(launch["checkpoint_dir"])):
        if not any(path.is_relative_to(root) for root in roots):
            roots.append(path)
    return DiskMeter(roots, int(launch["disk_mib"]))


def taken_too_much(launch: dict[str, Any]) -> tuple[Path, ...]:
    """Return the folders to remove first after a job has filled the disk; its checkpoints stay."""
    return Path(launch["job_dir"]), Path(launch["tmp_dir"])
