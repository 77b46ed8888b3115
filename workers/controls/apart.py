"""Sets a job apart from the machine between fork and exec: by its view of files, the kernel's walls and its tenant's account.

Or in a container: by the command line and the environment of Apptainer, by its manual (apptainer-exec(1)). The engine gets none
of the tenant's variables as its own, for many of them are options of it (`APPTAINER_BIND` and others): each goes in by the
prefix that says "inside". Of the machine's files the job sees what is bound here and nothing else.

Standard library only: the shim uses it, and the agent tries with it at its start what holds here.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.system.landlock import Walls, seclude
from workers.system.procs import die_with_parent, no_new_rights
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


INSIDE = "APPTAINERENV_"
OUTSIDE_ONLY = ("PATH", "BERTH_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX")
"""Variables that name programs of the node, which are not in the image. The image has a PATH of its own."""
APPENDED = f"{INSIDE}APPEND_PATH"
"""The engine appends this to the image's PATH: the node's folder with `python`, for an image that has only `python3`."""


def container_start(launch: dict[str, Any], environment: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return what to execute, and with which environment. `environment`: the job's own, by `job_environment`.

    Raises ValueError for a path that Apptainer would read as several.
    """
    container = launch["container"]
    argv = [container["engine"], "exec", "--userns", "--containall", "--no-eval"]
    argv += ["--home", launch["job_dir"], "--pwd", launch["cwd"], "--workdir", launch["tmp_dir"]]
    for path, mode in _bound(launch, environment):
        if "," in path or ":" in path:
            raise ValueError(f"{path} cannot be shown in an image: there is a comma or colon in it")
        argv += ["--bind", f"{path}:{path}:{mode}"]
    if launch["gpus"] and not launch["virtual"]:
        argv.append("--nv")
    inside = {f"{INSIDE}{name}": value for name, value in environment.items() if name not in OUTSIDE_ONLY}
    if programs := launch.get("programs"):
        inside[APPENDED] = ":".join(filter(None, [inside.get(APPENDED), programs]))
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    own = {"PATH": path, "HOME": launch["job_dir"], "TMPDIR": launch["tmp_dir"], "LANG": "C.UTF-8"}  # of the engine
    return [*argv, container["image"], "/bin/sh", "-c", launch["command"]], own | inside


def _bound(launch: dict[str, Any], environment: dict[str, str]) -> list[tuple[str, str]]:
    """Return the mounts beside the image: the part's directory, and in it the job's writable ones."""
    above = str(Path(launch["job_dir"]).parent)  # whole: a file in it, as that of its cores, is replaced now and then
    names = ("job_dir", "tmp_dir", "records_dir", "artefacts_dir", "checkpoint_dir")
    own = [launch[name] for name in names if name in launch]
    programs = filter(None, [environment["BERTH_INSTRUMENT_PATH"], launch.get("programs")])
    return [(above, "ro"), *((path, "rw") for path in own), *((path, "ro") for path in programs)]
