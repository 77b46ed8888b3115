"""When a simulation's next re-plan is due, and when it tells of its progress."""

from __future__ import annotations

import math
from collections.abc import Callable

PROGRESS_EVERY, PROGRESS_EVERY_S = 256, 0.5
"""Plannings between two reports of progress, and seconds of the caller's clock: whichever comes first."""


class Rounds:
    """Rounds of one length, counted from time 0 or from the last round that ended early."""

    def __init__(self, period_s: float) -> None:
        self._period_s, self._from_s = period_s, 0.0
        self.next_s = period_s  # the next round begins, with its re-plan
        self.replanned_s: float | None = None  # when the last re-plan was made

    def begin(self, now_s: float) -> None:
        """A round begins now; the next one later."""
        rounds = math.floor((now_s - self._from_s) / self._period_s) + 1
        next_s = self._from_s + rounds * self._period_s
        # The division may have rounded to a time that is not after now.
        self.next_s = next_s if next_s > now_s else next_s + self._period_s

    def end_early(self, now_s: float) -> None:
        """The next round is due now, and rounds are counted from here on."""
        self.next_s = self._from_s = now_s


class Progress:
    """Calls `tell(virtual time, ended jobs)` now and then. `now_s` and `at_s`: on the caller's clock."""

    def __init__(self, tell: Callable[[float, int], None] | None, now_s: float) -> None:
        self._tell, self._told_s = tell, now_s

    def after(self, plannings: int, at_s: float, virtual_s: float, ended: int) -> None:
        if plannings % PROGRESS_EVERY == 0 or at_s - self._told_s >= PROGRESS_EVERY_S:
            self._told_s = at_s
            if self._tell is not None:
                self._tell(virtual_s, ended)
