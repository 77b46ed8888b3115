"""Dates as traces write them: seconds since 1970, without a time zone."""

from __future__ import annotations

import re

import numpy as np

_DATE = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?")


def seconds_of(text: str) -> float | None:
    """Of `2017-10-09 07:01:55`, with a blank or a T between; None when it is no such date."""
    if not _DATE.fullmatch(text):
        return None
    try:
        return float(np.datetime64(text, "ms").astype(np.int64)) / 1000.0
    except ValueError:
        return None
