"""CRC-32C as TensorBoard's files have it (TFRecord: rotated and shifted, "masked")."""

from __future__ import annotations

import functools
import struct

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
