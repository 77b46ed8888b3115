"""The rule of a line of a job's output: for the page, REST, the command line, patterns, and tails. Pure, at a bounded cost.

Only a line feed ends a line. A line is shown as a terminal leaves it: a carriage return begins it anew, and what follows
overwrites. Codes that colour, move over lines or name windows are dropped, and so are control characters and marks that turn
the direction of text.
"""

from __future__ import annotations

import re
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

LINE_BYTES = 64 * 1024
"""A line of more bytes is read in pieces: of redraws, only what the last one of a piece begins is kept."""
CODE_BYTES = 128
"""A piece ends before a code that began so near its end."""
_HIDDEN = r"\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufeff"
_SPECIAL = re.compile(f"[{_HIDDEN}]")
_TOKEN = re.compile(
    r"(?P<move>\r+|\x08|\x1b\[(?P<count>[0-9]{0,4})(?P<kind>[CDGK]))"
    r"|\x1b(?:\[[0-?]*[ -/]*[@-~]?|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~]?)"
    rf"|(?P<text>[^{_HIDDEN}]+)|."
)
"""Every alternative takes all it can and none fails after it began, so the work grows only with the text."""


class Cut(NamedTuple):
    """A line, or a piece of a long one, as it was written. `ended`: a line feed follows; `redrawn`: later text overwrites it."""

    data: bytes
    ended: bool = False
    redrawn: bool = False


class Cutter:
    """Cuts one stream into lines, the same ones for any pieces of the stream. `rest`: the part that has not ended."""

    def __init__(self, most: int = LINE_BYTES) -> None:
        self.rest, self._most = b"", most

    def cut(self, data: bytes) -> Iterator[Cut]:
        *whole, rest = (self.rest + data).split(b"\n")
        for line in whole:
            at = yield from self._pieces(line)
            yield Cut(line[at:], ended=True)
        self.rest = rest[(yield from self._pieces(rest)) :]

    def _pieces(self, line: bytes) -> Generator[Cut, None, int]:
        """Yield pieces of a line that is too long; return where its rest begins."""
        at = 0
        while len(line) - at > self._most:
            look = line[at : at + self._most]
            redrawn = look.rfind(b"\r") + 1
            piece = look[:redrawn] or _before_a_code(utf8_whole(look)) or look
            yield Cut(piece, redrawn=bool(redrawn))
            at += len(piece)
        return at


def _before_a_code(piece: bytes) -> bytes:
    begun = piece.rfind(b"\x1b", max(0, len(piece) - CODE_BYTES))
    return piece if begun < 0 else piece[:begun]


def utf8_whole(data: bytes) -> bytes:
    """Drop an incomplete UTF-8 character at the end: its other bytes have not been read yet."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0b1100_0000 == 0b1000_0000:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needed > back else data
    return data


def line_shown(data: bytes) -> str:
    """Return the text that a line, without its line feed, leaves on a terminal."""
    text = data.rstrip(b"\r").decode("utf-8", "replace")
    return text if is_plain(text) else _drawn(text)[-1]


def is_plain(text: str) -> bool:
    """Say whether lines are shown as they were written."""
    return _SPECIAL.search(text) is None


def lines_drawn(text: str) -> Iterator[list[str]]:
    """Yield for each line what was drawn of it, one drawing after the other, and at last what they leave together."""
    for line in map(str.rstrip, text.split("\n"), repeat("\r")):
        yield [line] if is_plain(line) else _drawn(line)


def _drawn(line: str) -> list[str]:
    cells: list[str] = []
    drawn: list[str] = []
    run: list[str] = []
    at = 0
    for token in _TOKEN.finditer(line):
        if text := token["text"]:
            cells[at : at + len(text)] = text
            at += len(text)
            run.append(text)
        elif token["move"]:
            at = _moved(cells, at, token["kind"] or token["move"][0], int(token["count"] or 0))
            if run:
                drawn.append("".join(run))
                run.clear()
    return [*drawn, "".join(run), "".join(cells)]


def _moved(cells: list[str], at: int, kind: str, count: int) -> int:
    """Carry out what moves the cursor or erases; return where the cursor is: one blank behind the line's end at most."""
    if kind == "K":
        if count == 2:
            at = 0
        if count in {0, 2}:
            del cells[at:]
        return at
    to = {"\r": 0, "\x08": at - 1, "G": count - 1, "C": at + max(count, 1), "D": at - max(count, 1)}[kind]
    if to > len(cells):
        cells.append(" ")
    return max(0, min(to, len(cells)))
