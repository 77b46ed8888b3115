"""What this node started, on disk: one record a part, written before the deed it announces.

`DIR/parts/KEY-EPOCH-RANK/part.json`, KEY being the attempt's. A part goes claimed -> prepared -> starting -> running ->
ended -> closed; it may go from any of them to ended. Only `starting` is written ahead of a deed (the shim's start) that
may or may not have happened when the agent was killed; the shim's lock makes trying again harmless. Sequences never
repeat, as a report is on disk before it is sent, and it stays there until the portal accepted or refused it.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from workers.files import read_json, sync_directory, write_json
from workers.wire import PartName, Report, part_key

if TYPE_CHECKING:
    from pathlib import Path

Phase = Literal["claimed", "prepared", "starting", "running", "ended", "closed"]
LIVE: frozenset[str] = frozenset({"claimed", "prepared", "starting", "running"})


@dataclass(slots=True)
class Part:
    """The record of one part."""

    attempt: str
    epoch: int
    rank: int
    job: int | str
    boot_id: str
    # Empty in records from before keys: the job's number named it.
    job_key: str = ""
    phase: Phase = "claimed"
    lease_s: float | None = None
    gpus: list[int] = field(default_factory=list)
    sequence: int = 0
    reports: list[Report] = field(default_factory=list)
    # Nothing more is told of it: the portal has closed it.
    dropped: bool = False
    offsets: dict[str, int] = field(default_factory=lambda: {"stdout": 0, "stderr": 0})
    logs_done: bool = False
    # The report of its end, kept: a portal that was restored from a backup asks for it again.
    end: dict[str, Any] | None = None
    closed_at: float | None = None

    def __post_init__(self) -> None:
        self.attempt = str(self.attempt)  # a number in records from before keys

    @property
    def name(self) -> PartName:
        return {"attempt": self.attempt, "epoch": self.epoch, "rank": self.rank}

    @property
    def key(self) -> str:
        return part_key(self.name)

    @property
    def job_name(self) -> str:
        """What names its job on nodes."""
        return self.job_key or str(self.job)

    @property
    def live(self) -> bool:
        return self.phase in LIVE


class Journal:
    """All records of this node; in memory exactly as on disk."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.parts: dict[str, Part] = {}
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for record in sorted(root.glob("*/part.json")):
            part = Part(**read_json(record))
            self.parts[part.key] = part

    def directory(self, part: Part) -> Path:
        return self.root / part.key

    def create(self, part: Part) -> None:
        """Claim it. A directory without a record is what a kill left of an earlier claim or removal."""
        directory = self.directory(part)
        directory.mkdir(mode=0o700, exist_ok=True)
        self.parts[part.key] = part
        self.save(part)
        sync_directory(self.root)

    def save(self, part: Part) -> None:
        write_json(self.directory(part) / "part.json", asdict(part))

    def report(self, part: Part, report: dict[str, Any], *, phase: Phase) -> None:
        """Move to `phase` and queue a report of it, both in one write."""
        part.phase = phase
        part.sequence += 1
        base: Report = {
            **part.name,
            "sequence": part.sequence,
            "state": "prepared",
            "pid": None,
            "at": time.time(),
            "exit_code": None,
            "signal": None,
            "reason": None,
            "detail": "",
        }
        if not part.dropped:
            part.reports.append({**base, **report})  # type: ignore[typeddict-item]
        if phase == "ended":
            part.end = {"at": base["at"], **report}
        self.save(part)

    def settle(self, part: Part, sequence: int) -> None:
        """The portal has answered this report: it is never sent again."""
        left = [r for r in part.reports if r["sequence"] != sequence]
        if len(left) != len(part.reports):
            part.reports = left
            self.save(part)

    def close(self, part: Part) -> None:
        """Nothing is left to do; the record stays as a tombstone until it is removed."""
        part.phase = "closed"
        part.closed_at = time.time()
        self.save(part)

    def remove(self, part: Part) -> None:
        """Forget it. The record goes first, so a kill in between leaves no half a part behind."""
        directory = self.directory(part)
        (directory / "part.json").unlink(missing_ok=True)
        self.parts.pop(part.key, None)
        shutil.rmtree(directory)

    def sweep(self) -> None:
        """Remove directories that a kill left without a record."""
        for directory in self.root.iterdir():
            if directory.is_dir() and directory.name not in self.parts:
                shutil.rmtree(directory)
