"""What to do, from what the portal wants and what is here. Pure: the same two give the same actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from workers.wire import Wanted, part_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workers.journal import Part


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do with one part.

    `prepare` and `start` a wanted part, `stop` one that is wanted stopped, `answer` a stop of a part that never came
    here, `drop` one that is in no list.
    """

    kind: Literal["prepare", "start", "stop", "answer", "drop"]
    key: str
    wanted: Wanted | None = None


def _newest_epochs(wanted: Sequence[Wanted], parts: Mapping[str, Part]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for attempt, epoch in [(w["attempt"], w["epoch"]) for w in wanted] + [(p.attempt, p.epoch) for p in parts.values()]:
        newest[attempt] = max(epoch, newest.get(attempt, epoch))
    return newest


def _for_wanted(wanted: Wanted, part: Part | None) -> Action | None:
    key = part_key(wanted)
    if part is None and wanted["started"]:
        return None  # it began here under a journal that is gone, and may still run: never begin it twice
    if wanted["action"] == "stop":
        if part is None:
            return Action("answer", key, wanted)
        return Action("stop", key, wanted) if part.live else None
    if part is None or part.phase == "claimed":
        return Action("prepare", key, wanted)
    return Action("start", key, wanted) if wanted["go"] and part.phase == "prepared" else None


def decide(wanted: Sequence[Wanted], parts: Mapping[str, Part]) -> list[Action]:
    """Ends first, so that what they free is free; a stale epoch is never begun."""
    newest = _newest_epochs(wanted, parts)
    named = {part_key(w) for w in wanted}
    actions = [Action("drop", p.key) for p in parts.values() if p.live and p.key not in named]
    begun: list[Action] = []
    for item in wanted:
        action = _for_wanted(item, parts.get(part_key(item)))
        if action is None:
            continue
        if action.kind in {"stop", "answer"}:
            actions.append(action)
        elif item["epoch"] == newest[item["attempt"]]:
            begun.append(action)
    return actions + begun
