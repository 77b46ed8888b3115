"""Scalars of TensorBoard's event files (`events.out.tfevents...`), as PyTorch, TensorFlow and Lightning write them.

A record is its length (8 bytes), the length's checksum (4), the data and the data's checksum (4). The checksum of the
length also finds the next record in the middle of a file: behind damage, or in a block of a long file.
Formats: tensorflow/core/lib/io/record_writer.h; tensorflow/core/util/event.proto; tensorflow/core/framework/summary.proto.
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING

from portal.work.previews.curves.points import blocks, is_sampled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from portal.work.previews.curves.points import Points
    from portal.work.previews.shown import Source


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


POLYNOMIAL = 0x82F63B78
MASK = 0xA282EAD8


@functools.cache
def _table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [each >> 1 ^ (POLYNOMIAL if each & 1 else 0) for each in table]
    return table


def masked(data: bytes) -> int:
    """Return the masked sum of the bytes."""
    table, value = _table(), 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17 & 0xFFFFFFFF) + MASK) & 0xFFFFFFFF


@functools.cache
def head_sum(length: int) -> bytes:
    """Return the four bytes that follow a record's length."""
    return struct.pack("<I", masked(struct.pack("<Q", length)))


HEAD, TAIL = 12, 4
ZEROS = b"\0" * 6
"""The upper bytes of each length that is read here."""
MOST_RECORD_BYTES = 4096
"""A longer record is a picture or a histogram: it is passed over unread."""
MOST_SCALARS_A_RECORD = 2000
DT_FLOAT, DT_DOUBLE = 1, 2


def events_read(source: Source, points: Points, *, most: int, prefix: str = "") -> None:
    """Add the scalars of a file. Damaged records are counted and passed over."""
    points.thinned |= is_sampled(source, most)
    carry = b""
    for joined, block in blocks(source, most):
        data = (carry if joined else b"") + block
        records, used = _records(data)
        for record in _whole(data, records, points):
            if not points.may_read():
                return
            _event(record, points, prefix)
        carry = data[used:]


def _records(data: bytes) -> tuple[list[tuple[int, int]], int]:
    """Return (start, length) of the records' data in a block, and where the last, unfinished one begins."""
    found: list[tuple[int, int]] = []
    place = 0
    for head in _heads(data):
        (length,) = struct.unpack_from("<Q", data, head)
        if head < place:
            continue
        place = head + HEAD + length + TAIL
        if place > len(data):
            return found, head
        found.append((head + HEAD, length))
    return found, max(place, len(data) - HEAD + 1)


def _heads(data: bytes) -> Iterator[int]:
    """Yield each place where a length that is read here is followed by its checksum."""
    place = data.find(ZEROS, 2) - 2
    while place >= 0:
        (length,) = struct.unpack_from("<H", data, place)
        if length <= MOST_RECORD_BYTES and data[place + 8 : place + HEAD] == head_sum(length):
            yield place
        place = data.find(ZEROS, place + 3) - 2


def _whole(data: bytes, records: list[tuple[int, int]], points: Points) -> Iterator[bytes]:
    """Yield the records whose checksum is right; count the others."""
    for start, length in records:
        record = data[start : start + length]
        if masked(record) == struct.unpack_from("<I", data, start + length)[0]:
            yield record
        else:
            points.damaged += 1


def _event(record: bytes, points: Points, prefix: str) -> None:
    """Read one event: its time (field 1), its step (field 2) and its summary (field 5)."""
    step, summary, at = 0, b"", None
    try:
        for field, kind, value in fields(record):
            if field == 2 and kind == VARINT:
                step = signed(int(value))
            elif field == 1 and kind == FIXED64 and isinstance(value, bytes):
                at = number(value)
            elif field == 5 and kind == BYTES and isinstance(value, bytes):
                summary = value
        for taken, (name, scalar) in enumerate(_scalars(summary)):
            if taken >= MOST_SCALARS_A_RECORD:
                return
            points.add(prefix + name, float(step), scalar, at)
    except Damaged:
        points.damaged += 1


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    """Yield tag (field 1) and value (field 2, or a tensor of one number in field 8) of each value in a summary."""
    for field, kind, value in fields(summary):
        if field != 1 or kind != BYTES or not isinstance(value, bytes):
            continue
        tag, found = "", None
        for inner, inner_kind, data in fields(value):
            if inner == 1 and isinstance(data, bytes):
                tag = data[:400].decode("utf-8", "replace")
            elif inner == 2 and inner_kind == FIXED32 and isinstance(data, bytes):
                found = number(data)
            elif inner == 8 and isinstance(data, bytes):
                found = _one_number(data)
        if tag and found is not None:
            yield tag, found


def _one_number(tensor: bytes) -> float | None:
    """Return the number of a tensor that holds one: in its content (field 4), or as float (5) or double (6) values."""
    kind, found = 0, None
    for field, wire, data in fields(tensor):
        if field == 1 and wire == VARINT:
            kind = int(data)
        elif field in (4, 5, 6) and isinstance(data, bytes) and len(data) in (4, 8):
            found = data
    wanted = {DT_FLOAT: 4, DT_DOUBLE: 8}.get(kind)
    return number(found) if found is not None and len(found) == wanted else None
