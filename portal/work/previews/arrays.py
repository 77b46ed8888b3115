"""numpy's files: type and shape from the header, which is read as text and never evaluated; no number is loaded."""

from __future__ import annotations

import math
import re
import struct

from portal.work.previews.shown import Inside, Member, Source, Unreadable, cut

MAGIC = b"\x93NUMPY"
HEAD_BYTES = 4096
_TYPE = re.compile(r"\s*+(?:'([<>|=]?)([a-zA-Z])(\d{0,9})'|(\[.{0,3000}?\]))\s*+,", re.DOTALL)
_SHAPE = re.compile(r"\s*+\(([\d,\s]{0,600})\)")
_WORDS = {"f": "float", "i": "int", "u": "uint", "c": "complex", "b": "bool", "S": "bytes", "U": "text", "V": "void"}


def array_preview(source: Source) -> Inside:
    """Return the one array of a .npy file. Raises Unreadable."""
    return Inside("One array", [array_member(source.name.rpartition("/")[2], source.at(0, HEAD_BYTES))])


def array_member(name: str, head: bytes) -> Member:
    """Return the array that its first bytes describe. Raises Unreadable."""
    if not head.startswith(MAGIC) or len(head) < 12:
        raise Unreadable("it is no array of numpy's")
    wide = head[6] >= 2
    (length,) = struct.unpack("<I", head[8:12]) if wide else struct.unpack("<H", head[8:10])
    start = 12 if wide else 10
    text = head[start : min(start + length, HEAD_BYTES)].decode("latin-1")
    kind, shape = _after("'descr':", text, _TYPE), _after("'shape':", text, _SHAPE)
    if kind is None or shape is None:
        raise Unreadable("the header of the array cannot be read")
    words = [side for each in shape[1].split(",") if (side := each.strip())]
    sides = [int(side) for side in words if side.isdecimal()]
    if len(sides) < len(words) or len(sides) > 32 or math.prod(sides) >= 2**63:
        raise Unreadable("the shape of the array is not possible")
    if kind[4]:
        return Member(cut(name), f"{shape_words(sides)} of records {cut(kind[4], 80)}", None)
    width = int(kind[3] or 0) * (4 if kind[2] == "U" else 1)
    if kind[2] == "O":
        return Member(cut(name), f"{shape_words(sides)} of Python objects, which are not opened", None)
    kind_words = f"{_WORDS.get(kind[2], kind[2])}{width * 8 if kind[2] in 'fiuc' else ''}"
    return Member(cut(name), f"{shape_words(sides)} {kind_words}", math.prod(sides) * width)


def _after(word: str, text: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Match once, after the first `word`: a header that repeats the word is not tried again from each."""
    before, found, _ = text.partition(word)
    return pattern.match(text, len(before) + len(found)) if found else None


def shape_words(sides: list[int]) -> str:
    """Return [3, 224] as "3 x 224", [] as "one value"."""
    return cut(" \u00d7 ".join(str(side) for side in sides), 80) if sides else "one value"
