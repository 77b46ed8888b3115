"""Find the lines of a log that have a pattern. Pure, and its cost is bounded whatever pattern and log say.

A pattern is text; `*` is any text within the line. Its pieces are found one after the other, each at its first place:
with no other wildcard that is right, and nothing is ever tried again. A line has what a person saw of it: each of its
drawings, where a bar overwrites itself, and the text that they leave together once it is over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from portal.work.jobs.log_lines import is_plain, lines_drawn, utf8_whole

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

TAIL_BYTES = 4096
"""The most of a line that goes on in the next piece and is looked through again with it."""
LINES_TRIED = 8192
"""The most lines of one piece that are looked at closely for one pattern: a quarter of a MiB has this many of 32 bytes.

Those beyond are not looked at; a log that reaches it with a pattern of several pieces has them in almost every line.
"""
_AGAIN = "\r"
"""Stands between the drawings of one line."""
_DRAWN = re.compile(rf"[\n{_AGAIN}]")


@dataclass(frozen=True, slots=True)
class Tail:
    """A line that is not over: how it begins, and the places of the patterns that it had already."""

    text: bytes = b""
    had: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Found:
    """`place`: of the pattern; `lines`: how many had it; `first` and `last` of them."""

    place: int
    lines: int
    first: str
    last: str


def lines_find(patterns: Sequence[str], tail: Tail, data: bytes) -> tuple[list[Found], Tail]:
    """Look through a piece that follows on `tail`; return the hits, and how the piece ends. Linear in its bytes."""
    raw = tail.text + data
    text = _seen(utf8_whole(raw))
    last_line = text.rfind("\n") + 1
    found, had = [], set(tail.had if last_line == 0 else ())
    for place, pattern in enumerate(patterns):
        starts = _starts(text, pattern, after_first=place in tail.had)
        if starts:
            found.append(Found(place, len(starts), _line(text, starts[0]), _line(text, starts[-1])))
            if starts[-1] >= last_line:
                had.add(place)
    return found, Tail(raw[raw.rfind(b"\n") + 1 :][-TAIL_BYTES:], frozenset(had))


def _seen(raw: bytes) -> str:
    """Return the lines as they are shown, with all drawings of each; the last one is not over."""
    text = raw.decode("utf-8", "replace")
    if is_plain(text):
        return text
    *whole, last = lines_drawn(text)
    return "\n".join(map(_AGAIN.join, [*whole, last[:-1] or last]))


def _line(text: str, start: int) -> str:
    return text[start : _drawn_to(text, start)]


def _starts(text: str, pattern: str, *, after_first: bool) -> list[int]:
    """Return where the drawings begin that have the pattern, one of a line; `after_first`: the first line was sent before."""
    pieces = [each for each in pattern.split("*") if each]
    longest = max(pieces, key=len)
    at = _end(text, 0) if after_first else 0
    starts = []
    for _ in range(LINES_TRIED):
        here = text.find(longest, at)
        if here < 0:
            break
        start, end = max(text.rfind("\n", at, here), text.rfind(_AGAIN, at, here), at - 1) + 1, _drawn_to(text, here)
        if _has(text, pieces, start, end):
            starts.append(start)
            end = _end(text, here)
        at = end
    return starts


def _end(text: str, at: int) -> int:
    """Return where the line after this place's begins, or the text's end."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _drawn_to(text: str, at: int) -> int:
    """Return where the drawing of this place ends."""
    found = _DRAWN.search(text, at)
    return found.start() if found else len(text)


def _has(text: str, pieces: Collection[str], start: int, end: int) -> bool:
    at = start
    for piece in pieces:
        at = text.find(piece, at, end)
        if at < 0:
            return False
        at += len(piece)
    return True
