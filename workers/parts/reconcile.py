"""What to do: a pure function of the parts that the portal wants and the parts that are here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from workers.protocol.names import part_key

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from workers.parts.part import Part
    from workers.protocol.wire import Wanted


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do with one part.

    `prepare` or `start` a wanted part. `stop` a part that the portal wants to end. `answer` a stop for a part that this
    node never had. `drop` a part that is not in the list. `retell` what the portal had and has lost. `disown` a wanted
    part whose name belongs to another job here.
    """

    kind: Literal["prepare", "start", "stop", "answer", "drop", "retell", "disown"]
    key: str
    wanted: Wanted | None = None


def _newest_epochs(wanted: Sequence[Wanted], parts: Mapping[str, Part]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for attempt, epoch in [(w["attempt"], w["epoch"]) for w in wanted] + [(p.attempt, p.epoch) for p in parts.values()]:
        newest[attempt] = max(epoch, newest.get(attempt, epoch))
    return newest


def _action_for(wanted: Wanted, part: Part | None) -> Action | None:
    key = part_key(wanted)
    if part is None and wanted["started"]:
        return None  # it started here, but its record is gone, and it may still run: never start it twice
    if wanted["action"] == "stop":
        if part is None:
            return Action("answer", key, wanted)
        return Action("stop", key, wanted) if part.live else None
    if part is None or part.phase == "claimed":
        return Action("prepare", key, wanted)
    return Action("start", key, wanted) if wanted["go"] and part.phase == "prepared" else None


def forgotten(wanted: Sequence[Wanted], parts: Mapping[str, Part]) -> set[str]:
    """Return the keys of the parts whose listed state is older than the last report of them.

    Either the list is older than the report, or the portal was restored from a backup after it.
    """
    return {key for w in wanted if (part := parts.get(key := part_key(w))) is not None and _behind(w, part)}


def _behind(wanted: Wanted, part: Part) -> bool:
    if part.reports or part.job_key != wanted["job_key"]:
        return False
    state = wanted.get("state")
    if part.phase in {"ended", "closed"}:
        return True
    if part.phase == "running":
        return state in {"wanted", "prepared"}
    return part.phase == "prepared" and state == "wanted" and not wanted["go"]


def decide(wanted: Sequence[Wanted], parts: Mapping[str, Part], retell: Collection[str] = frozenset()) -> list[Action]:
    """Return the actions. Ends come first, so that starts find their room. An old epoch is never started.

    `retell`: the keys of the parts that the portal has forgotten.
    """
    newest = _newest_epochs(wanted, parts)
    mine = {key: w for w in wanted if (part := parts.get(key := part_key(w))) is None or part.job_key == w["job_key"]}
    actions = [Action("drop", p.key) for p in parts.values() if p.live and p.key not in mine]
    begun: list[Action] = []
    for item in wanted:
        key = part_key(item)
        if key not in mine:
            actions.append(Action("disown", key, item))
            continue
        part = parts.get(key)
        if key in retell:
            actions.append(Action("retell", key, item))
        action = _action_for(item, part)
        if action is None:
            continue
        if action.kind in {"stop", "answer"}:
            actions.append(action)
        elif item["epoch"] == newest[item["attempt"]]:
            begun.append(action)
    return actions + begun
