"""Files for the tests of previews: from bytes, and one that is larger than any disk."""

import os
import struct

from portal.work.previews.asking import Given, asked
from portal.work.previews.preview import reader_of
from portal.work.previews.shown import Source


def source(name, data):
    data = data.encode() if isinstance(data, str) else data
    return Source(name, len(data), lambda start, length: data[start : start + length])


def preview_of(of):
    """Return what a file shows, read in this process."""
    return reader_of(of)(of)


def looked(name, data, what="preview"):
    def opened():
        file = os.memfd_create("given")
        os.write(file, data)
        return [Given(name, len(data), file)]

    return asked(name, what, opened)


class Endless:
    """A file of `size` bytes that repeats one pattern, and counts what is read of it."""

    def __init__(self, size, pattern=b"x"):
        self.size, self.pattern, self.read_bytes = size, pattern, 0

    def read(self, start, length):
        self.read_bytes += length
        start %= len(self.pattern)
        return (self.pattern * (length // len(self.pattern) + 2))[start : start + length]

    def source(self, name):
        return Source(name, self.size, self.read)


TABLE = []
for code in range(256):
    for _ in range(8):
        code = code >> 1 ^ (0x82F63B78 if code & 1 else 0)  # noqa: PLW2901 - as the standard has it
    TABLE.append(code)


def crc(data):
    """The masked CRC-32C of TFRecord, byte by byte."""
    value = 0xFFFFFFFF
    for byte in data:
        value = TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17 & 0xFFFFFFFF) + 0xA282EAD8) % 2**32


def framed(data):
    head = struct.pack("<Q", len(data))
    return head + struct.pack("<I", crc(head)) + data + struct.pack("<I", crc(data))


def varint(value):
    value &= 2**64 - 1
    out = b""
    while value >= 0x80:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def message(*fields):
    """Fields (number, value): bytes, an int as varint, a float as 4 bytes, ("d", float) as 8."""
    out = b""
    for number, value in fields:
        if isinstance(value, bytes):
            out += varint(number << 3 | 2) + varint(len(value)) + value
        elif isinstance(value, tuple):
            out += varint(number << 3 | 1) + struct.pack("<d", value[1])
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            out += varint(number << 3) + varint(value)
    return out


def scalar_event(step, **values):
    summary = message(*((1, message((1, tag.encode()), (2, float(value)))) for tag, value in values.items()))
    return framed(message((1, ("d", 1.7e9)), (2, step), (5, summary)))
