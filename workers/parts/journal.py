"""The journal: one record on disk for each part that this node started, written before what it announces is done.

`DIR/parts/KEY-EPOCH-RANK/part.json`, KEY being the attempt's. A part goes claimed -> prepared -> starting -> running ->
ended -> closed; it may go from any of them to ended. After a kill, `starting` leaves open whether the shim was started;
trying again does no harm, because of the shim's lock. A report is on disk before it is sent, and stays there until the
portal has accepted or refused it; so no sequence number is used twice.

A job's own directories lie apart, in `DIR/jobs/`. A broken record is kept in `DIR/aside`, and reported to the operator.
"""

from __future__ import annotations

import json
import secrets
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from workers.parts.part import Part, Phase, part_read
from workers.parts.workspace import Rooms
from workers.protocol.names import clean
from workers.system import log
from workers.system.files import BrokenFileError, set_aside, sync_directory, write_json
from workers.system.room import Reserve, is_no_room
from workers.system.trees import tree_remove

if TYPE_CHECKING:
    from pathlib import Path

    from workers.protocol.wire import Report


class Journal:
    """All records of this node. Memory and disk hold the same, except for `unsaved`. `root` is the agent's directory.

    `unsaved`: parts whose record could not be written; nothing about them is reported until it is.
    `broken`: (name, why) of each part whose record could not be read.
    """

    def __init__(self, root: Path) -> None:
        self.root, self._jobs, self._aside = root / "parts", root / "jobs", root / "aside"
        self.reserve = Reserve(root / "reserve")
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
        """Return the part's control directory, which belongs to agent and shim. No job writes there."""
        return self.root / part.key

    def job_directory(self, part: Part) -> Path:
        return self._jobs / part.key

    def rooms(self, part: Part) -> Rooms:
        return Rooms(self.directory(part), self.job_directory(part), part.mark)

    def environments(self) -> set[str]:
        return {part.environment for part in self.parts.values() if part.live and part.environment}

    def set_aside(self, name: str) -> Path:
        """Move the control directory of a part with a broken record to `aside`; return its new path."""
        self._aside.mkdir(mode=0o700, exist_ok=True)
        return set_aside(self.root / name, within=self._aside)

    def create(self, part: Part) -> None:
        """Write a new part's record. Its directory may exist already, without a record: a kill left it so."""
        part.mark = part.mark or secrets.token_hex(16)
        directory = self.directory(part)
        directory.mkdir(mode=0o700, exist_ok=True)
        self._write(part)
        sync_directory(self.root)
        self.parts[part.key] = part

    def save(self, part: Part) -> None:
        """Write the record now, on a full disk into the reserve. When that fails, `save_rest` writes it later."""
        try:
            self._write_anyhow(part)
        except OSError as error:
            if part.key not in self.unsaved:
                log.error("record not written", **part.name, reason=str(error))
            self.unsaved[part.key] = part
        else:
            self.unsaved.pop(part.key, None)

    def enter(self, part: Part, phase: Phase) -> None:
        """Write a new phase before what it announces is done. Raises OSError; then the part stays in the old phase."""
        before, part.phase = part.phase, phase
        try:
            self._write(part)
        except OSError:
            part.phase = before
            raise
        self.unsaved.pop(part.key, None)

    def save_rest(self) -> bool:
        """Write the records that could not be written before; True when at least one was."""
        waiting = list(self.unsaved.values())
        for part in waiting:
            self.save(part)
        if waiting and not self.unsaved:
            log.info("all records are written again")
        return len(self.unsaved) < len(waiting)

    def _write(self, part: Part) -> None:
        """Write the record. Make its directory again when somebody removed it. Raises OSError."""
        path = self.directory(part) / "part.json"
        try:
            write_json(path, asdict(part))
        except (FileNotFoundError, NotADirectoryError):
            path.parent.unlink(missing_ok=True)
            path.parent.mkdir(mode=0o700)
            write_json(path, asdict(part))

    def _write_anyhow(self, part: Part) -> None:
        try:
            self._write(part)
        except OSError as error:
            data = json.dumps(asdict(part)).encode()
            if not is_no_room(error) or not self.reserve.replace(self.directory(part) / "part.json", data):
                raise

    def report(self, part: Part, report: dict[str, Any], *, phase: Phase) -> None:
        """Move to `phase` and queue a report of it, both in one write."""
        part.phase = phase
        part.sequence += 1
        base: Report = {
            **part.name,  # type: ignore[typeddict-item] # it names a part and holds no commit
            "sequence": part.sequence,
            "state": "prepared",
            "pid": None,
            "at": time.time(),
            "exit_code": None,
            "signal": None,
            "reason": None,
            "detail": "",
            "overran": False,
        }
        if "detail" in report:
            report = {**report, "detail": clean(report["detail"])}
        if not part.dropped:
            part.reports.append({**base, **report})  # type: ignore[typeddict-item]
        if phase == "ended":
            part.end = {"at": base["at"], **report}
        self.save(part)

    def settle(self, part: Part, sequence: int) -> None:
        """Remove a report that the portal has answered, so that it is never sent again."""
        left = [r for r in part.reports if r["sequence"] != sequence]
        if len(left) != len(part.reports):
            part.reports = left
            self.save(part)

    def close(self, part: Part) -> None:
        """Close a part for which nothing is left to do. Its record stays for a while, so that the part is not started again."""
        part.phase = "closed"
        part.closed_at = time.time()
        self.save(part)

    def remove(self, part: Part) -> None:
        """Remove all files of a part that is no longer in `parts`. Raises OSError.

        The record goes first. After a kill in between, `sweep` removes the rest.
        """
        self.unsaved.pop(part.key, None)
        (self.directory(part) / "part.json").unlink(missing_ok=True)
        tree_remove(self._jobs / part.key)
        tree_remove(self.directory(part))

    def empty(self, part: Part) -> None:
        """Remove the job's own directories of a closed part. Its record and log stay. Raises OSError."""
        tree_remove(self._jobs / part.key)

    def sweep(self) -> list[OSError]:
        """Remove directories without a record, which a kill left; return the errors of those that cannot be removed."""
        failures = []
        for directory in [*self.root.iterdir(), *self._jobs.iterdir()]:
            if directory.name not in self.parts and directory.name not in self.broken:
                try:
                    tree_remove(directory)
                except OSError as error:
                    failures.append(error)
        return failures
