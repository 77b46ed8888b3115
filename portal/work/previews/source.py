"""A file that is read in places, and never more of it than a set number of bytes."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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
