"""What this node started, on disk: one record a part, written before the deed it announces.

`DIR/parts/KEY-EPOCH-RANK/part.json`, KEY being the attempt's. A part goes claimed -> prepared -> starting -> running ->
ended -> closed; it may go from any of them to ended. Only `starting` is written ahead of a deed (the shim's start) that
may or may not have happened when the agent was killed; the shim's lock makes trying again harmless. Sequences never
repeat, as a report is on disk before it is sent, and it stays there until the portal accepted or refused it.

A job's own directories lie apart, in `DIR/jobs/`. A record that is not one is kept in `DIR/aside` and told of.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workers.parts.part import part_read
from workers.parts.workspace import Rooms
from workers.protocol.names import clean
from workers.system import log
from workers.system.files import BrokenFileError, set_aside, sync_directory, write_json
from workers.system.trees import tree_remove

if TYPE_CHECKING:
    from pathlib import Path

    from workers.parts.part import Part, Phase
    from workers.protocol.wire import Report


class Journal:
    """All records of this node; in memory exactly as on disk, but for those in `unsaved`. `root` is the agent's directory.

    `unsaved`: parts whose record the disk refused; nothing is told of them until it is written.
    `broken`: (name, why) of each part whose record could not be read.
    """

    def __init__(self, root: Path) -> None:
        self.root, self._jobs, self._aside = root / "parts", root / "jobs", root / "aside"
        self.parts: dict[str, Part] = {}
        self.broken: dict[str, str] = {}
        self.unsaved: dict[str, Part] = {}
        for directory in (self.root, self._jobs):
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for directory in sorted(self.root.iterdir()):
            try:
                part = part_read(directory / "part.json")
            except BrokenFileError as error:
                self.broken[directory.name] = str(error)
                continue
            if part is not None:
                self.parts[part.key] = part

    def directory(self, part: Part) -> Path:
        """Where agent and shim keep what they know of it; no job writes there."""
        return self.root / part.key

    def job_directory(self, part: Part) -> Path:
        """Where the job's own directories lie."""
        return self._jobs / part.key if part.mark else self.directory(part)

    def rooms(self, part: Part) -> Rooms:
        return Rooms(self.directory(part), self.job_directory(part), part.mark)

    def set_aside(self, name: str) -> Path:
        """Keep a part's control directory, whose record is broken, out of the way; return where."""
        self._aside.mkdir(mode=0o700, exist_ok=True)
        return set_aside(self.root / name, within=self._aside)

    def create(self, part: Part) -> None:
        """Claim it. A directory without a record is what a kill left of an earlier claim or removal."""
        part.mark = part.mark or secrets.token_hex(16)
        directory = self.directory(part)
        directory.mkdir(mode=0o700, exist_ok=True)
        self._write(part)
        sync_directory(self.root)
        self.parts[part.key] = part

    def begin_anew(self, part: Part) -> None:
        """Have a part that has not started made ready once more, as parts are made ready now."""
        part.mark, part.phase = secrets.token_hex(16), "claimed"
        self.save(part)

    def save(self, part: Part) -> None:
        """Write the record, at once or, where the disk has no room, as soon as it has some (`save_rest`)."""
        try:
            self._write(part)
        except OSError as error:
            if part.key not in self.unsaved:
                log.error("record not written", **part.name, reason=str(error))
            self.unsaved[part.key] = part
        else:
            self.unsaved.pop(part.key, None)

    def enter(self, part: Part, phase: Phase) -> None:
        """Write a new phase ahead of the deed that it announces. Raises OSError, and then it is in the old one."""
        before, part.phase = part.phase, phase
        try:
            self._write(part)
        except OSError:
            part.phase = before
            raise
        self.unsaved.pop(part.key, None)

    def save_rest(self) -> bool:
        """Try to write what the disk refused; True when something was written."""
        waiting = list(self.unsaved.values())
        for part in waiting:
            self.save(part)
        if waiting and not self.unsaved:
            log.info("all records are written again")
        return len(self.unsaved) < len(waiting)

    def _write(self, part: Part) -> None:
        """Write the record. A directory that somebody removed is made again. Raises OSError."""
        path = self.directory(part) / "part.json"
        try:
            write_json(path, asdict(part))
        except (FileNotFoundError, NotADirectoryError):
            path.parent.unlink(missing_ok=True)
            path.parent.mkdir(mode=0o700)
            write_json(path, asdict(part))

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
        if "detail" in report:
            report = {**report, "detail": clean(report["detail"])}
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
        """Remove all of a part that is no longer in `parts`. The record goes first, so a kill in between leaves no half.

        Raises OSError.
        """
        self.unsaved.pop(part.key, None)
        (self.directory(part) / "part.json").unlink(missing_ok=True)
        tree_remove(self._jobs / part.key)
        tree_remove(self.directory(part))

    def empty(self, part: Part) -> None:
        """Remove a closed part's own directories; its record and log stay. Raises OSError."""
        tree_remove(self._jobs / part.key)

    def sweep(self) -> list[OSError]:
        """Remove what a kill left without a record; return why something could not be removed."""
        failures = []
        for directory in [*self.root.iterdir(), *self._jobs.iterdir()]:
            if directory.name not in self.parts and directory.name not in self.broken:
                try:
                    tree_remove(directory)
                except OSError as error:
                    failures.append(error)
        return failures
