"""Which rule of a simulation does best: the order of its rules, the sentence about the first two, and the table. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import duration, number, share
from portal.pages.laboratory.output.chance import is_clear

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Figures = Mapping[str, Any]
    Rules = Mapping[str, Figures]

WITHIN = 0.02
"""A difference of less is none, where no chance is known."""
LEAST = 0.005
"""A clear difference of less is not worth a word."""
TOLD = "Each difference holds in 95 of 100 redraws of the jobs."
MANY_TIMES = 5.0
MOST_COLUMNS = 6
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def _hours(hours: float) -> str:
    return duration(3600 * hours)


def _run_h(own: Figures) -> float | None:
    """Return the mean run in hours; None where jobs did not end: these count only in the waits."""
    if own.get("jobs_unfinished") or own.get("mean_jct_h") is None or own.get("mean_wait_h") is None:
        return None
    return own["mean_jct_h"] - own["mean_wait_h"]


@dataclass(frozen=True, slots=True)
class Column:
    """`gain`, `cost`: the words around a difference in %, as the verdict says them of the better and of the worse rule."""

    label: str
    value: Callable[[Figures], float | None]
    show: Callable[[float], str]
    gain: tuple[str, str, str]
    cost: tuple[str, str, str]
    high: bool = False

    def ahead(self, own: Figures, other: Figures) -> float:
        """Return by which part of the other's figure the own one is better; below 0: worse; 0: not known."""
        mine, theirs = self.value(own), self.value(other)
        if mine is None or theirs is None or mine == theirs:
            return 0.0
        part = (theirs - mine) / max(abs(theirs), abs(mine) * 1e-3, 1e-9)
        return -part if self.high else part


def _of(name: str) -> Callable[[Figures], float | None]:
    return lambda own: own.get(name)


def _figure(value: float) -> str:
    return number(value, 2)


def _waits(label: str, value: Callable[[Figures], float | None], show: Callable[[float], str], what: str) -> Column:
    gain, cost = (f" would have kept {what} ", "shorter", " than "), (f", with {what} ", "longer", "")
    return Column(label, value, show, gain, cost)


COLUMNS = (
    _waits("mean wait", _of("mean_wait_h"), _hours, "waiting"),
    _waits("longest 1 % wait", _of("p99_wait_h"), _hours, "the longest waits"),
    _waits("wait over run", _of("mean_lr"), _figure, "waits for the run time"),
    Column(
        "mean run", _run_h, _hours, (" would have run jobs ", "shorter", " than "), (", at a ", "longer", " mean run")
    ),
    Column(
        "GPUs held",
        _of("gpu_active_rate"),
        share,
        (" would have held GPUs ", "more", " than "),
        (", with GPUs held ", "less", ""),
        high=True,
    ),
    Column(
        "fragments",
        _of("fragments_per_round"),
        lambda value: number(value, 1),
        (" would have left ", "fewer", " fragments than "),
        (", with ", "more", " fragments"),
    ),
    Column(
        "all over after",
        _of("makespan_h"),
        _hours,
        (" would have been through ", "sooner", " than "),
        (", with the last job ", "later", ""),
    ),
)
LEADS = (0, 2, 3, 1, 4, 5, 6)
"""The columns in the order in which the verdict looks for a gain; costs are looked for from the mean run on."""
COSTS = (3, 1, 2, 0, 4, 5)


def order_of(rules: Rules, in_force: str | None) -> list[str]:
    """Return the rules: the one in force first, then the others by their mean wait."""
    waits = {name: COLUMNS[0].value(own) for name, own in rules.items()}

    def place(name: str) -> tuple[bool, float]:
        wait = waits[name]
        return name != in_force, float("inf") if wait is None else wait

    return sorted(rules, key=place)


def verdict_of(
    rules: Rules, order: Sequence[str], span: str, curves: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """Return `parts` of one sentence, each with its `tone`, and `below`: losing tenants, and which differences count.

    `span`: the time that was simulated, in words. `curves`: of each rule; without its jobs no chance is known.
    """
    if len(order) < 2:
        return {"parts": [{"text": "Another rule is needed to compare with."}], "below": ""}
    pair = [(curves or {}).get(name, {}) for name in order[:2]]
    told = all("jobs" in each for each in pair)

    def counts(place: int) -> bool:
        part = abs(COLUMNS[place].ahead(rules[order[0]], rules[order[1]]))
        return part >= LEAST and is_clear(COLUMNS[place].label, *pair) if told else part >= WITHIN

    lead = next(filter(counts, LEADS), None)
    if lead is None:
        return {"parts": [{"text": f"No difference that {span} can show."}], "below": ""}
    better, worse = order[:2] if COLUMNS[lead].ahead(rules[order[0]], rules[order[1]]) > 0 else (order[1], order[0])
    below = [_tenants(rules[better], rules[worse])] if lead < 3 else []
    below.append(TOLD if told else f"A difference of under {share(WITHIN)} is within what {span} can show.")
    return {"parts": _sentence(rules, better, worse, lead, counts), "below": " ".join(filter(None, below))}


def _sentence(rules: Rules, better: str, worse: str, lead: int, counts: Callable[[int], bool]) -> list[dict[str, str]]:
    before, word, after = COLUMNS[lead].gain
    gained = _part(abs(COLUMNS[lead].ahead(rules[better], rules[worse])))
    parts = [
        {"text": better, "tone": "name"},
        {"text": before},
        {"text": f"{gained} {word}", "tone": "run"},
        {"text": f"{after}{worse}"},
    ]
    for place in COSTS:
        lost = -COLUMNS[place].ahead(rules[better], rules[worse])
        if place != lead and lost > 0 and counts(place):
            before, word, after = COLUMNS[place].cost
            parts += [{"text": before}, {"text": f"{_part(lost)} {word}", "tone": "wait"}, {"text": after}]
            break
    return [*parts, {"text": "."}]


def _part(part: float) -> str:
    return share(part) if part < MANY_TIMES else "many times"


def _tenants(better: Figures, worse: Figures) -> str:
    """Return the tenants that wait less and more, e.g. "Three of four tenants would have waited less; speech-co 2 min more."."""
    gains: dict[str, float] = {}
    for name, own in better["tenants"].items():
        mine, theirs = own.get("mean_wait_h"), worse["tenants"].get(name, {}).get("mean_wait_h")
        if mine is not None and theirs is not None:
            gains[name] = theirs - mine if abs(theirs - mine) >= WITHIN * max(theirs, mine) else 0.0
    less, every = sum(gain > 0 for gain in gains.values()), len(gains)
    losers = sorted((gain, name) for name, gain in gains.items() if gain < 0)
    if every < 2:
        return ""
    who = (
        ("Both" if every == 2 else f"All {_counted(every)}")
        if less == every
        else f"{_counted(less).capitalize()} of {_counted(every)}"
    )
    lost = ", ".join(f"{name} {_hours(-gain)} more" for gain, name in losers[:2])
    rest = f" and {len(losers) - 2} others more" if len(losers) > 2 else ""
    return f"{who} tenants would have waited less{f'; {lost}{rest}' if lost else ''}."


def _counted(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else number(count)


def table_of(rules: Rules, order: Sequence[str]) -> dict[str, Any]:
    """Return `columns`, `rows` and `same`, the labels of columns left out because they are equal for all rules.

    A cell has its `text`, whether it is the `best`, and in the first row `off`: how far that rule is from the best.
    """
    shown = {column.label: [_text(column, rules[name]) for name in order] for column in COLUMNS}
    same = [label for label, texts in shown.items() if len(order) > 1 and len(set(texts)) == 1]
    columns = [column for column in COLUMNS if column.label not in same][:MOST_COLUMNS]
    rows = [
        {"name": name, "cells": [_cell(column, rules, name, first=not place) for column in columns]}
        for place, name in enumerate(order)
    ]
    return {"columns": [column.label for column in columns], "rows": rows, "same": same}


def _text(column: Column, own: Figures) -> str | None:
    value = column.value(own)
    return None if value is None else column.show(value)


def _cell(column: Column, rules: Rules, name: str, *, first: bool) -> dict[str, Any]:
    text = _text(column, rules[name])
    known = {other: value for other, own in rules.items() if (value := column.value(own)) is not None}
    if text is None or len(rules) < 2:
        return {"text": text, "best": False, "off": None}
    champion = (max if column.high else min)(known, key=known.__getitem__)
    best = text == _text(column, rules[champion])
    off = -column.ahead(rules[name], rules[champion])
    return {"text": text, "best": best, "off": _part(off) if first and not best and off >= WITHIN else None}
