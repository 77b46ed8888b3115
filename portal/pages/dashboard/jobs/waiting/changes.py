"""One list of the changes of a waiting job, by expected end: with *As it stands* in its place, and later ends in red."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import count_of, counted, duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.planning.offers.services import Kept
    from portal.planning.rounds.read.forecasts import Start
    from portal.work.jobs.models import Job

NODES_SHOWN = 2
LATER_SHOWN = 2
APART_S = 900.0
"""Two simulations of one queue may differ by this much, and by half of the wait."""
SOONER_MIN_S = 30.0
FAST, SLOW = 1.05, 0.95
"""A speed between these parts of its present one is not shown."""
UNKNOWN = {"length": "say how long it runs to learn more", "start": "nobody knows when it starts as it stands"}
SHORT = {
    "cores": "fewer cores",
    "memory": "less memory",
    "checkpoint": "its checkpoint left",
    "software": "the node's own software",
}


def changes_make(
    job: Job, kept: Kept, told: Start | None, *, said: dict[str, Any] | None = None, note: str | None = None
) -> dict[str, Any]:
    """Fill the card. `said`: the answer to a press, by its change and value; `note`: why nothing was worked out."""
    answer = kept.answer
    over = answer["over_at"] and datetime.fromisoformat(answer["over_at"])
    if over and told and _is_apart(answer, over, told):
        over, told = None, None  # the range is of another draw than the answer: they are not compared
    found = [each for each in answer["changes"] if each["change"] not in {"none", "wait"}]
    gains = [_gain(each, kept, told, over, said) for each in answer["offers"] if each["gains"]]
    later = sorted((_later(each, job, kept, over) for each in found if each["no_gain"] in {"later", "limit"}), key=_end)
    unknown = [_unknown(each, kept) for each in found if each["no_gain"] in UNKNOWN]
    for row in gains[:1]:
        row |= {"tone": "best", "primary": True}
    stands = {"tone": "on", "words": "As it stands", "over": over and over.isoformat(), "action": "your job now"}
    middle = told.median_at if told and not told.passed else None
    stands |= {"about": middle and middle.isoformat()}
    stands |= {"now": answer["starts_now"], "overdue": told is not None and told.passed}
    stands |= {"where": f"on {answer['gathering']['node']}" if answer["gathering"] else ""}
    shown = gains or later or unknown
    if note is None and kept.at and not shown:
        note = "It starts as it stands." if answer["starts_now"] else "No single change would have it over sooner."
    text = said["text"] if said and not any(row.get("said") for row in gains) else ""
    return {
        "at": kept.at.isoformat() if kept.at else None,
        "rows": [*gains, stands, *unknown, *later[:LATER_SHOWN]] if shown else [],
        "foot": _foot(found, answer["offers"], [row["words"] for row in later[LATER_SHOWN:]]),
        "note": note,
        "pending": not kept.fresh and note is None,  # they are being worked out: ask again
        "said": text,
    }


def _is_apart(answer: Mapping[str, Any], over: datetime, told: Start) -> bool:
    """Say whether the range that is shown and the start behind the answer tell different times."""
    middle = (answer.get("start") or {}).get("median_at")
    if over < (told.median_at or told.earliest_at):
        return True
    if told.median_at is None or middle is None:
        return False
    apart_s = abs((told.median_at - datetime.fromisoformat(middle)).total_seconds())
    return apart_s > max(APART_S, (told.median_at - told.at).total_seconds() / 2)


def _end(row: Mapping[str, Any]) -> str:
    return row["over"] or row["limit"] or ""


def _row(change: Mapping[str, Any], kept: Kept) -> dict[str, Any]:
    """Return the change, where and when it would start."""
    names, start = list(change["nodes"]), change["start"] or {}
    return {
        "tone": "",
        "words": change["words"] or change["sentence"].partition(" it would")[0].rstrip(","),
        "small": _speed_words(change),
        "now": bool(change["starts"]),
        "about": kept.at.isoformat() if change["starts"] and kept.at else start.get("median_at"),
        "where": f"on {', '.join(names[:NODES_SHOWN])}{' ...' if len(names) > NODES_SHOWN else ''}" if names else "",
        "over": change["over_at"],
        "limit": None,
        "difference": "",
        "action": "not offered",
    }


def _speed_words(change: Mapping[str, Any]) -> str:
    """Return as: 4 of them, 1.9 times as fast; half as many cores tell no speed."""
    speed = change["of_asked"]
    if speed is None or SLOW <= speed <= FAST:
        return ""
    many = f"{change['gpus']} of them, " if change["change"] == "gpu-type" and change["gpus"] else ""
    said = f"{speed:.1f} times as fast" if speed > FAST else f"{100 * speed:.0f}\u00a0% as fast"
    return f"{many}{said}{', assumed' if change['source'] == 'assumed' else ''}"


def _gain(
    change: Mapping[str, Any], kept: Kept, told: Start | None, over: datetime | None, said: Mapping[str, Any] | None
) -> dict[str, Any]:
    row, value = _row(change, kept), json.dumps(change["value"])
    difference = ""
    if over and row["over"]:
        difference = f"{duration((over - datetime.fromisoformat(row['over'])).total_seconds())} sooner"
    elif told and told.median_at and not told.passed and row["about"]:
        sooner_s = (told.median_at - datetime.fromisoformat(row["about"])).total_seconds()
        difference = f"starts {duration(sooner_s)} sooner" if sooner_s >= SOONER_MIN_S else ""
    pressed = said is not None and (said["change"], said["value"]) == (change["change"], value)
    return row | {
        "difference": difference,
        "action": None,
        "button": change["words"].removesuffix(" too"),
        "others": change["later"],
        "change": change["change"],
        "value": value,
        "primary": False,
        "said": said["text"] if said and pressed else None,
    }


def _later(change: Mapping[str, Any], job: Job, kept: Kept, over: datetime | None) -> dict[str, Any]:
    """Return a change that ends later, by how much, or meets the time limit, and when."""
    row = _row(change, kept) | {"tone": "bad"}
    if not row["small"] and change["change"] == "size" and not job.checkpointable:
        row["small"] = "it could not grow later"
    if over and row["over"]:
        row["difference"] = f"{duration((datetime.fromisoformat(row['over']) - over).total_seconds())} later"
    if change["no_gain"] == "limit" and row["about"] and job.time_limit_s:
        row["limit"] = (datetime.fromisoformat(row["about"]) + timedelta(seconds=job.time_limit_s)).isoformat()
        row["limit_words"] = duration(job.time_limit_s)
    return row


def _unknown(change: Mapping[str, Any], kept: Kept) -> dict[str, Any]:
    """Return a change of which nobody can tell whether it is over sooner: it starts sooner and runs longer."""
    return _row(change, kept) | {"over": None, "difference": UNKNOWN[change["no_gain"]]}


def _foot(found: Sequence[Mapping[str, Any]], offers: Sequence[Mapping[str, Any]], later: Sequence[str]) -> list[str]:
    """Return the sentences below the list: changes without effect, those that need the form, and those not tried."""
    taken = [_key(each) for each in offers]
    same = (each for each in found if each["no_gain"] in {None, "same"} and not each["gains"])
    idle = [_short(each) for each in same if each["no_gain"] or each["starts"] is False]
    apart = [each for each in found if each["starts"] and not each["no_gain"] and _key(each) not in taken]
    untried = [_short(each) for each in found if each["starts"] is None and each["change"] != "wait"]
    said = [each["sentence"].partition(" That is")[0].rstrip(".") + "." for each in apart]
    if idle:
        many = f"{counted(len(idle)).capitalize()} more {'was' if len(idle) == 1 else 'were'} tried"
        said.append(f"{many} and change{'s' if len(idle) == 1 else ''} nothing: {', '.join(idle)}.")
    if later:
        said.append(f"Later as well: {', '.join(later)}.")
    if untried:
        said.append(f"Not tried, for want of time: {', '.join(untried)}.")
    return said


def _short(change: Mapping[str, Any]) -> str:
    if change["change"] == "size":
        return count_of(change["value"], "GPU")
    if change["change"] == "gpu-type":
        return " or ".join(change["value"])
    return SHORT.get(change["change"], change["change"])


def _key(change: Mapping[str, Any]) -> tuple[str, str]:
    return change["change"], json.dumps(change["value"])
