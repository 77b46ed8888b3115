"""Prepares a part: makes its directories, its files, and `launch.json`, from which the shim starts."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.environments.plan import Plan, PlanError, build_command, fetch_stage, plan_write, software_plan
from workers.environments.tidying import used_mark
from workers.parts.accounts import Account, AccountError, account_of, give
from workers.parts.contents import SpecError, files_write, upload_lay, working_directory
from workers.protocol.names import part_name
from workers.system.files import write_json
from workers.system.gpus import Devices, mps_daemon
from workers.system.trees import tree_remove
from workers.telemetry.simulated import SPEED_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from workers.environments.offer import Offer
    from workers.protocol.wire import Spec, Wanted
    from workers.system.landlock import Walls
    from workers.system.view import View

PROFILE_GRACE_S = 2.0
"""Short, because a profile has nothing to save."""
_FOLDERS = {"job_dir": "work", "tmp_dir": "tmp", "records_dir": "records", "artefacts_dir": "artefacts"}
"""Folders of a part that each run finds empty: their names in `launch.json` and on the disk."""


NO_MPS = "none"


@dataclass(frozen=True, slots=True)
class Rooms:
    """A part's two directories: `control` is the agent's and its shim's, `job` the job's own; `mark` its secret name."""

    control: Path
    job: Path
    mark: str


@dataclass(frozen=True, slots=True)
class Workplace:
    """The node's additions to every launch."""

    storage: Path
    walls: Walls | None
    landlock: int
    virtual: bool
    virtual_pace: float | None
    nice: int
    boot_id: str
    node_grace_s: float
    lease_grace_s: float
    accounts: bool = False  # each tenant's jobs have an account of their own
    view: View | None = None  # of the machine's files, except a part's own; None: they see them all
    pids_limit: int | None = None
    devices: Devices | None = None
    resolv: Path | None = None  # /etc/resolv.conf of a part in its tenant's network; None: the node's
    mps: Path | None = None  # the pipes of the MPS daemon that jobs on one GPU use; None: they take turns
    mps_pipes: Path | None = None  # where a daemon's pipes would lie; None: on a virtual node
    software: Offer | None = None
    programs: Path | None = None  # the folder at the end of each job's PATH
    allocation: bool = False  # a batch system may signal the jobs here, and then their shims


def _walls(place: Workplace, rooms: Rooms, checkpoint_dir: Path, *, seen: bool) -> Walls | None:
    """Return the job's Landlock walls. With a view of its own (`seen`) closed paths are absent, and /tmp is its own."""
    if place.walls is None:
        return None
    own = [rooms.job.resolve(), checkpoint_dir.resolve()]
    return place.walls.behind_view(*own) if seen else place.walls.with_own(*own)


def _view(
    place: Workplace, rooms: Rooms, checkpoint_dir: Path, hidden: list[str], plan: Plan | None, resolv: Path | None
) -> dict[str, Any] | None:
    """Return the job's view of the machine's files; None: it sees them all. A path that a tenant names is never shown."""
    if place.view is None:
        return None
    own = tuple(path.resolve() for path in (rooms.job, checkpoint_dir, *([plan.entry] if plan and plan.entry else [])))
    hides = tuple(map(Path, hidden))
    return replace(place.view, own=own, tmp=own[0] / "tmp", hidden=hides, resolv=resolv).to_json()


def part_plan(spec: Spec, place: Workplace) -> Plan | None:
    """Return how the part's software is made ready; None: it uses the node's. Raises SpecError."""
    if not (software := spec.get("software")):
        return None
    if place.software is None:
        raise SpecError("this node offers no software environments")
    if "image" in software and (spec["working_directory"] or "").startswith("/"):
        raise SpecError(
            "a job in an image works in its own directory: its absolute working directory is not in the image"
        )
    try:
        return software_plan(software, place.software, spec["tenant_id"], spec.get("build_secrets"))
    except PlanError as error:
        raise SpecError(f"its software environment: {error}") from error


def part_environment(spec: Spec, place: Workplace) -> str:
    """Name the environment that the part has built, `tenant-7/HASH`; "" for none. Raises SpecError."""
    plan = part_plan(spec, place)
    return "" if plan is None or plan.entry is None else f"{plan.entry.parent.name}/{plan.entry.name}"


def _software(
    plan: Plan | None, place: Workplace, rooms: Rooms, walls: Walls | None, account: Account | None
) -> dict[str, Any]:
    """Return the software and walls of `launch.json`. The build writes the environment, and the job only reads it."""
    if plan is None or place.software is None:
        return {"walls": walls and walls.to_json()}
    building = walls
    if plan.entry is not None:
        plan.entry.mkdir(parents=True, exist_ok=True, mode=0o700)
        used_mark(place.software.root, f"{plan.entry.parent.name}/{plan.entry.name}")
        entry = plan.entry.resolve()
        if walls is not None:
            building = walls.with_own(*walls.own, entry)
            walls = walls.with_readable(entry)
    room, limits = rooms.job / "software", place.software.limits
    tree_remove(room)
    plan_file = plan_write(plan, room)
    if account is not None:  # the job's account runs the build
        give(room, account)
        if plan.entry is not None:
            give(plan.entry, account)
    build = {
        "argv": build_command(sys.executable, plan_file),
        "limit_s": limits.build_s,
        "disk_mib": limits.one_gib * 1024,
        "entry": plan.entry and str(plan.entry),
        "why": str(room / "why"),
        "walls": building and building.to_json(),
    }
    if plan.image is not None:  # its engine mounts, which the walls refuse: the container takes their place
        container = {"engine": place.software.engine, "image": str(plan.image)}
        return {"walls": None, "build": build, "container": container}
    return {"walls": walls and walls.to_json(), "build": build, "prefix": plan.prefix and str(plan.prefix)}


def _fetch(
    spec: Spec, place: Workplace, rooms: Rooms, walls: Walls | None, account: Account | None
) -> dict[str, Any] | None:
    """Return the stage that fetches the part's repository; None: its code comes otherwise. Raises SpecError."""
    if not (code := spec.get("code")):
        return None
    room = rooms.job / "code"
    tree_remove(room)
    room.mkdir(mode=0o700)
    try:
        stage = fetch_stage(code, place.software, room=room, into=rooms.job / "work", python=sys.executable)
    except PlanError as error:
        raise SpecError(f"its code: {error}") from error
    if account is not None:
        give(room, account)
    return {**stage, "walls": walls and walls.to_json()}


def part_prepare(
    rooms: Rooms, spec: Spec, wanted: Wanted, place: Workplace, lay: Callable[[Spec, Path], None] = lambda *_: None
) -> None:
    """Make everything that the command needs; `lay` its uploads. Called again, it begins anew. Raises SpecError or OSError.

    A profile works only in its part's directory. It sees neither the job's checkpoints nor the tenant's own directory.
    """
    scratch, plan = spec["profile"], part_plan(spec, place)
    account = _account(spec) if place.accounts else None
    checkpoint_dir = rooms.job / "checkpoints" if scratch else place.storage / "checkpoints" / spec["job_key"]
    folders = _folders_make(rooms, checkpoint_dir, scratch=scratch)
    upload_lay(spec, folders["job_dir"], lay)
    files_write(folders["job_dir"], spec["files"])
    cwd = working_directory(folders["job_dir"], spec["working_directory"], account)
    copied_from = None
    if scratch and not cwd.is_relative_to(folders["job_dir"]):
        copied_from, cwd = cwd, rooms.job / "copy"
    if account is not None:
        rooms.job.chmod(0o711)  # it stays root's: the job cannot change the files that are written there for it
        for path in (*folders.values(), checkpoint_dir, rooms.job / "copy"):
            if path.exists():
                give(path, account)
    hidden = place.devices.hidden_from(spec) if place.devices else []
    resolv = place.resolv if len(spec["world"]["nodes"]) < 2 else None
    view = _view(place, rooms, checkpoint_dir, hidden, plan, resolv) if account else None
    walls = _walls(place, rooms, checkpoint_dir, seen=view is not None)
    launch: dict[str, Any] = {
        **{key: value for key, value in spec.items() if key not in {"files", "upload", "software"}},
        **part_name(spec),
        "mark": rooms.mark,
        **{name: str(path) for name, path in (folders | {"checkpoint_dir": checkpoint_dir, "cwd": cwd}).items()},
        "copied_from": str(copied_from) if copied_from else None,
        "cores_file": str(rooms.job / "cores"),
        "speed_file": str(rooms.job / SPEED_FILE) if place.virtual and spec.get("gpu_compute") else None,
        **_software(plan, place, rooms, walls, account),
        "fetch": _fetch(spec, place, rooms, walls, account),
        "account": account.to_json() if account else None,
        "view": view,
        "hidden_devices": hidden,
        "mps": _mps(spec, place),
        **_of_the_node(place, scratch=scratch, grace_s=spec.get("grace_s", place.node_grace_s)),
        "leased": wanted["lease_s"] is not None,
    }
    write_json(rooms.control / "launch.json", launch)


def _mps(spec: Spec, place: Workplace) -> str | None:
    """Return the pipes that the part's programs are to look for an MPS daemon in: none lies in the part's own directory.

    This sets CUDA_MPS_PIPE_DIRECTORY: a job with its GPUs for itself, and one that takes turns, must not end up in the
    daemon of others because its pipes lie where CUDA looks by itself. None: no daemon runs here, and nothing is said.
    """
    if place.mps_pipes is None or not spec["gpus"] or isinstance(mps_daemon(place.mps_pipes), str):
        return None
    return str(place.mps) if place.mps and spec.get("gpu_compute") else NO_MPS


def _account(spec: Spec) -> Account:
    try:
        return account_of(spec)
    except AccountError as error:
        raise SpecError(str(error)) from error


def _folders_make(rooms: Rooms, checkpoint_dir: Path, *, scratch: bool) -> dict[str, Path]:
    """Make the part's folders anew, and the checkpoints' where there is none yet."""
    folders = {name: rooms.job / folder for name, folder in _FOLDERS.items()}
    rooms.job.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in (*folders.values(), *((checkpoint_dir, rooms.job / "copy") if scratch else ())):
        tree_remove(path)
        path.mkdir(mode=0o700)
    checkpoint_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folders


def _of_the_node(place: Workplace, *, scratch: bool, grace_s: float) -> dict[str, Any]:
    """Return the common part of every `launch.json` of this node, and the job's grace; a profile's is shorter."""
    return {
        "landlock": place.landlock,
        "python": sys.executable,
        "virtual": place.virtual,
        "virtual_pace": place.virtual_pace,
        "nice": place.nice,
        "pids_limit": place.pids_limit,
        "boot_id": place.boot_id,
        "grace_s": min(PROFILE_GRACE_S, grace_s) if scratch else grace_s,
        "lease_grace_s": place.lease_grace_s,
        "allocation": place.allocation,
        "programs": place.programs and str(place.programs),
    }
