"""Which account a tenant's jobs have on this node, and giving files to it without following a link.

The tenant's `unix_account` where the node has it; else a number of the tenant's own, which needs no entry anywhere. Never
root, a system account, the agent's own account, or a number that is somebody else's here.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from workers.protocol.wire import Spec

BASE = 200_000
"""Tenant 7 without an account of a name is 200007."""
DEEPEST = 100
LEAST, NOBODY, LARGEST = 1000, 65534, 2**31 - 1
NOBODYS = (BASE, LARGEST)
"""No tenant has these: the trials at the agent's start use them."""
USERS_GROUP = 100
"""Debian's group of all people: the one group below LEAST that is harmless."""
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class AccountError(Exception):
    """The tenant's jobs have no account here. The text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """An account of this machine."""

    uid: int
    gid: int
    name: str

    def to_json(self) -> dict[str, Any]:
        return {"uid": self.uid, "gid": self.gid, "name": self.name}


def account_of(spec: Spec) -> Account:
    name = spec.get("unix_account")
    if name:
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            pass
        else:
            return _check(Account(found.pw_uid, found.pw_gid, found.pw_name), spec)
    try:
        uid = BASE + int(spec["tenant_id"])
    except ValueError as error:
        raise AccountError(f"tenant {spec['tenant']} has no number that an account could be made of") from error
    try:
        holder = pwd.getpwuid(uid).pw_name
    except KeyError:
        return _check(Account(uid, uid, str(uid)), spec)
    raise AccountError(
        f"tenant {spec['tenant']} would run as account number {uid}, which is {holder}'s on this node; "
        "give the tenant an account of this node (unix_account)"
    )


def _check(account: Account, spec: Spec) -> Account:
    why = None
    if not LEAST <= account.uid <= LARGEST or account.uid == NOBODY:
        why = f"its number, {account.uid}, is that of root or a system account"
    elif not LEAST <= account.gid <= LARGEST and account.gid != USERS_GROUP:
        why = f"its group, {account.gid}, is a system group"
    elif account.uid in {os.getuid(), os.geteuid()}:
        why = "it is the agent's own"
    if why:
        raise AccountError(f"tenant {spec['tenant']} may not run as {account.name}: {why}")
    return account


def give(path: Path, account: Account) -> None:
    """Give a directory that is root's, and all below it that has the same owner, to the account. Raises OSError.

    A job may have written into these directories: no link is followed. A file with more than one name is left as
    it is: the other name may be somebody else's. Files of the account itself are not looked into.
    """
    root = os.open(path, _FLAGS)
    try:
        before = os.fstat(root).st_uid
        if before == account.uid:
            return
        _give_below(root, before, account)
        os.fchown(root, account.uid, account.gid)  # last: after a kill in between it begins anew
    finally:
        os.close(root)


def _give_below(directory: int, before: int, account: Account, depth: int = 0) -> None:
    if depth > DEEPEST:
        raise OSError(errno.ELOOP, f"directories of the job are nested more than {DEEPEST} deep")
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            about = os.fstat(handle)
            if stat.S_ISDIR(about.st_mode):
                below = os.open(name, _FLAGS, dir_fd=directory)
                try:
                    _give_below(below, before, account, depth + 1)
                finally:
                    os.close(below)
            is_sole_file = stat.S_ISREG(about.st_mode) and about.st_nlink == 1
            if about.st_uid == before and (stat.S_ISDIR(about.st_mode) or is_sole_file):
                os.chown(f"/proc/self/fd/{handle}", account.uid, account.gid)  # of the very file that was looked at
        finally:
            os.close(handle)
