"""JSON from a file that nobody vouches for: bounded in depth before it is parsed, and nothing that is no number."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from portal.work.previews.source import Unreadable

MOST_DEPTH = 32
_TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)
"""A string (an unterminated one runs to the end, so that the scan stays linear), or one bracket."""


def parsed(text: str | bytes, *, strict: bool = True) -> Any:
    """Return the value. With `strict`, a text that another writer would not write back as it stands is refused.

    Without it NaN, Infinity and 1e999 are values, as Python's own writer makes them. Raises Unreadable.
    """
    try:
        words = text.decode() if isinstance(text, bytes) else text
        _shallow(words)
        if not strict:
            return json.loads(words)
        return json.loads(words, parse_constant=_refused, parse_float=_finite, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is not JSON that can be read") from error


def _shallow(text: str) -> None:
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return
    depth = 0
    for token in _TOKENS.finditer(text):
        first = text[token.start()]
        depth += (first in "[{") - (first in "]}")
        if depth > MOST_DEPTH:
            raise Unreadable(f"it is nested deeper than {MOST_DEPTH} levels")


def _refused(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(digits)
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found
