"""Ends the jobs on this machine's nodes when Berth stops, or lets them run on. It calls the agent's program for that."""

import subprocess
import sys
from pathlib import Path

from portal.foundation.command_errors import LaunchError
from portal.foundation.layout import SOURCE, Layout, read_json
from portal.launch.programs import agent_environment, portal_environment

KEEP_HOURS = 24
STOP_GRACE_S = 10
STOP_LIMIT_S = 60.0
LEASES_LIMIT_S = 60.0


def node_directories(layout: Layout) -> list[Path]:
    return sorted(path for path in layout.nodes.glob("*") if path.is_dir())


def jobs_stop(layout: Layout) -> None:
    """End every job of every node here: SIGTERM, and SIGKILL after a grace."""
    _each(layout, ["--stop-all", "--grace", str(STOP_GRACE_S)])


def leases_keep(layout: Layout) -> None:
    """Extend the leases in the database. Else the next `up` would find them ended, and run the jobs twice.

    Call it before `jobs_keep`, so that no shim's lease is ever longer than the database's.
    """
    mode = read_json(layout.mode) or {}
    done = subprocess.run(  # noqa: S603 - our own argv, no shell
        [sys.executable, "-m", "portal.launch.leases", str(KEEP_HOURS)],
        cwd=SOURCE,
        env=portal_environment(layout, redis_url=mode.get("redis_url", ""), demo=bool(mode.get("demo"))),
        capture_output=True,
        text=True,
        timeout=LEASES_LIMIT_S,
        check=False,
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise LaunchError(
            f"The leases of the running jobs could not be extended ({last}).",
            "The jobs run on until their present leases end. Start Berth again before that with `./berth up`.",
        )


def jobs_keep(layout: Layout, *, hours: int = KEEP_HOURS) -> None:
    """Give each shim a maintenance lease, so that its job runs on while Berth is stopped."""
    _each(layout, ["--keep-jobs", str(hours)])


def _each(layout: Layout, flags: list[str]) -> None:
    """Call the agent's program for all nodes at once, and wait. Raises LaunchError that names the nodes that failed."""
    started = {
        directory.name: subprocess.Popen(  # noqa: S603 - our own argv, no shell
            [sys.executable, "-m", "workers.agent", "--dir", str(directory), *flags],
            cwd=SOURCE,
            env=agent_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for directory in node_directories(layout)
    }
    failed = [f"{name} ({why})" for name, process in started.items() if (why := _failure(process))]
    if failed:
        raise LaunchError(
            f"Berth could not reach the jobs of these nodes: {', '.join(failed)}.",
            "The jobs may still run. Look for them with `ps`, or start Berth again with `./berth up`.",
        )


def _failure(process: subprocess.Popen[str]) -> str:
    """Wait for one agent's command; return why it failed, or "" when it worked."""
    try:
        output, _ = process.communicate(timeout=STOP_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"took over {STOP_LIMIT_S:.0f} s"
    if not process.returncode:
        return ""
    return (output.strip().splitlines() or ["it said nothing"])[-1]
