"""A job's own view of the machine's files, by a mount namespace: others' files are not there at all. It needs root.

In a covered directory the job sees only what is shown there, at the usual path. `/tmp`, `/var/tmp` and `/dev/shm` are its
own, shared memory and message queues too, and /proc shows only its own processes. The kernel takes all of it down with
the last process of the job: no mount can remain after any kill. Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.system.landlock import TEMPORARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NEWNS, _NEWIPC = 0x00020000, 0x08000000
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _SLAVE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 19
_DETACH = 2
RESOLV = Path("/etc/resolv.conf")
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108


@dataclass(frozen=True, slots=True)
class View:
    """Absolute paths, without links.

    `covered`: directories in which the job sees only shown paths. `own`: its own directories. `program`: files that it
    needs to run, shown where it can reach them. `tmp`: its /tmp. `hidden`: device files that it may not open. `resolv`:
    its /etc/resolv.conf; None: the machine's.
    """

    covered: tuple[Path, ...]
    program: tuple[Path, ...]
    own: tuple[Path, ...] = ()
    tmp: Path = Path("/")
    hidden: tuple[Path, ...] = ()
    resolv: Path | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> View:
        lists = {name: tuple(map(Path, value[name])) for name in ("covered", "own", "program", "hidden")}
        resolv = value.get("resolv")  # an agent from before an upgrade does not say
        return cls(tmp=Path(value["tmp"]), resolv=Path(resolv) if resolv else None, **lists)

    def to_json(self) -> dict[str, Any]:
        lists = {name: [str(p) for p in getattr(self, name)] for name in ("covered", "own", "program", "hidden")}
        return {**lists, "tmp": str(self.tmp), "resolv": self.resolv and str(self.resolv)}


def covers(directories: Iterable[Path], shown: Iterable[Path]) -> list[Path]:
    """Return which directories to cover, in this order: those that no other covers, and those inside what is shown."""
    seen, kept = sorted(shown), list[Path]()
    for path in sorted(set(directories)):
        outer = [above for above in kept if path.is_relative_to(above)]
        if all(any(path.is_relative_to(s) and s.is_relative_to(above) for s in seen) for above in outer):
            kept.append(path)
    return kept


def shown_in(cover: Path, shown: Iterable[Path]) -> Iterator[Path]:
    """Yield the paths to show inside a cover, without those inside another shown path."""
    inside = [path for path in sorted(shown) if path.is_relative_to(cover) and path != cover]
    for path in inside:
        if not any(path != above and path.is_relative_to(above) for above in inside):
            yield path


def unreachable(paths: Iterable[Path], uid: int, gid: int) -> set[Path]:
    """Return the directories on the way to `paths` that bar this account. Drops all groups; the caller is root."""
    os.setgroups([])
    os.setegid(gid)
    os.seteuid(uid)
    try:
        return {barred for path in paths if (barred := _find_bar(path)) is not None}
    finally:
        os.seteuid(0)
        os.setegid(0)


def _find_bar(path: Path) -> Path | None:
    for step in (*reversed(path.parents), path):
        try:
            os.stat(step)  # noqa: PTH116 - the shim does without pathlib where it can
        except PermissionError:
            return step.parent
        except OSError:  # it does not exist
            return None
    return None


def enter_view(view: View, uid: int, gid: int) -> None:
    """Let this process and all that it starts see the files of the view. Raises OSError; then part of it may hold."""
    barred = unreachable(view.program, uid, gid)
    _call("unshare", ctypes.c_int(_NEWNS | _NEWIPC))
    _mount(None, Path("/"), None, _REC | _SLAVE)  # later mounts of the machine are seen; nothing gets out
    shown = [path for path in (*view.own, *view.program) if path.exists()]
    temporary = [path for path in TEMPORARY if path.is_dir() and not path.is_symlink()]
    if view.resolv is not None and view.resolv.exists():
        _mount(str(view.resolv), RESOLV.resolve(), None, _BIND)
    directories = [path for path in (*view.covered, *barred) if path.is_dir()]
    handles = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in {*shown, view.tmp}}
    for cover in covers([*directories, *temporary], shown):
        if cover in temporary:
            _bind(handles[view.tmp], cover)
        else:
            _mount("tmpfs", cover, "tmpfs", _NOSUID | _NODEV, "mode=0755,size=1m")
        for path in shown_in(cover, shown):
            path.mkdir(parents=True, exist_ok=True)
            _bind(handles[path], path)
        if cover not in temporary:
            _mount(None, cover, None, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)
    for handle in handles.values():
        os.close(handle)
    if _SHARED_MEMORY.is_dir() and not _SHARED_MEMORY.is_symlink():
        _mount("tmpfs", _SHARED_MEMORY, "tmpfs", _NOSUID | _NODEV, "mode=1777")
    _hide(view.hidden)
    with contextlib.suppress(OSError):  # Linux before 5.8 would change everybody's /proc: not there
        _mount("proc", Path("/proc"), "proc", _NOSUID | _NODEV | _NOEXEC, "hidepid=invisible")


def files_replace(contents: dict[Path, str]) -> None:
    """Lay these contents over files, for this process and all that it starts. Needs root. Raises OSError."""
    _call("unshare", ctypes.c_int(_NEWNS))
    _mount(None, Path("/"), None, _REC | _SLAVE)
    room = next(path for path in map(Path, ("/mnt", "/srv", "/opt", "/home")) if path.is_dir())
    _mount("tmpfs", room, "tmpfs", _NOSUID | _NODEV, "mode=0755,size=4m")
    for number, (path, text) in enumerate(contents.items()):
        (room / str(number)).write_text(text, errors="surrogateescape")
        (room / str(number)).chmod(0o644)
        _mount(str(room / str(number)), path, None, _BIND)
    _call("umount2", str(room).encode(), ctypes.c_int(_DETACH))


def _hide(devices: Iterable[Path]) -> None:
    """Put an empty file that nobody may open over each device file."""
    there = [path for path in devices if path.exists()]
    if not there:
        return
    closed = _SHARED_MEMORY / ".berth-closed"
    os.close(os.open(closed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0))
    for path in there:
        _mount(str(closed), path, None, _BIND)
    closed.unlink()


def _bind(handle: int, target: Path) -> None:
    _mount(f"/proc/self/fd/{handle}", target, None, _BIND | _REC)


def _mount(source: str | None, target: Path, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [None if word is None else word.encode() for word in (source, str(target), kind)]
    options = None if data is None else data.encode()
    try:
        _call("mount", *words, ctypes.c_ulong(flags), options)
    except OSError as error:
        raise OSError(error.errno, f"mount on {target}: {os.strerror(error.errno or 0)}") from error


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
