"""Dates as traces write them: seconds since 1970."""

from __future__ import annotations

import re

import numpy as np

_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")


_ZONE = re.compile(r"(?:Z|([+-])(0\d|1[0-4]):?([0-5]\d))\Z", re.ASCII)


def moment_of(text: str) -> tuple[float, bool] | None:
    """Return a date's seconds, of Greenwich where it names its zone, and whether it does; None when it is no such date."""
    zone = _ZONE.search(text)
    seconds = seconds_of(text[: zone.start()] if zone else text)
    if seconds is None or zone is None or zone[1] is None:
        return None if seconds is None else (seconds, zone is not None)
    ahead_s = int(zone[2]) * 3600 + int(zone[3]) * 60
    return seconds - (ahead_s if zone[1] == "+" else -ahead_s), True


def seconds_of(text: str) -> float | None:
    """The seconds of a date without a zone, `2017-10-09 07:01:55`, with a blank or a T between; None when it is no such date."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return float(np.datetime64(text, "ms").astype(np.int64)) / 1000.0
    except ValueError:
        return None
