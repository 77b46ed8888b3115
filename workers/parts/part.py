"""The record of one part, and reading it again from its file."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from workers.protocol.names import part_key
from workers.system.files import BrokenFileError, read_record

if TYPE_CHECKING:
    from pathlib import Path

    from workers.protocol.wire import PartName, Report

Phase = Literal["claimed", "prepared", "starting", "running", "ended", "closed"]
LIVE: frozenset[str] = frozenset({"claimed", "prepared", "starting", "running"})


@dataclass(slots=True)
class Part:
    attempt: str
    epoch: int
    rank: int
    job: int | str
    boot_id: str
    job_key: str = ""
    phase: Phase = "claimed"
    lease_s: float | None = None
    gpus: list[int] = field(default_factory=list)
    # Declared cores that it has. The last order is `cores_order`, `{"sequence", "cores", "share"}`, and
    # `cores_sequence` the order that holds; they differ until the shim has followed.
    cores: list[int] = field(default_factory=list)
    cores_order: dict[str, Any] | None = None
    cores_sequence: int = 0
    # Of a virtual node's job: how its virtual GPUs answer to its cores.
    response: list[float] = field(default_factory=list)
    # And its traffic of the virtual memory (`telemetry.simulated`).
    traffic: list[float] = field(default_factory=list)
    # And its use of a virtual GPU (`telemetry.simulated`).
    gpu_use: list[float] = field(default_factory=list)
    # Its memory grant on each GPU that it shares; None: no limit. And why it was ended for taking more.
    gpu_memory_mib: int | None = None
    gpu_over: str = ""
    sequence: int = 0
    reports: list[Report] = field(default_factory=list)
    # The portal has closed it: nothing more about it is reported.
    dropped: bool = False
    offsets: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})
    logs_done: bool = False
    # The report of its end. It is kept, because a portal that was restored from a backup asks for it again.
    end: dict[str, Any] | None = None
    closed_at: float | None = None
    # A secret word in the environment of all its processes.
    mark: str = ""
    # The environment that was built for it, `tenant-7/HASH`: kept while the part lives. Empty: none.
    environment: str = ""
    # Its files to keep, `{"patterns", "files"}` as the portal says, patterns from the folder
    # `artefacts_from` of the job's own directory on. None: nothing is (a profile, or an older portal).
    artefacts: dict[str, Any] | None = None
    artefacts_from: str = ""
    artefacts_done: bool = False
    # It has secrets, which the portal is asked for when its shim starts. They are kept nowhere.
    secrets: bool = False
    # When agents ended by an error in handling it, the last times, in Unix seconds (`workers.parts.problems`).
    faults: list[float] = field(default_factory=list)

    @property
    def name(self) -> PartName:
        return {"attempt": self.attempt, "epoch": self.epoch, "rank": self.rank}

    @property
    def key(self) -> str:
        return part_key(self.name)

    @property
    def live(self) -> bool:
        return self.phase in LIVE


_KINDS: dict[str, Any] = {
    "attempt": str,
    "epoch": int,
    "rank": int,
    "job": (int, str),
    "boot_id": str,
    "phase": str,
    "sequence": int,
    "reports": list,
    "offsets": dict,
    "gpus": list,
}


def part_read(path: Path) -> Part | None:
    """Read a part's record, None when there is none. Unknown fields, of a later version, are ignored. Raises BrokenFileError."""
    value = read_record(path, **_KINDS)
    if value is None:
        return None
    known = {f.name for f in fields(Part)}
    part = Part(**{name: each for name, each in value.items() if name in known})
    if part.key != path.parent.name:
        raise BrokenFileError(path, f"is the record of {part.key}")
    if set(part.offsets) != {"stdout", "stderr"} or not all(isinstance(n, int) for n in part.offsets.values()):
        raise BrokenFileError(path, "has no proper 'offsets'")
    return part
