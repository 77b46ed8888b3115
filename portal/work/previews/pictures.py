"""Pictures: kind and size from the header. The reader's browser decodes them, never the portal."""

from __future__ import annotations

import struct

from portal.work.previews.shown import Picture, Source, Unreadable

MOST_SIDE = 16_384
MOST_PIXELS = 40_000_000
MOST_PICTURE_BYTES = 20 * 1024 * 1024
JPEG_HEAD_BYTES = 512 * 1024
TYPES = {"png": "image/png", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp"}


def picture_kind(first: bytes) -> str | None:
    """Return png, jpeg, gif or webp by the first 16 bytes; None for all else, SVG too: it may hold scripts."""
    if first.startswith(b"\x89PNG\r\n\x1a\n"):
        return "png"
    if first.startswith(b"\xff\xd8\xff"):
        return "jpeg"
    if first[:6] in (b"GIF87a", b"GIF89a"):
        return "gif"
    return "webp" if first[:4] == b"RIFF" and first[8:12] == b"WEBP" else None


def picture_preview(source: Source) -> Picture:
    """Return a picture that a browser can show without harm. Raises Unreadable for all others."""
    first = source.at(0, 32)
    kind = picture_kind(first)
    if kind is None:
        raise Unreadable("it is no PNG, JPEG, GIF or WebP")
    try:
        if kind == "png":
            width, height = struct.unpack(">II", first[16:24])
        elif kind == "gif":
            width, height = struct.unpack("<HH", first[6:10])
        else:
            width, height = _jpeg(source) if kind == "jpeg" else _webp(first)
    except (struct.error, IndexError) as error:
        raise Unreadable("its header is cut off") from error
    if not (0 < width <= MOST_SIDE and 0 < height <= MOST_SIDE and width * height <= MOST_PIXELS):
        raise Unreadable(f"it is {width} by {height} pixels, which is too much for a page")
    if source.size > MOST_PICTURE_BYTES:
        raise Unreadable(f"it is larger than {MOST_PICTURE_BYTES // 1024 // 1024} MiB, which is too much for a page")
    return Picture(TYPES[kind], width, height)


def _webp(first: bytes) -> tuple[int, int]:
    """The three forms of a WebP's first chunk: lossy, lossless, extended."""
    form = first[12:16]
    if form == b"VP8 ":
        width, height = struct.unpack("<HH", first[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if form == b"VP8L":
        (bits,) = struct.unpack("<I", first[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if form == b"VP8X" and len(first) >= 30:
        return int.from_bytes(first[24:27], "little") + 1, int.from_bytes(first[27:30], "little") + 1
    raise Unreadable("its header is not WebP's")


def _jpeg(source: Source) -> tuple[int, int]:
    """Walk from segment to segment until the frame's header, which has the size."""
    data = source.at(0, JPEG_HEAD_BYTES)
    place = 2
    while data[place] == 0xFF:
        marker = data[place + 1]
        if marker == 0xFF:
            place += 1
            continue
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[place + 5 : place + 9])
            return width, height
        (length,) = struct.unpack(">H", data[place + 2 : place + 4])
        place += 2 + max(2, length)
    raise Unreadable("its header is not JPEG's")
