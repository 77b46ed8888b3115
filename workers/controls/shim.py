"""The shim, one process per part: it starts the command, watches its limits and its lease, ends it, and writes how it ended.

It outlives the agent; the two speak through files in PART_DIR (docs/node-files.md). Standard library only. Two things are
always true. The command of a directory is started at most once (`lock` and `shim.json`). And the shim ends only when no
descendant of the command lives: as a subreaper it becomes the parent of every orphan, so waitpid() knows.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import TYPE_CHECKING, Any

from workers.controls.cgroups import part_group
from workers.controls.cores import core_orders
from workers.controls.diskuse import disk_meter, taken_too_much
from workers.controls.joblog import JobLog
from workers.controls.killing import Ending, kill_all, signal_all, wake_on_signals
from workers.controls.limits import limits_set, memory_over, peak_mib
from workers.controls.partfiles import EXIT_LOCKED, EXIT_USED, Telling, hold_part, lease_ended, limit_now
from workers.controls.spawn import StartFailedError, command_spawn
from workers.controls.usage import UsageMeter
from workers.system.files import BrokenFileError, fix_modes, read_record
from workers.system.procs import Family, Identity, Tree, become_subreaper, boottime, hide
from workers.system.room import write_until_room

if TYPE_CHECKING:
    from pathlib import Path

# How often the shim reads its files (stop, lease) and measures the job. A signal makes it look at once.
TICK_S = 1.0
TOLD = "the shim got an order to end"
# In an allocation a command may have been signalled by the batch system this long before its shim is.
SIGNALLED_S = 0.5
# A command may end and leave processes in the background. They have this long from SIGTERM to SIGKILL.
LEFTOVER_GRACE_S = 2.0
# The portal may start the job elsewhere when lease and grace are over. So ours must be dead well before that.
LEASE_GRACE_SHARE = 1 / 3
# How long the last lease counts when the file cannot be read.
BLIND_S = 10.0


class Shim:
    """The life of one part. Times are seconds since boot, except those named unix."""

    def __init__(self, directory: Path, launch: dict[str, Any], wake: int) -> None:
        self.directory = directory
        self.launch = launch
        self.wake = wake
        self.ending: Ending | None = None
        self.terminated: list[bool] = []
        self.shells: dict[int, int] = {}
        self.status: int | None = None
        self.pid = 0
        self.begun = boottime()
        self.begun_unix = time.time()
        self.limit_s: float | None = launch["time_limit_s"]
        limit = launch["memory_mib"]
        self.meter = UsageMeter(Tree(os.getpid()), directory / "usage", limit, count_wait=launch["virtual"])
        self.log = JobLog.under(directory, launch["log_limit_bytes"], launch.get("masked"))
        self.family = Family(directory / "processes")
        self.disk = disk_meter(launch, directory)
        self.group = part_group(directory, virtual=launch["virtual"])
        limits_set(self.group, launch)
        self.cores = core_orders(launch, directory, self.meter, self.group)
        self.telling = Telling(directory)
        self.blind_since: float | None = None
        self.next_tick = self.begun + 0.2  # early, so that a page shows figures soon

    def run(self) -> None:
        """Start the command, watch it, end it, and write `result.json`."""
        if lease_ended(self.directory, self.launch):
            self._write_result("lease", "its lease ended before it started")
            return
        self.cores.write_count()
        try:
            reason, detail = self._make_ready() or self._stage()
        except StartFailedError as failure:
            reason, detail = "start_failed", str(failure)
        self.cores.end()
        self._write_result(reason, detail)

    def _make_ready(self) -> tuple[str, str] | None:
        """Make the job's code and software ready, before the job counts as running. None: they are; else how the job ends."""
        if why := self.launch.get("not_handed"):
            raise StartFailedError(why)
        builds = [build for kind in ("fetch", "build") if (build := self.launch.get(kind))]
        return next((end for build in builds if (end := self._build(build))), None)

    def _build(self, build: dict[str, Any]) -> tuple[str, str] | None:
        from workers.controls.building import build_disk, build_failure, build_launch, commit_of  # few shims need it

        whole, own_disk = self.launch, self.disk
        self.launch, self.disk = build_launch(whole, build), build_disk(whole, build)
        reason, detail = self._stage(building=True)
        self.disk.stopped = True
        ready = reason == "exit" and self.status == 0
        self.launch, self.disk, self.ending, self.status, self.pid = whole, own_disk, None, None, 0
        self.begun, self.begun_unix = boottime(), time.time()
        if ready and (commit := commit_of(build)):
            self.launch["commit"] = commit
        return None if ready else build_failure(whole, build, reason, detail)

    def _stage(self, *, building: bool = False) -> tuple[str, str]:
        """Start the launch's command and watch it until nothing of it lives; return how it ended. Raises StartFailedError."""
        self.pid = command_spawn(self.launch, self.log, self.group)
        leader = Identity.of(self.pid)
        identity = leader.to_json() if leader else {"pid": self.pid, "start_ticks": 0, "boot_id": ""}
        # The agent reports the job as running when this file says so. Limits and lease are watched in any case.
        about = {"started_at": self.begun_unix, "building": building, "commit": self.launch.get("commit")}
        streams = self.log.streams
        logs = {"logs": {s.path.name: s.identity for s in streams}, "pipes": [s.mark for s in streams]}
        self.telling.began({**identity, **about, **logs})
        if self.disk is not None:
            self.disk.start()
        while self._reap() or self._sweep():
            self._check()
            self._sleep()
        if self.ending is None and self._was_told():
            self.ending = Ending("stopped", TOLD, boottime())
        self.log.finish()
        last = self.meter.measure()
        if self.status and self.ending is None:  # a job that ended well in spite of it ended well
            self._check_memory(last.memory_mib)
        return ("exit", "") if self.ending is None else (self.ending.reason, self.ending.detail)

    def _reap(self) -> bool:
        """Collect ended children; True while the command itself runs."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return self.status is None
            if pid == self.pid:
                self.status = status
            elif (end := self.shells.pop(pid, None)) is not None:
                from workers.controls.terminals import terminal_ended

                terminal_ended(end, status)

    def _sweep(self) -> bool:
        """End what the command left behind when it ended; True while something of it lives."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        if self.ending is None:
            why = ("stopped", TOLD) if self._was_told() else ("exit", "")
            self.ending = Ending(*why, boottime() + LEFTOVER_GRACE_S)
            signal_all(self.meter.tree, signal.SIGTERM)
        return True

    def _was_told(self) -> bool:
        """Whether the command, which has ended, was ended by a batch system: that signals it first, and then its shim."""
        until = boottime() + (SIGNALLED_S if self.launch.get("allocation") else 0.0)
        while not self.terminated and boottime() < until:
            time.sleep(0.02)
        return bool(self.terminated)

    def _check(self) -> None:
        now = boottime()
        self._read_orders(now)
        if self.ending is None and (self.directory / "terminal.json").exists():
            from workers.controls.terminals import terminal_begin  # few shims need it

            if shell := terminal_begin(self.directory, self.launch, self.pid, self.group):
                self.shells.update([shell])
        if now >= self.next_tick:
            self.next_tick = now + TICK_S
            self.telling.write_rest()
            usage = self.meter.measure()
            self._check_memory(usage.memory_mib)
            self.family.note(self.meter.seen)
            self._check_disk()
        if self.ending is not None and now >= self.ending.kill_at:
            self.ending.overran = self.ending.graced
            kill_all(self.meter.tree)

    def _read_orders(self, now: float) -> None:
        try:
            self._follow_orders(now)
        except BrokenFileError as error:
            # Only a job can have done that, and without its control files the shim cannot control it.
            self._end("stopped", f"its control files were tampered with: {error}", 0.0)
        except OSError as error:
            self._blind(now, error)
        else:
            self.blind_since = None

    def _blind(self, now: float, error: OSError) -> None:
        """Set the modes of our directories right (chmod). A lease that cannot be read for BLIND_S counts as ended."""
        fix_modes((*reversed(self.directory.parents[:2]), self.directory, *self.directory.glob("*.json")))
        self.blind_since = self.blind_since or now
        if self.launch["leased"] and now - self.blind_since > BLIND_S:
            self._end("lease", f"its lease cannot be read: {error}", self.launch["lease_grace_s"] * LEASE_GRACE_SHARE)

    def _follow_orders(self, now: float) -> None:
        self.cores.follow(now)
        stop = read_record(self.directory / "stop.json", detail=str, grace_s=(int, float))
        self.limit_s = limit_now(self.directory, self.launch)
        if stop is not None:
            self._end("stopped", stop["detail"], float(stop["grace_s"]), graced=True)
        elif self.terminated:
            self._end("stopped", TOLD, self.launch["grace_s"])
        elif lease_ended(self.directory, self.launch):
            grace_s = self.launch["lease_grace_s"] * LEASE_GRACE_SHARE
            self._end("lease", "the portal did not renew its lease in time", grace_s)
        elif self.ending is None and self.limit_s is not None and now >= self.begun + self.limit_s:
            self._end("time_limit", f"it reached its time limit of {self.limit_s:g} s", self.launch["grace_s"])

    def _end(self, reason: str, detail: str, grace_s: float, *, graced: bool = False) -> None:
        """Send SIGTERM, and SIGKILL after the grace. The first reason counts; a later one can only make the end come sooner."""
        kill_at = boottime() + grace_s
        if self.ending is not None:
            if kill_at < self.ending.kill_at:
                self.ending.kill_at, self.ending.graced = kill_at, False
            return
        self.ending = Ending(reason, detail, kill_at, graced and grace_s > 0)
        if grace_s > 0:
            signal_all(self.meter.tree, signal.SIGTERM)

    def _check_memory(self, memory_mib: float) -> None:
        why = memory_over(self.group, memory_mib, self.launch["memory_mib"])
        if why is not None:
            self.meter.peak_mib = max(self.meter.peak_mib, peak_mib(self.group))
            self._end("out_of_memory", why, 0.0)

    def _check_disk(self) -> None:
        """End a job above its disk limit, without a grace: it would go on writing meanwhile."""
        if self.disk is not None:
            self.disk.pids = [p.pid for p in self.meter.seen]
        if self.disk is not None and (why := self.disk.over()) is not None:
            self._end("disk_limit", why, 0.0)

    def _sleep(self) -> None:
        """Wait until the next look is due or a signal comes. Meanwhile move the job's output into its log."""
        until = min(self.next_tick, self.cores.next_at) if self.cores.is_busy else self.next_tick
        if self.ending is not None:
            # Once killing has begun, look often until all are gone.
            until = min(until, max(self.ending.kill_at, boottime() + 0.02))
        if self.ending is None and self.limit_s is not None:
            until = min(until, self.begun + self.limit_s)
        while True:
            ready, _, _ = select.select([self.wake, *self.log.readers()], [], [], max(0.0, until - boottime()))
            if self.wake in ready:
                os.read(self.wake, 4096)
                return
            if not ready:
                return
            self.log.pump()
            if boottime() >= until:
                return

    def _write_result(self, reason: str, detail: str) -> None:
        self.group.remove()
        code = os.waitstatus_to_exitcode(self.status) if self.status is not None else None
        result = {
            "reason": reason,
            "detail": detail,
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "pid": self.pid or None,
            "started_at": self.begun_unix,
            "ended_at": time.time(),
            "ran_s": round(boottime() - self.begun, 3),
            "peak_memory_mib": round(self.meter.peak_mib, 1),
            "overran": self.ending is not None and self.ending.overran,
        }
        self.telling.ended(result, spare=taken_too_much(self.launch) if reason == "disk_limit" else ())


def main(directory: Path) -> int:
    hide()
    if not hold_part(directory):
        return EXIT_LOCKED
    if (directory / "shim.json").exists():
        return EXIT_USED
    me = Identity.of(os.getpid())
    if me is None:  # /proc is not mounted; nothing here could work
        return EXIT_USED
    write_until_room(directory / "shim.json", me.to_json())
    become_subreaper()
    terminated: list[bool] = []
    wake = wake_on_signals(lambda *_: terminated.append(True))
    launch = read_record(directory / "launch.json")
    if launch is None:
        raise BrokenFileError(directory / "launch.json", "is missing")
    if launch.get("secrets"):
        from workers.controls.secrets import secrets_take  # few shims need it

        secrets_take(launch)
    shim = Shim(directory, launch, wake)
    shim.terminated = terminated
    shim.run()
    return 0
