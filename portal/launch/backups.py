"""`./berth backup` and `./berth restore`: manage.py's commands, and the care that nobody uses what is restored."""

import os
import subprocess
import sys
from pathlib import Path

from portal.command_errors import LaunchError
from portal.launch.processes import identity
from portal.launch.processes.identity import MARK
from portal.launch.processes.lock import SupervisorLock
from portal.launch.programs import portal_environment
from portal.layout import SOURCE, Layout, read_json


def _command(layout: Layout, *arguments: str) -> int:
    mode = read_json(layout.mode) or {}
    environment = portal_environment(layout, redis_url=mode.get("redis_url", ""), demo=bool(mode.get("demo")))
    argv = [sys.executable, "-P", str(SOURCE / "manage.py"), *arguments]
    environment |= {"PYTHONPATH": str(SOURCE), MARK: str(layout.root)}
    return subprocess.run(argv, env=environment, check=False).returncode  # noqa: S603 - our own argv, no shell


def backup(layout: Layout, to: Path | None) -> int:
    """Make a backup, whether Berth runs or not."""
    if not layout.root.is_dir() or not (layout.database.exists() or os.environ.get("DATABASE_URL")):
        raise LaunchError(f"There is no Berth in {layout.root}.", "Name its data directory with --data DIR.")
    return _command(layout, "backup", *(["--to", str(to)] if to else []))


def restore(layout: Layout, file: Path) -> int:
    """Restore a backup. LaunchError while a Berth runs here, or what a killed one left."""
    layout.prepare()
    lock = SupervisorLock(layout.lock)
    if not lock.acquire():
        raise LaunchError(
            f"Berth runs on {layout.root}; a backup is restored while it stands still.",
            "Stop it first: ./berth down --keep-jobs leaves running jobs running.",
        )
    with lock:
        if identity.leftovers(layout):
            raise LaunchError(
                f"Processes of a Berth that was killed still run on {layout.root}.",
                "End them first: ./berth down --keep-jobs leaves running jobs running.",
            )
        return _command(layout, "restore", str(file))


def refuse_half_restored(layout: Layout) -> None:
    """LaunchError when a restore was cut off: the database may be one thing and the files another."""
    begun = read_json(layout.restoring)
    if begun is not None:
        raise LaunchError(
            f"A restore of {begun['path']} was begun on {layout.root} and did not end.",
            f"Run it again: ./berth restore {begun['path']}",
        )
