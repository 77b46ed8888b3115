"""Zip files: the entries of their directory, and the first bytes of a member. Nothing is unpacked beyond a set size."""

from __future__ import annotations

import zipfile
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

from portal.work.previews.arrays import HEAD_BYTES, array_member
from portal.work.previews.shown import MOST_AT_ONCE, Inside, Member, Reading, Source, Unreadable, cut

if TYPE_CHECKING:
    from collections.abc import Iterator


MOST_MEMBERS = 300
_PLAIN = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    OSError,
    ValueError,
    EOFError,
    OverflowError,
)


@contextmanager
def opened(source: Source) -> Iterator[zipfile.ZipFile]:
    """Open a zip file that nobody vouches for. Any fault in it raises Unreadable."""
    try:
        with zipfile.ZipFile(Reading(source)) as archive:
            yield archive
    except _FAULTS as error:
        raise Unreadable("it is no zip file that can be read") from error


def beginning(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    """Return up to `most` bytes of a member. Its own word on its size is not believed."""
    if member.compress_type not in _PLAIN:
        raise Unreadable("it is packed in a way that is not read here")
    found = bytearray()
    with archive.open(member) as part:
        while len(found) < most and (piece := part.read(min(MOST_AT_ONCE // 2, most - len(found)))):
            found += piece
    return bytes(found)


def arrays_preview(source: Source) -> Inside:
    """Return the arrays of a .npz file with their types and shapes. Raises Unreadable."""
    with opened(source) as archive:
        listed = archive.infolist()
        members = [_array(archive, each) for each in listed[:MOST_MEMBERS]]
    return Inside("Arrays", members, rest=_rest(len(listed), "arrays"))


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Member:
    name = member.filename.removesuffix(".npy")
    try:
        return array_member(name, beginning(archive, member, HEAD_BYTES))
    except (Unreadable, *_FAULTS):
        return Member(cut(name), "not an array that can be read", member.file_size)


def listing_preview(source: Source) -> Inside:
    """Return the names and sizes that a zip file's directory gives. Raises Unreadable."""
    with opened(source) as archive:
        listed = archive.infolist()
        members = [Member(cut(each.filename), "", each.file_size) for each in listed[:MOST_MEMBERS]]
    return Inside("Files inside, as the archive lists them", members, rest=_rest(len(listed), "files"))


def _rest(count: int, what: str) -> str | None:
    return f"The first {MOST_MEMBERS} of {count} {what}." if count > MOST_MEMBERS else None
