"""A file that is read in places, never beyond a set number of bytes, and the kinds of previews: one value for each.

The page has a template for each kind. All texts are cut to a set length. Each look imports this anew, and `dataclasses` would
cost it a fifth of its time.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


MIB = 1024 * 1024
MOST_BYTES = 8 * MIB
"""The most bytes that one preview reads in all."""
MOST_AT_ONCE = MIB


class Unreadable(Exception):
    """The file is not what its name or its first bytes say, or too large to look into. The text is for the reader."""


class Source:
    """A file's name and size in bytes, and `read(offset, length)`. `left` is what may still be read."""

    def __init__(self, name: str, size: int, read: Callable[[int, int], bytes], left: int = MOST_BYTES) -> None:
        self.name, self.size, self.read, self.left = name, size, read, left

    def at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset` on, fewer at the end. Raises Unreadable when too much was asked."""
        length = max(0, min(length, self.size - offset))
        if length > self.left or length > MOST_AT_ONCE:
            raise Unreadable("it says that it holds more than a preview reads")
        if offset < 0 or not length:
            return b""
        self.left -= length
        return self.read(offset, length)


class Reading(io.RawIOBase):
    """The same as a file object, for libraries that want one."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.source, self.place = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.source.size}[whence]
        if start + offset < 0:
            raise OSError("before the file's beginning")
        self.place = start + offset
        return self.place

    def read(self, size: int = -1, /) -> bytes:
        data = self.source.at(self.place, self.source.size - self.place if size is None or size < 0 else size)
        self.place += len(data)
        return data


CELL_CHARS = 200
NAME_CHARS = 160


def cut(text: str, most: int = CELL_CHARS) -> str:
    """Return the text, shortened in sight."""
    return text if len(text) <= most else text[: most - 1] + "\u2026"


class Text(NamedTuple):
    """Numbered lines. `rest`: the part that is not shown, in words; None = nothing."""

    lines: list[str]
    encoding: str
    rest: str | None = None
    kind: Literal["text"] = "text"


class Picture(NamedTuple):
    """A picture that browsers show. Width and height are what its header says, in pixels."""

    content_type: str
    width: int
    height: int
    kind: Literal["picture"] = "picture"


class Table(NamedTuple):
    head: list[str]
    rows: list[list[str]]
    rest: str | None = None
    kind: Literal["table"] = "table"


class Member(NamedTuple):
    """One tensor, array or file inside: its type and shape in words, and its size in bytes."""

    name: str
    what: str
    bytes: int | None


class Group(NamedTuple):
    """The tensors under one name of a checkpoint: how many, with how many numbers and bytes in all."""

    name: str
    count: int  # type: ignore[assignment]  # in place of the tuple's own, which nobody asks
    numbers: int
    bytes: int
    types: str


class Inside(NamedTuple):
    """The contents of a container. `facts`: single values such as ("step", "14000")."""

    title: str
    members: list[Member]
    groups: Sequence[Group] = ()
    facts: Sequence[tuple[str, str]] = ()
    rest: str | None = None
    kind: Literal["inside"] = "inside"


class Curves(NamedTuple):
    """The file holds curves; they come as figures (`portal.work.previews.curves`)."""

    kind: Literal["curves"] = "curves"


class Nothing(NamedTuple):
    """No preview, and why. `first`: its first bytes as lines of figures."""

    why: str
    first: Sequence[str] = ()
    kind: Literal["nothing"] = "nothing"


Preview = Text | Picture | Table | Inside | Curves | Nothing


_KINDS: dict[str, type[Preview]] = {
    "text": Text,
    "picture": Picture,
    "table": Table,
    "inside": Inside,
    "curves": Curves,
    "nothing": Nothing,
}


def shown_of(told: dict[str, Any]) -> Preview:
    """Return the value that the reading program sent as plain values."""
    made = dict(told)
    if made["kind"] == "inside":
        made["members"] = [Member(*each) for each in made["members"]]
        made["groups"] = [Group(*each) for each in made["groups"]]
    return _KINDS[made["kind"]](**made)


EVENTS = "events.out.tfevents."
LINES = re.compile(r"metrics(?:[-._]?\d{1,9})?\.(?:jsonl|ndjson)\Z", re.ASCII)


def holds_curves(name: str) -> bool:
    """True for `metrics.jsonl`, `metrics-3.jsonl` and TensorBoard's event files, in whatever folder."""
    last = name.rpartition("/")[2]
    return LINES.match(last) is not None or last.startswith(EVENTS)
