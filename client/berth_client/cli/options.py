"""Shared by the verbs: options that several have, and how numbers, durations and amounts are read."""

from __future__ import annotations

import argparse
import math
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

FORMATS = ("table", "wide", "json", "yaml", "name")
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,6})?) ?(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?|weeks?)\Z", re.ASCII)
_CLOCK = re.compile(r"(?:(\d{1,5})-)?(\d{1,6}):(\d{1,2})(?::(\d{1,2}))?\Z", re.ASCII)
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMGT])i?B?\Z", re.ASCII | re.IGNORECASE)
_OF_DAY = re.compile(r"\d{1,2}:\d\d(:\d\d)?\Z", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_MIB = {"K": 1 / 1024, "M": 1, "G": 1024, "T": 1024 * 1024}


def output_add(parser: argparse.ArgumentParser, *, watch: bool = False, more: tuple[str, ...] = ()) -> None:
    """Add the output options; `more`: formats that only this verb has."""
    parser.add_argument(
        "-o",
        "--output",
        choices=(*FORMATS, *more),
        default="table",
        help="how it is printed; `name`: only what it is called",
    )
    parser.add_argument(
        "--parsable", action="store_true", help="the columns of `wide` between tabs, without a heading; for scripts"
    )
    if watch:
        parser.add_argument(
            "--watch",
            nargs="?",
            type=seconds,
            const=2.0,
            metavar="S",
            help="print it again every S seconds (2), until Ctrl-C",
        )


def live_add(parser: Any, of: str, *names: str, **more: Any) -> None:
    """Add an argument that the shell completes with live values: `jobs`, `nodes`, `tenants` (`completion.LISTS`)."""
    parser.add_argument(*names, **more).completes = of


def job_add(parser: argparse.ArgumentParser, of: str = "jobs", *, several: bool = False) -> None:
    """Add the argument that names a job, or one that names several."""
    words = "the job's number: 1044, or 1044_6 for task 6 of array 1044"
    live_add(parser, of, "number", metavar="JOB", nargs="+" if several else None, help=words)


def rank_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rank", type=int, default=0, metavar="N", help="of a job on several nodes: on this one, from 0"
    )


def most_add(parser: argparse.ArgumentParser, most: int = 200) -> None:
    words = f"how many lines at most (default {most})"
    parser.add_argument("--most", type=count, default=most, metavar="N", help=words)


def act_add(parser: argparse.ArgumentParser, acts: dict[str, Any], *, needed: bool = False) -> None:
    """Add what is done with the things that a verb is about; `ls`, where none is named. `list` means `ls` too."""
    parser.add_argument(
        "act_on",
        metavar="VERB",
        nargs=None if needed else "?",
        choices=[*acts],
        default="ls",
        type=lambda text: "ls" if text == "list" else text,
        help=", ".join(acts),
    )


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)


def number(text: str) -> float:
    """Return a finite number; JSON has no others."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
    return value


def duration(text: str) -> int:
    """Return whole seconds of `90`, `90 s`, `30min`, `2h`, `1.5 d`, `1:30:00`, `0:45` (hours and minutes) or `2-12:00:00`."""
    if text.isdecimal():
        return int(text)
    if found := _TIME.match(text):
        return math.ceil(float(found[1]) * _SECONDS[found[2][0]])
    if found := _CLOCK.match(text):
        days, hours, minutes, rest = (int(part or 0) for part in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + rest
    raise argparse.ArgumentTypeError(f"{text!r} is no time; write 90s, 30min, 2h, 1d or 1:30:00 (hours first)")


def moment(text: str) -> str:
    """Return a time of ISO 8601 with its zone, the user's own where the text has none. It takes `16:00` and `now+2h` too."""
    now = datetime.now().astimezone()
    try:
        if text.startswith("now"):
            return (now + timedelta(seconds=duration(text.removeprefix("now").lstrip("+ ") or "0"))).isoformat()
        if _OF_DAY.match(text):
            at = datetime.fromisoformat(f"{now:%Y-%m-%d}T{text if text[2] == ':' else '0' + text}").astimezone()
            return (at if at > now else at + timedelta(days=1)).isoformat()
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is no time; write 2026-12-01T08:00, 16:00 or now+2h") from None


def seconds(text: str) -> float:
    found = number(text)
    if found < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is less than one second")
    return found


def mib(text: str) -> int:
    """Return whole MiB of `24G`, `24 GiB`, `512M`."""
    return math.ceil(_mib(text))


def gib(text: str) -> float:
    return _mib(text) / 1024


def _mib(text: str) -> float:
    if found := _SIZE.match(text):
        return float(found[1]) * _MIB[found[2].upper()]
    raise argparse.ArgumentTypeError(f"{text!r} is no amount; write it with its unit: 24G, 512M")


def pair(text: str) -> tuple[str, str]:
    """Return name and value of `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r}: write NAME=VALUE")
    return name, value


def artefact(text: str) -> tuple[str, str]:
    """Return job and path of `41:model/last.pt`."""
    job, _, path = text.removeprefix("#").partition(":")
    if not job or not path.strip("/"):
        raise argparse.ArgumentTypeError(f"{text!r}: write JOB:PATH, such as 41:model/last.pt or 41:checkpoints/")
    return job, path


def job_input(text: str) -> dict[str, str]:
    """Return the input of `41:model/last.pt`, or of `41:model/last.pt=start.pt` to lay it under another name."""
    source, equals, target = text.rpartition("=")
    job, path = artefact(source if equals else text)
    return {"job": job, "path": path} | ({"as": target} if equals else {})


def gpus(text: str) -> int | list[int] | dict[str, int]:
    """Return the GPU counts of `4`, `1,2,4` or `1-8`."""
    low, dash, high = text.partition("-")
    if dash and low.isdecimal() and high.isdecimal():
        return {"min": int(low), "max": int(high)}
    counts = text.split(",")
    if not all(each.isdecimal() for each in counts):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of GPUs; write 4, or 1,2,4, or 1-8")
    found = [int(each) for each in counts]
    return found[0] if len(found) == 1 else found


def array(text: str) -> dict[str, int]:
    """Return size and concurrency of `100` or `100%8`: a hundred tasks, eight at once."""
    size, percent, most = text.partition("%")
    if not size.isdecimal() or (percent and not most.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no array; write 100, or 100%8 for eight at once")
    return {"size": int(size)} | ({"concurrency": int(most)} if percent else {})


def read_labels(given: list[str]) -> dict[str, str]:
    return {name: value for name, _, value in (label.partition("=") for label in given)}


READ: dict[str, Callable[[str], Any]] = {
    "text": str,
    "whole": int,
    "number": number,
    "duration": duration,
    "mib": mib,
    "gib": gib,
    "time": moment,
    "gpus": gpus,
    "array": array,
}
"""How a flag's text is read, by its kind."""
