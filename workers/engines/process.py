"""The process engine: a shim per part on this very machine, spoken to through the part's directory."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.files import read_json, write_json
from workers.leftovers import leftovers_kill
from workers.parthold import void_part
from workers.procs import Identity, boot_id
from workers.usage import Usage, usage_read

if TYPE_CHECKING:
    from workers.engines import Life

_SHIM = Path(__file__).resolve().parent.parent / "shim.py"


class ProcessEngine:
    """See `workers.engines.Engine`."""

    def __init__(self) -> None:
        self._children: list[subprocess.Popen[bytes]] = []
        self._boot_id = boot_id()

    def start(self, directory: Path) -> None:
        with (directory / "shim.log").open("ab") as log:
            child = subprocess.Popen(  # noqa: S603 - our own file under our own interpreter
                [sys.executable, "-I", "-S", str(_SHIM), str(directory)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={},
                cwd=directory,
                start_new_session=True,
            )
        self._children.append(child)

    def life(self, directory: Path) -> Life:
        # The result is looked for last: a shim writes it before it goes.
        shim = self.shim(directory)
        if shim is None:
            return "absent"
        if shim.pid == 0:
            return "void"
        if shim.is_alive():
            return "alive"
        return "ended" if self.result(directory) is not None else "lost"

    def shim(self, directory: Path) -> Identity | None:
        return _identity(directory / "shim.json")

    def pid(self, directory: Path) -> int | None:
        job = _identity(directory / "job.json")
        return job.pid if job else None

    def stop(self, directory: Path, *, grace_s: float, detail: str) -> None:
        write_json(directory / "stop.json", {"grace_s": grace_s, "detail": detail})
        shim = self.shim(directory)
        if shim is not None:
            shim.signal(signal.SIGUSR1)  # "look now"; unheard, it looks within a second

    def lease(self, directory: Path, *, until: float) -> None:
        # Not durable: a lease lost with the power is of another boot anyway.
        write_json(directory / "lease.json", {"until": until, "boot_id": self._boot_id}, durable=False)

    def result(self, directory: Path) -> dict[str, Any] | None:
        return read_json(directory / "result.json")

    def usage(self, directory: Path) -> Usage | None:
        return usage_read(directory / "usage")

    def void(self, directory: Path) -> bool:
        return void_part(directory)

    def purge(self, directory: Path) -> int:
        return leftovers_kill(directory, leader=_identity(directory / "job.json"))

    def reap(self) -> None:
        self._children = [child for child in self._children if child.poll() is None]


def _identity(path: Path) -> Identity | None:
    value = read_json(path)
    return Identity.from_json(value) if value is not None else None
