"""Network namespaces, and the ports that processes listen on in them. A socket stays in the namespace in which it was made."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from workers.system.procs import Tree

if TYPE_CHECKING:
    from collections.abc import Callable

_Value = TypeVar("_Value")

_NEWNET = 0x40000000
_FLAGS = os.O_RDONLY | os.O_CLOEXEC


def namespace_make() -> int:
    """Make one and return a descriptor that holds it: it ends with the last process and descriptor. Raises OSError."""

    def made() -> int:
        _call("unshare", ctypes.c_int(_NEWNET))
        return os.open("/proc/thread-self/ns/net", _FLAGS)

    return _in_a_thread(made)


def namespace_of(pid: int) -> int | None:
    """Return a descriptor of a process's namespace; None: it is this process's own. Raises OSError.

    A process that may not look cannot make namespaces either, so it is its own.
    """
    try:
        theirs = os.open(f"/proc/{pid}/ns/net", _FLAGS)
    except PermissionError:
        return None
    if os.fstat(theirs).st_ino != os.stat("/proc/self/ns/net").st_ino:  # noqa: PTH116 - beside fstat
        return theirs
    os.close(theirs)
    return None


def inside(namespace: int | None, act: Callable[[], _Value]) -> _Value:
    """Return or raise what `act` does in there; None: here. Processes that it starts are born there. Raises OSError."""
    if namespace is None:
        return act()

    def enter() -> _Value:
        _call("setns", ctypes.c_int(namespace), ctypes.c_int(_NEWNET))
        return act()

    return _in_a_thread(enter)


def _in_a_thread(act: Callable[[], _Value]) -> _Value:
    """Run it in a thread that ends afterwards: no other work is ever done by one that has left its namespace."""
    done: list[_Value] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(act())
        except BaseException as error:  # noqa: BLE001 - raised again below
            failed.append(error)

    thread = threading.Thread(target=run, name="namespace")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return done[0]


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")


MOST_DESCRIPTORS = 50_000
"""Most open files of a job that are looked at; a port behind more files is not found."""
_ANY = {"0.0.0.0": ("127.0.0.1",), "::": ("::1", "127.0.0.1")}  # noqa: S104 - where such a socket is reached


@dataclass(frozen=True, slots=True)
class Listener:
    """`inode`: names the socket, and no other one later on while it is open. `hosts`: addresses to try, in this order."""

    inode: int
    port: int
    hosts: tuple[str, ...]


def listeners(pid: int) -> dict[int, Listener]:
    """Return every TCP socket that listens in the network of a process, by inode."""
    found = {}
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with (
            suppress(FileNotFoundError),
            Path(f"/proc/{pid}/net", table).open(encoding="ascii") as file,
        ):  # perhaps no IPv6
            next(file, None)
            for line in file:
                fields = line.split()
                if fields[3] == "0A":
                    host, _, port = fields[1].partition(":")
                    address = _address(host, family)
                    inode = int(fields[9])
                    found[inode] = Listener(inode, int(port, 16), _ANY.get(address, (address,)))
    return found


def listeners_of(subreaper: int) -> list[Listener]:
    """Return the ports that the living descendants of a process listen on, lowest first. Raises OSError."""
    everywhere = listeners(subreaper)
    inodes: set[int] = set()
    looked = 0
    for process in Tree(subreaper).scan(full=True):
        names = _descriptors(process.pid)
        looked += len(names)
        if looked > MOST_DESCRIPTORS:
            break
        inodes |= {inode for name in names if (inode := _socket(process.pid, name)) is not None}
    return sorted((everywhere[inode] for inode in inodes & everywhere.keys()), key=lambda each: (each.port, each.inode))


def still_listens(listener: Listener, pid: int) -> bool:
    """Say whether it is that very socket that has the port now, in the network of a process. Raises OSError."""
    now = listeners(pid).get(listener.inode)
    return now is not None and now.port == listener.port


def _address(text: str, family: socket.AddressFamily) -> str:
    """Return an address as /proc writes it: words of 32 bits, each in the machine's own order."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))


def _descriptors(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208 - names only
    except OSError:  # it has ended, or hides from this account
        return []


def _socket(pid: int, name: str) -> int | None:
    try:
        target = os.readlink(f"/proc/{pid}/fd/{name}")  # noqa: PTH115 - many thousand times
    except OSError:  # it is closed meanwhile
        return None
    return int(target[8:-1]) if target.startswith("socket:[") else None
