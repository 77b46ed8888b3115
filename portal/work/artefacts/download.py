"""Send what is kept: one file, or all as one tar, whole or a range of it, without holding it in memory.

A tar without compression has a known length before its first byte, so a broken download of all goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING
from urllib.parse import quote

from django.http import HttpResponse, JsonResponse

from portal.foundation.api.streams import Streamed
from portal.foundation.errors import BerthError, Conflict, NotFound
from portal.work.artefacts import store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from django.http import HttpRequest
    from django.http.response import HttpResponseBase

    from portal.work.artefacts.models import Artefact
    from portal.work.jobs.models import Job

_RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})\Z", re.ASCII)
_END = b"\0" * (2 * tarfile.BLOCKSIZE)


@dataclass(frozen=True)
class Piece:
    """A stretch of a download: these bytes, or `size` bytes of a stored content, and zeros to a whole block."""

    head: bytes
    size: int = 0
    blob: str = ""

    @property
    def padding(self) -> int:
        return -self.size % tarfile.BLOCKSIZE if self.head else 0

    @property
    def length(self) -> int:
        return len(self.head) + self.size + self.padding


@dataclass(frozen=True)
class Download:
    """Something to send: its pieces in order, a name for it, and a tag that changes when its content does."""

    key: str
    name: str
    pieces: Sequence[Piece]
    etag: str

    @cached_property
    def length(self) -> int:
        return sum(piece.length for piece in self.pieces)

    def read(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield the bytes from `start` to before `stop`."""
        at = 0
        for piece in self.pieces:
            if at + piece.length > start and at < stop:
                yield from self._of(piece, max(0, start - at), min(piece.length, stop - at))
            at += piece.length

    def _of(self, piece: Piece, start: int, stop: int) -> Iterator[bytes]:
        begin, end = len(piece.head), len(piece.head) + piece.size
        if start < begin:
            yield piece.head[start:stop]
        if piece.blob and piece.size and start < end and stop > begin:
            yield from store.pieces(self.key, piece.blob, start=max(0, start - begin), stop=min(end, stop) - begin)
        if stop > end:
            yield b"\0" * (stop - max(start, end))


def download_file(job: Job, row: Artefact) -> Download:
    """Raises Conflict `not_kept` for a file that is not whole here."""
    if row.size is None:
        why = row.reason or "it is still on its way from its node; try again shortly"
        raise Conflict("not_kept", f"{row.path} cannot be downloaded: {why}.")
    return Download(job.key, row.path.rpartition("/")[2], (Piece(b"", row.size, row.blob),), f'"{row.sha256}"')


def download_all(job: Job, rows: Sequence[Artefact]) -> Download:
    """Return the kept ones as a tar, in a folder named after the job. Raises NotFound where there is none."""
    kept = [row for row in rows if row.size is not None]
    if not kept:
        raise NotFound("artefact")
    folder = f"job-{job.number}"
    pieces = [Piece(_header(f"{folder}/{row.path}", row), row.size or 0, row.blob) for row in kept]
    told = "\n".join(f"{row.path}\0{row.sha256}\0{row.modified_ns}" for row in kept)
    etag = f'"{hashlib.sha256(told.encode()).hexdigest()}"'
    return Download(job.key, f"{folder}-artefacts.tar", (*pieces, Piece(_END)), etag)


def _header(name: str, row: Artefact) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = row.size or 0, row.modified_ns // 10**9, 0o644
    return info.tobuf(tarfile.PAX_FORMAT)


def download_answer(request: HttpRequest, found: Download, *, content_type: str) -> HttpResponseBase:
    """Answer with all of it, with the one range that is asked for (206), 304, or 416. Never shown as a page.

    Raises NotFound and StoreAway where a first piece of one cannot be had.
    """
    headers = {
        "ETag": found.etag,
        "Accept-Ranges": "bytes",
        "Content-Disposition": disposition(found.name),
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, no-cache",
    }
    if found.etag in {tag.strip() for tag in request.headers.get("If-None-Match", "").split(",")}:
        return HttpResponse(status=304, headers=headers)
    start, stop, status = 0, found.length, 200
    wanted = request.headers.get("Range", "")
    if wanted and request.headers.get("If-Range", found.etag) == found.etag and (asked := _RANGE.match(wanted)):
        bounds = _bounds(asked[1], asked[2], found.length)
        if bounds is None:
            refused = {"Content-Range": f"bytes */{found.length}"}
            error = BerthError("bad_range", f"It has {found.length} bytes; ask for some of them.", field="Range")
            return JsonResponse(error.envelope(), status=416, headers=refused)
        start, stop, status = *bounds, 206
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{found.length}"
    headers["Content-Length"] = str(stop - start)
    body = iter(()) if request.method == "HEAD" else found.read(start, stop)
    first = next(body, b"")  # so that a missing file or store is reported before anything is sent
    return Streamed(chain((first,), body), status=status, content_type=content_type, headers=headers)


def _bounds(first: str, last: str, length: int) -> tuple[int, int] | None:
    """Return start and stop of `first-last`, `first-` or `-count`; None where nothing of it is there."""
    if not first and not last:
        return 0, length
    if not first:
        start, stop = max(0, length - int(last)), length
    else:
        start, stop = int(first), min(length, int(last) + 1) if last else length
    return (start, stop) if start < stop else None


def disposition(name: str) -> str:
    """Return `Content-Disposition` for a download of this name: plain ASCII for old readers, and the name itself."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "._- ") else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
