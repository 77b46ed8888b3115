"""A part's secrets, in its shim: taken from the agent through memory, and left out of the job's log.

The agent gives them as standard input, a file in memory, so that no disk of the node ever holds a value.
Standard library only; few shims need it.
"""

from __future__ import annotations

import json
import os
import re
from bisect import bisect_left, bisect_right
from typing import Any

SHORTEST = 8
"""Lines of a value with fewer characters are not left out of the log: they may be common words."""
LONGEST = 1024
"""Longer lines are looked for in pieces, so that a log of one letter costs no more than another."""
SHOWN = b"***"
MOST_HELD = 16 * 1024
"""Most bytes held back that may begin a piece: a job that puts endless codes into it gives it away."""
_UNSEEN = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)"
    rb"|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2(?:[\x80-\x9f]|\Z)"
    rb"|\xe2(?:\x80(?:[\xaa-\xae]|\Z)|\x81(?:[\xa6-\xa9]|\Z)|\Z)|\xef(?:\xbb(?:\xbf|\Z)|\Z)"
)
"""Codes that the portal drops from a shown line (its `output.lines`), also cut at the end: they may stand within a piece."""
MOST_PIECES, MOST_BYTES = 256, 16 * 1024
"""Most pieces that are searched whole. Each costs time for each chunk of the log, and the tenant chooses their number."""


def secrets_take(launch: dict[str, Any]) -> None:
    """Put the agent's secrets into the launch: variables, `code_secret`, and `masked`, the values that no log may show.

    Without it, `not_handed` says why the job cannot begin.
    """
    with os.fdopen(os.dup(0), "rb") as file:
        text = file.read()
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)  # with this the memory is given back
    os.close(nothing)
    try:
        given = json.loads(text)
        variables, code = dict(given["environment"]), str(given["code"])
    except (ValueError, KeyError, TypeError):
        launch["not_handed"] = (
            "its secrets did not reach its shim; the node's agent is older than the portal, or was killed"
        )
        return
    launch["environment"] = {**launch["environment"], **variables}
    launch["code_secret"] = code
    launch["masked"] = pieces_of([*variables.values(), code])


def pieces_of(values: list[str]) -> list[bytes]:
    """Return the pieces to search: each line of each value, the long ones cut."""
    found = set()
    for value in values:
        for line in value.encode().split(b"\n"):
            text = line.strip()
            while len(text) >= SHORTEST:
                keep = len(text) if len(text) < LONGEST + SHORTEST else LONGEST
                found.add(text[:keep])
                text = text[keep:]
    return sorted(found)


def mask_of(pieces: list[bytes]) -> Mask | LineMask:
    few = len(pieces) <= MOST_PIECES and sum(map(len, pieces)) <= MOST_BYTES
    return Mask(pieces) if few else LineMask(pieces)


class Seen:
    """A text without what nobody sees, and where the rest of it stands in the text."""

    def __init__(self, text: bytes) -> None:
        self.text, self._at, self._from = text, [0], [0]
        if _UNSEEN.search(text):
            kept, size, end = [], 0, 0
            for unseen in _UNSEEN.finditer(text):
                kept.append(text[end : unseen.start()])
                size, end = size + unseen.start() - end, unseen.end()
                self._at.append(size)
                self._from.append(end)
            self.text = b"".join([*kept, text[end:]])

    def origin(self, at: int) -> int:
        """Return where a byte that is seen stands in the text."""
        run = bisect_right(self._at, at) - 1
        return self._from[run] + at - self._at[run]

    def place(self, origin: int) -> int:
        """Return the place among what is seen of a byte of the text."""
        run = bisect_right(self._from, origin) - 1
        return self._at[run] + origin - self._from[run]


class Mask:
    """Shows `***` in place of each of `pieces` in a stream that comes in chunks, wherever these are cut."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = [(piece, _borders(piece)) for piece in pieces]
        self._held = b""
        self._told = 0  # of the held bytes, these are already shown as `***`

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to show now. Bytes that may begin a piece are held until more comes."""
        text = self._held + data
        seen, until = Seen(text), len(text)
        if begun := self._longest_begun(seen.text):
            until = seen.origin(len(seen.text) - begun)
        until = min(until, len(text) - self._longest_begun(text))
        return self._show(text, seen, until if len(text) - until <= MOST_HELD else len(text))

    def end(self) -> bytes:
        return self._show(self._held, Seen(self._held), len(self._held))

    def _longest_begun(self, text: bytes) -> int:
        return max((_count_begun(text, *each) for each in self._pieces), default=0)

    def _show(self, text: bytes, seen: Seen, until: int) -> bytes:
        out, at = [], 0
        for begin, end in self._spans(text, seen):
            goes_on = begin == 0 and self._told > 0
            if begin >= until and not goes_on:
                break
            out += [text[at:begin]] if goes_on else [text[at:begin], SHOWN]
            at = end
        out.append(text[at:until])
        self._held, self._told = text[until:], max(0, at - until)
        return b"".join(out)

    def _spans(self, text: bytes, seen: Seen) -> list[tuple[int, int]]:
        """Return the covered ranges in order; pieces that overlap are one."""
        found = [(0, self._told)] if self._told else []
        found += self._find(text)
        if seen.text is not text:
            found += [(seen.origin(begin), seen.origin(end - 1) + 1) for begin, end in self._find(seen.text)]
        merged: list[tuple[int, int]] = []
        for begin, end in sorted(found):
            if merged and begin < merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((begin, end))
        return merged

    def _find(self, text: bytes) -> list[tuple[int, int]]:
        found = []
        for piece, borders in self._pieces:
            step, at = len(piece) - borders[-1], text.find(piece)
            while at >= 0:
                found.append((at, at + len(piece)))
                at = text.find(piece, at + step)
        return found


class LineMask:
    """Shows `***` from the beginning of one of very many pieces to the end of the line: its cost does not grow with them."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._beginnings = {piece[:SHORTEST] for piece in pieces}
        self._sorted = sorted(self._beginnings)
        self._held, self._hides = b"", False

    def feed(self, data: bytes) -> bytes:
        """Return the bytes to show now. Bytes that may begin a piece are held until more comes."""
        text, out, at = self._held + data, [], 0
        seen = Seen(text)
        starts = self._starts(text)
        if seen.text is not text:
            starts = sorted([*starts, *map(seen.origin, self._starts(seen.text))])
        self._held = b""
        while at < len(text):
            if self._hides:
                line_end = text.find(b"\n", at)
                at, self._hides = (len(text), True) if line_end < 0 else (line_end, False)
                continue
            following = bisect_left(starts, at)
            if following == len(starts):
                until = self._until(text, seen, at)
                self._held = text[until:]
                out.append(text[at:until])
                break
            out += [text[at : starts[following]], SHOWN]
            at, self._hides = starts[following], True
        return b"".join(out)

    def end(self) -> bytes:
        held, self._held = self._held, b""
        return held

    def _starts(self, text: bytes) -> list[int]:
        return [i for i in range(len(text) - SHORTEST + 1) if text[i : i + SHORTEST] in self._beginnings]

    def _until(self, text: bytes, seen: Seen, at: int) -> int:
        """Return where what may begin a piece stands, at the end of the text."""
        until = len(text) - self._tail(text[at:])
        if begun := self._tail(seen.text[seen.place(at) :]):
            until = min(until, seen.origin(len(seen.text) - begun))
        return until if len(text) - until <= MOST_HELD else len(text)

    def _tail(self, text: bytes) -> int:
        """Return how many bytes at the end may begin a piece."""
        lengths = range(min(SHORTEST - 1, len(text)), 0, -1)
        for length in lengths:
            place = bisect_left(self._sorted, tail := text[-length:])
            if place < len(self._sorted) and self._sorted[place].startswith(tail):
                return length
        return 0


def _borders(piece: bytes) -> list[int]:
    """Return for each prefix of a piece the length of the longest shorter prefix that ends it (Knuth, Morris and Pratt)."""
    found, length = [0] * len(piece), 0
    for place in range(1, len(piece)):
        while length and piece[place] != piece[length]:
            length = found[length - 1]
        length += piece[place] == piece[length]
        found[place] = length
    return found


def _count_begun(text: bytes, piece: bytes, borders: list[int]) -> int:
    """Return how many bytes at the end of the text begin a piece that is not whole."""
    length = 0
    for byte in text[max(0, len(text) - len(piece) + 1) :]:
        while length and byte != piece[length]:
            length = borders[length - 1]
        length += byte == piece[length]
    return length
