"""`./berth backup` and `./berth restore`: they run manage.py's commands, and see that nothing uses what is restored."""

import os
import subprocess
import sys
from pathlib import Path

from portal.foundation.alive import MARK
from portal.foundation.errors import LaunchError
from portal.foundation.layout import SOURCE, Layout, read_json
from portal.launch.processes import identity
from portal.launch.processes.identity import SupervisorLock
from portal.launch.programs import portal_environment


def _command(layout: Layout, *arguments: str) -> int:
    mode = read_json(layout.mode) or {}
    environment = portal_environment(layout, redis_url=mode.get("redis_url", ""), demo=bool(mode.get("demo")))
    argv = [sys.executable, "-P", str(SOURCE / "manage.py"), *arguments]
    environment |= {"PYTHONPATH": str(SOURCE), MARK: str(layout.root)}
    return subprocess.run(argv, env=environment, check=False).returncode  # noqa: S603 - our own argv, no shell


def backup(layout: Layout, to: Path | None) -> int:
    """Make a backup. Berth may run meanwhile."""
    if not layout.root.is_dir() or not (layout.database.exists() or os.environ.get("DATABASE_URL")):
        raise LaunchError(f"There is no Berth in {layout.root}.", "Name its data directory with --data DIR.")
    return _command(layout, "backup", *(["--to", str(to)] if to else []))


def restore(layout: Layout, file: Path) -> int:
    """Restore a backup. Raises LaunchError while a Berth runs here, or while processes of a killed one do."""
    layout.prepare()
    lock = SupervisorLock(layout.lock)
    if not lock.acquire():
        raise LaunchError(
            f"Berth runs on {layout.root}. It must be stopped before a backup is restored.",
            "Stop it with `./berth down --keep-jobs`, which lets running jobs run on.",
        )
    with lock:
        if identity.leftovers(layout):
            raise LaunchError(
                f"On {layout.root} processes of a Berth still run whose supervisor was killed.",
                "End them with `./berth down --keep-jobs`, which lets running jobs run on.",
            )
        return _command(layout, "restore", str(file))


def refuse_half_restored(layout: Layout) -> None:
    """Raise LaunchError when a restore did not finish: database and files may not belong together."""
    begun = read_json(layout.restoring)
    if begun is not None:
        raise LaunchError(
            f"A restore of {begun['path']} on {layout.root} did not finish.",
            f"Run it again: ./berth restore {begun['path']}",
        )
