"""The little of protocol buffers that scalar events need: fields by number, of messages that nobody vouches for."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
Field = tuple[int, int, int | bytes]


class Damaged(Exception):
    """The bytes are no message."""


def fields(data: bytes) -> Iterator[Field]:
    """Yield (number, wire type, value) of each field: a whole number, or bytes. Raises Damaged."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        kind = key & 7
        if kind == VARINT:
            value, place = _varint(data, place)
            yield key >> 3, kind, value
            continue
        if kind == BYTES:
            length, place = _varint(data, place)
        elif kind in (FIXED64, FIXED32):
            length = 8 if kind == FIXED64 else 4
        else:
            raise Damaged
        if length > len(data) - place:
            raise Damaged
        yield key >> 3, kind, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            raise Damaged
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), place
    raise Damaged


def signed(value: int) -> int:
    """Return an int64 from its 64 bits."""
    return value - 2**64 if value >= 2**63 else value


def number(data: bytes) -> float:
    """Return a float of 4 bytes or a double of 8. Raises Damaged."""
    if len(data) not in (4, 8):
        raise Damaged
    value: float = struct.unpack("<f" if len(data) == 4 else "<d", data)[0]
    return value
