"""Sets a job apart from the machine between fork and exec: its view of files, the kernel's walls, its tenant's account.

Standard library only: the shim uses it, and the agent tries with it at its start what holds here.
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from workers.system.landlock import Walls
from workers.system.procs import die_with_parent, no_new_rights
from workers.system.seclude import seclude
from workers.system.view import View, enter_view

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1


def live_apart(launch: dict[str, Any]) -> Iterator[str]:
    """Do what the launch asks for, step by step; yields the name of each step before it is done. Raises OSError.

    All of it holds for ever, for this process and all that it starts. Mounts come first, because the walls forbid them,
    and the account last, because it has no right to either.
    """
    account = launch.get("account")
    if account is not None and launch.get("view"):
        yield "its own view of files"
        enter_view(View.from_json(launch["view"]), account["uid"], account["gid"])
    if launch.get("walls"):
        yield "isolation"
        seclude(Walls.from_json(launch["walls"]), launch["landlock"])
    if account is not None:
        yield f"account {account['name']}"
        become(account["uid"], account["gid"])


def become(uid: int, gid: int) -> None:
    """Become this account for ever: no other groups, no way to new rights, none of root's keys. Raises OSError."""
    if uid < 1 or gid < 1:
        raise PermissionError("root is no tenant's account")
    _leave_keyring()
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    no_new_rights()
    die_with_parent()  # a change of account has cleared it


def _leave_keyring() -> None:
    """Take an empty session keyring: the agent's would be inherited, and its holder may read its keys."""
    number = _KEYCTL.get(os.uname().machine)
    if number is not None:
        ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_int(_JOIN_SESSION_KEYRING), None)
