"""The node's present troubles: found while the figures are read, and all sent with each report.

A finding is of the node or of one GPU. `warn`: shown only. `drain`: no new jobs there. `fail`: nothing can run there, so the
portal also stops what does. The portal acts on it, and an operator may overrule it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

import psutil

from workers.protocol.names import clean
from workers.system import log
from workers.telemetry.xids import RESET, STOPS, xid_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from workers.protocol.wire import Finding, Health, OutsideUse
    from workers.telemetry.beat import Beat, Readings
    from workers.telemetry.sampler import GpuTrouble

Level = Literal["warn", "drain", "fail"]
XID_KEPT_S = 600.0
"""How long an Xid is reported again: the portal may be away when it comes."""
DEAF_S = 30.0
HOT_LOOKS, COOL_S = 5, 60.0
SHORT_S, SHORT_SHARE, SHORT_MIB = 30.0, 0.02, 256
SKEW_WARN_S, SKEW_DRAIN_S = 5.0, 60.0
OUTSIDE_LOOKS = 3
"""A stranger is on a GPU for at least these seconds: processes of a job that just began or ended do not count."""
MOST = 64


class NodeHealth:
    """Remembers what was found. `on_change` is called when what `current` returns has changed."""

    def __init__(
        self, *, beat: Beat, driver_trouble: str | None, is_virtual: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._beat, self._is_virtual, self._now = beat, is_virtual, now
        self._found: dict[tuple[str, str], Finding] = {}
        self._until: dict[tuple[str, str], float] = {}
        self._hot: dict[int, int] = {}
        self._short_since: float | None = None
        self._outside: dict[tuple[int, int], int] = {}
        self._strangers: list[OutsideUse] = []
        self.on_change: Callable[[], None] = lambda: None
        if driver_trouble is not None:
            remedy = "Install the driver's matching version or reboot the node; then restart its agent."
            self.note("node", "driver", "drain", driver_trouble, remedy)

    def current(self) -> Health:
        """Return all that is not well now."""
        return {"findings": list(self._found.values())[:MOST], "outside": self._strangers}

    def note(
        self, subject: str, check: str, level: Level, detail: str, remedy: str, *, kept_s: float | None = None
    ) -> None:
        """Tell a finding until it is cleared, or for `kept_s`."""
        key = (subject, check)
        found: Finding = {
            "subject": subject,
            "check": check,
            "level": level,
            "detail": clean(detail, 300),
            "remedy": clean(remedy, 300),
        }
        if kept_s is not None:
            self._until[key] = self._now() + kept_s
        if self._found.get(key) != found:
            self._found[key] = found
            log.warning("health", **found)
            self.on_change()

    def clear(self, subject: str, check: str) -> None:
        self._until.pop((subject, check), None)
        if self._found.pop((subject, check), None) is not None:
            log.info("health: well again", subject=subject, check=check)
            self.on_change()

    def check_readings(self, readings: Readings, outside: Iterable[OutsideUse]) -> None:
        """Note the findings of one second's readings."""
        now = self._now()
        for key, until in list(self._until.items()):
            if now >= until:
                self.clear(*key)
        for trouble in readings.troubles:
            self._trouble(trouble)
        if readings.details is not None:
            self._over(readings.details.troubles)
            self._see_strangers(list(outside))
        if not self._is_virtual:
            self._check_driver()
            self._check_memory(now)

    def _trouble(self, trouble: GpuTrouble) -> None:
        subject = f"gpu:{trouble.index}"
        if trouble.check == "xid":
            detail, remedy, kind = xid_words(trouble.code, trouble.index)
            level: Level = "fail" if kind in STOPS else "warn"
            self.note(subject, f"xid {trouble.code}", level, detail, remedy, kept_s=XID_KEPT_S)
        elif trouble.check == "nvml":
            remedy = f"Reboot the node, or: {RESET.format(gpu=trouble.index)}"
            self.note(subject, "nvml", "fail", f"It does not answer: {trouble.detail}.", remedy)
        elif trouble.check == "ecc":
            detail = f"{trouble.code} memory errors that could not be corrected."
            self.note(subject, "ecc", "drain", detail, RESET.format(gpu=trouble.index))
        elif trouble.check == "temperature":
            self._hot[trouble.index] = self._hot.get(trouble.index, 0) + 1
            if self._hot[trouble.index] >= HOT_LOOKS:
                remedy = "Look at the node's fans and at its room's cooling."
                self.note(subject, "temperature", "drain", trouble.detail, remedy, kept_s=COOL_S)

    def _over(self, troubles: Iterable[GpuTrouble]) -> None:
        """Forget the findings that the last details did not repeat, except those kept for a fixed time."""
        still = {(f"gpu:{each.index}", each.check) for each in troubles}
        for subject, check in list(self._found):
            if check in {"nvml", "ecc"} and (subject, check) not in still:
                self.clear(subject, check)
        self._hot = {index: count for index, count in self._hot.items() if (f"gpu:{index}", "temperature") in still}

    def _check_driver(self) -> None:
        silent_s = time.monotonic() - self._beat.answered_at
        if silent_s > max(DEAF_S, 3 * self._beat.period_s):
            detail = f"The GPUs' driver has not answered for over {DEAF_S:.0f} s."
            self.note("node", "driver-hangs", "drain", detail, "Reboot the node.")
        else:
            self.clear("node", "driver-hangs")

    def _check_memory(self, now: float) -> None:
        memory = psutil.virtual_memory()
        if memory.available >= max(SHORT_SHARE * memory.total, SHORT_MIB * 2**20):
            self._short_since = None
            self.clear("node", "memory")
            return
        self._short_since = self._short_since or now
        if now - self._short_since >= SHORT_S:
            detail = f"Less than {max(SHORT_SHARE * memory.total / 2**20, SHORT_MIB):.0f} MiB of its memory are free."
            self.note(
                "node", "memory", "drain", detail, "See what uses it (`ps aux --sort -rss`); jobs may lack a limit."
            )

    def skew(self, seconds: float) -> None:
        """Take by how much this node's clock differs from the portal's."""
        if abs(seconds) < SKEW_WARN_S:
            self.clear("node", "clock")
            return
        level: Level = "drain" if abs(seconds) >= SKEW_DRAIN_S else "warn"
        way = "ahead of" if seconds > 0 else "behind"
        limit_s = SKEW_DRAIN_S if level == "drain" else SKEW_WARN_S
        detail = f"Its clock is over {limit_s:.0f} s {way} the portal's."
        self.note("node", "clock", level, detail, "Set both clocks by NTP (`timedatectl set-ntp true`).")

    def _see_strangers(self, outside: list[OutsideUse]) -> None:
        seen = {(each["gpu"], each["pid"]) for each in outside}
        self._outside = {key: self._outside.get(key, 0) + 1 for key in seen}
        strangers = [each for each in outside if self._outside[each["gpu"], each["pid"]] >= OUTSIDE_LOOKS]
        told = {(each["gpu"], each["pid"]) for each in self._strangers}
        if {(each["gpu"], each["pid"]) for each in strangers} != told:
            self._strangers = strangers
            self.on_change()
