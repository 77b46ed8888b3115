"""Network namespaces: made, found, and entered by a thread that ends there. A socket stays in the one in which it was made."""

from __future__ import annotations

import ctypes
import os
import threading
from typing import TYPE_CHECKING, TypeVar

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
