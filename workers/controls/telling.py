"""Files by which the shim tells the agent that the command began, and how it ended; on a full disk too."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from workers.system.files import write_json
from workers.system.modes import put_right
from workers.system.room import is_no_room, room_keep, room_use, write_until_room

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

JOB, RESULT = "job.json", "result.json"
ROOM_BYTES = 8 * 1024
"""A reason may take two kilobytes, a job's logs and pipes a few hundred bytes."""


class Telling:
    """Writes `job.json` and `result.json`. Room for both is taken before the command starts, by the files `.kept`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._began: dict[str, Any] | None = None
        self._lacking = [self._room(name) for name in (JOB, RESULT)]
        self.look()

    def _room(self, name: str) -> Path:
        return self._directory / f"{name}.kept"

    def began(self, record: dict[str, Any]) -> None:
        self._began = record
        self.look()

    def look(self) -> None:
        """Do what could not be done before, because the disk was full or somebody changed modes."""
        self._lacking = [path for path in self._lacking if not room_keep(path, ROOM_BYTES)]
        if self._began is None:
            return
        try:
            write_json(self._directory / JOB, self._began)
        except OSError as error:
            put_right((self._directory.parent, self._directory))
            if not is_no_room(error) or not self._use(JOB, self._began):
                return
        self._began = None

    def _use(self, name: str, record: dict[str, Any]) -> bool:
        if not room_use(self._room(name), self._directory / name, json.dumps(record).encode()):
            return False
        self._lacking.append(self._room(name))
        return True

    def ended(self, record: dict[str, Any], *, spare: Iterable[Path] = ()) -> None:
        """Write the result. Without it a job that ended well would count as lost, so this waits where no room was kept."""
        if self._began is not None:
            write_until_room(self._directory / JOB, self._began, spare=spare, room=self._room(JOB))
        write_until_room(self._directory / RESULT, record, spare=spare, room=self._room(RESULT))
        for name in (JOB, RESULT):
            self._room(name).unlink(missing_ok=True)
