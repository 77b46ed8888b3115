"""How sbatch writes times, amounts, counts and lists. Each function raises NotRead with a sentence.

Every pattern here reads a text once: no part of it can be matched in two ways.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

from portal.work.jobs.description_parts import SINGLETON

MOST = 10**7
"""The most of any count; a job description allows less."""
MOST_TASKS = 100_000
MOST_LISTED = 1000
MOST_COUNTS = 64
_COUNT = re.compile(r"([0-9]{1,8})([kKmM]?)")
_MEMORY = re.compile(r"([0-9]{1,12})([KMGT]?)B?", re.IGNORECASE)
_CLOCK = re.compile(r"[0-9]{1,8}(:[0-9]{1,8}){0,2}")
_RANGE = re.compile(r"([0-9]{1,8})(?:-([0-9]{1,8})(?::([0-9]{1,8}))?)?")
_DELTA = re.compile(r"now\+([0-9]{1,8})([smhdw]?)[a-z]{0,6}")
_OF_DAY = re.compile(r"([0-9]{1,2})(:[0-9]{2})(:[0-9]{2})?([ap]m)?")
_AMERICAN = re.compile(r"([0-9]{2})(/?)([0-9]{2})\2([0-9]{2})")
_HOURS = {"midnight": "0:00", "elevenses": "11:00", "noon": "12:00", "fika": "15:00", "teatime": "16:00"}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_SCALE = {"": 1, "k": 1024, "m": 1024 * 1024}


class NotRead(Exception):
    """The value is not as sbatch writes it; the text says what is."""


def shown(value: str) -> str:
    """Return a value fit for a sentence."""
    text = "".join(char if char.isprintable() else "?" for char in value[:61])
    return f"'{text[:60]}...'" if len(text) > 60 else f"'{text}'"


def count(value: str) -> int:
    found = _COUNT.fullmatch(value)
    number = int(found[1]) * _SCALE[found[2].lower()] if found else 0
    if not 1 <= number <= MOST:
        raise NotRead(f"{shown(value)} is no number of 1 or more")
    return number


def counts(value: str) -> tuple[int, ...]:
    """Return the numbers of `4`, `2-4`, `1-9:4` or `2,4,8`, the least first; of very many the least and the most."""
    found: set[int] = set()
    for each in value.split(","):
        span, colon, by = each.partition(":")
        low, dash, high = span.partition("-")
        ends = count(low), count(high if dash else low)
        if ends[0] > ends[1]:
            raise NotRead(f"{shown(each)} ends before it begins")
        numbers = range(ends[0], ends[1] + 1, count(by) if colon else 1)
        found |= {*numbers} if len(numbers) <= MOST_COUNTS else {*ends}
    whole = tuple(sorted(found))
    return whole if len(whole) <= MOST_COUNTS else (whole[0], whole[-1])


def sockets(value: str) -> int | None:
    """Return the sockets of `2`, `2:8` or `2:8:1`, as -B says sockets, cores of each and threads of each; None: any."""
    first, *others = [None if each == "*" else count(each) for each in value.split(":")]
    if len(others) > 2:
        raise NotRead(f"{shown(value)} is more than sockets, cores and threads; sbatch writes 2:8:1")
    return first


def seconds(value: str) -> int | None:
    """Return seconds of `M`, `M:S`, `H:M:S`, `D-H`, `D-H:M` or `D-H:M:S`; None: no limit."""
    if value.lower() in {"0", "infinite", "unlimited", "-1"}:
        return None
    days, dash, clock = value.rpartition("-")
    if not _CLOCK.fullmatch(clock) or (dash and not (days.isascii() and days.isdecimal() and len(days) < 9)):
        raise NotRead(f"{shown(value)} is no time; sbatch writes 90, 90:00, 1:30:00, 1-12, 1-12:30 or 1-12:30:00")
    parts = [int(part) for part in clock.split(":")]
    if dash:
        hours, minutes, rest = (*parts, 0, 0)[:3]
    else:
        hours, minutes, rest = {1: (0, parts[0], 0), 2: (0, *parts), 3: tuple(parts)}[len(parts)]
    found = ((int(days or 0) * 24 + hours) * 60 + minutes) * 60 + rest
    return found or None


def moment(value: str, now: datetime) -> tuple[datetime, bool]:
    """Return the time of `16:00`, `4:00PM`, `noon`, `tomorrow`, `2026-12-01T08:00`, `12/01/26` or `now+2hours`.

    Also return whether it is exact: where the text names no zone, it is read in that of `now`.
    """
    text = "".join(value.lower().split())
    try:
        if found := _DELTA.fullmatch(text):
            return now + timedelta(seconds=int(found[1]) * _SECONDS[found[2]]), True
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        if text in {"today", "tomorrow"}:
            return today + timedelta(days=text == "tomorrow"), False
        if found := _OF_DAY.fullmatch(_HOURS.get(text, text)):
            hour = int(found[1]) % 12 + 12 * (found[4] == "pm") if found[4] else int(found[1])
            at = datetime.fromisoformat(f"{now:%Y-%m-%d}T{hour:02}{found[2]}{found[3] or ''}").replace(
                tzinfo=now.tzinfo
            )
            return at if at > now else at + timedelta(days=1), False
        at = datetime.fromisoformat(_AMERICAN.sub(r"20\4-\1-\3", text) if _AMERICAN.fullmatch(text) else text.upper())
        return (at, True) if at.tzinfo else (at.replace(tzinfo=now.tzinfo), False)
    except (ValueError, OverflowError):
        raise NotRead(
            f"{shown(value)} is no time that --begin can have here; write 2026-12-01T08:00, 16:00 or now+2hours"
        ) from None


def mib(value: str) -> int:
    """Return whole MiB of `4000`, `16G`, `512K`; 0: all that a node has."""
    found = _MEMORY.fullmatch(value)
    if not found:
        raise NotRead(f"{shown(value)} is no amount of memory; sbatch writes 4000M, 16G or 1T")
    amount = int(found[1]) * _MIB[found[2].upper()]
    return -int(-amount // 1)


def outside_quotes(value: str) -> list[str]:
    """Return the parts between commas; one inside quotation marks parts nothing, and the marks go."""
    parts, mark = [""], ""
    for char in value:
        if char == mark:
            mark = ""
        elif not mark and char in "'\"":
            mark = char
        elif not mark and char == ",":
            parts.append("")
        else:
            parts[-1] += char
    if mark:
        raise NotRead(f"{shown(value)} opens a quotation that does not end")
    return parts


class Gpus(NamedTuple):
    number: int
    type: str | None


def gpus(value: str) -> Gpus:
    """Return the GPUs of `2`, `a100:2` or `a100`; of several types, joined by commas, NotRead."""
    if "," in value:
        raise NotRead(
            "it asks for several GPU types at once; a job has GPUs of one type here. Name one, or none for any"
        )
    head, _, tail = value.rpartition(":")
    if not head and not value.isdecimal():
        return Gpus(1, value)
    number = 0 if tail == "0" else count(tail)
    return Gpus(number, head or None)


def gres(value: str) -> tuple[Gpus | None, list[str]]:
    """Return the GPUs of `gpu:a100:2,nvme:1`, and the names of the rest."""
    found: Gpus | None = None
    others = []
    for part in value.split(","):
        bare = part.partition("(")[0].removeprefix("gres/").removeprefix("gres:")
        name, colon, rest = bare.replace("=", ":").partition(":")
        if name == "none":
            continue
        if name != "gpu":
            others.append(name)
        elif found is not None:
            raise NotRead("it asks for GPUs twice; a job has GPUs of one type here")
        else:
            found = gpus(rest) if colon else Gpus(1, None)
    return found, others


class Array(NamedTuple):
    """Task numbers: evenly spaced from `first` by `step`, or listed."""

    size: int
    first: int
    step: int
    listed: tuple[int, ...]
    at_once: int | None


def array(value: str) -> Array:
    """Return the tasks of `0-15`, `1-100:10`, `1,3,5-7`, each with `%N` at the end."""
    tasks, percent, most = value.partition("%")
    at_once = count(most) if percent else None
    ranges = [_span(part) for part in tasks.split(",")]
    size = sum(len(span) for span in ranges)
    if size > MOST_TASKS:
        raise NotRead(f"it has {size} tasks; at most {MOST_TASKS} are allowed")
    if len(ranges) == 1:
        return Array(size, ranges[0].start, ranges[0].step, (), at_once)
    if size > MOST_LISTED:
        raise NotRead(f"it lists {size} tasks in several ranges; at most {MOST_LISTED}: write one range")
    numbers = tuple(sorted({number for span in ranges for number in span}))
    return Array(len(numbers), numbers[0], 0, numbers, at_once)


def _span(text: str) -> range:
    found = _RANGE.fullmatch(text)
    if not found:
        raise NotRead(
            f"{shown(text)} is no range of tasks; sbatch writes 0-15, 0-15:4 or 1,3,5, with %4 for four at once"
        )
    low, high, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if low > high or step < 1:
        raise NotRead(f"{shown(text)} ends before it begins, or goes on by steps of 0")
    return range(low, high + 1, step)


def dependencies(value: str) -> list[dict[str, int | str]]:
    """Return the jobs that `afterok:12:13,afterany:14` waits for, as `depends_on` takes them."""
    if "?" in value:
        raise NotRead("`?` lets one of several dependencies suffice; here all must come true. Write them with commas")
    kinds = {"afterok": "ok", "afterany": "any", "afternotok": "notok"}
    found: list[dict[str, int | str]] = []
    for part in value.split(","):
        kind, _, jobs = part.partition(":")
        if part.lower() == SINGLETON:
            found.append({"kind": SINGLETON})
            continue
        if kind.lower() not in kinds:
            raise NotRead(
                _OTHER_KINDS.get(
                    kind.lower(),
                    f"{shown(kind)} is no kind of dependency; afterok, afterany, afternotok and singleton are",
                )
            )
        for job in jobs.split(":"):
            if not (job.isascii() and job.isdecimal() and len(job) < 19 and int(job)):
                raise NotRead(f"{shown(job)} is no number of a job; write the number of a job of this Berth")
            found.append({"job": int(job), "kind": kinds[kind.lower()]})
    return found


_OTHER_KINDS = {
    "after": "a job cannot wait here for the start of another; use afterok or afterany",
    "aftercorr": "tasks of an array cannot wait here each for its counterpart; use afterok for the whole array",
    "afterburstbuffer": "there are no burst buffers here; use afterok",
    "expand": "a job cannot be made larger by another here; accept several numbers of GPUs instead",
}
