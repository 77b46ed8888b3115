"""How many jobs wait, in words: the same on overview, queue page and tiles. Words: `portal.work.jobs.queue_counts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.pages.dashboard.parts.formatting import number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.work.jobs.queue_counts import QueueCounts

ASIDE = {
    "dependency": ("waits for another job", "wait for other jobs"),
    "restored": ("waits for the nodes' word after a restore", "wait for the nodes' word after a restore"),
    "tenant-quota": ("waits for its tenant's quota", "wait for their tenants' quotas"),
    "no-node-with-type": ("asks for a GPU type that no node has", "ask for GPU types that no node has"),
    "invalid": ("cannot be planned", "cannot be planned"),
    "held": ("held", "held"),
}
OTHERWISE = ("waits for its next planning", "wait for their next planning")


def counted(count: int, words: tuple[str, str]) -> str:
    return f"{number(count)} {words[0] if count == 1 else words[1]}"


def aside_words(aside: Mapping[str, int]) -> str | None:
    """Say what is not counted as eligible, and why: "Not counted: 2 wait for other jobs, 1 held."."""
    known = [counted(aside[reason], words) for reason, words in ASIDE.items() if aside.get(reason)]
    rest = sum(count for reason, count in aside.items() if reason not in ASIDE)
    words = [*known, *([counted(rest, OTHERWISE)] if rest else [])]
    return f"Not counted: {', '.join(words)}." if words else None


def eligible_words(queue: QueueCounts) -> str:
    """As: 18 eligible, 2 set aside."""
    aside = queue.set_aside.total()
    return f"{number(queue.jobs)} eligible" + (f", {number(aside)} set aside" if aside else "")
