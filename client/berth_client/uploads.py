"""Uploads over REST: job files too large for a description, sent once and named by their hash."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO

from berth_client.errors import AwayError, ClientError
from berth_client.rest import TRIES, Rest, operation, part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from berth_client.shapes import Page

Found = dict[str, Any]
PIECE_BYTES = 1024 * 1024
MIB = 2**20
ASK_FROM_BYTES = 32 * MIB
"""With less than this nothing is lost when the portal refuses the files after they were read."""
NAMED = 3


class Uploads(Rest):
    def uploads_create(self, files: Sequence[Mapping[str, Any]], *, tenant: str | None = None) -> Found:
        """Say which files a job will bring: {path, sha256, size_bytes, executable} each. The answer names what is `missing`."""
        body = {"files": list(files)} | ({"tenant": tenant} if tenant else {})
        found: Found = self.ask("POST", "/uploads", body=body)
        return found

    def uploads_content(self, sha256: str, content: bytes | BinaryIO, *, tenant: str | None = None) -> Found:
        """Send one file's content; an open file is read while it is sent."""
        path, query = f"/uploads/content/{part(sha256)}", {"tenant": tenant}
        found: Found = self.ask("PUT", path, content=content, query=query)
        return found

    @operation("GET", "/uploads")
    def uploads_list(
        self,
        *,
        tenant: str | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Found]: ...

    @operation("GET", "/uploads/{digest}")
    def uploads_show(self, digest: str) -> Found: ...

    @operation("DELETE", "/uploads/{digest}")
    def uploads_delete(self, digest: str) -> None: ...

    def uploads_send(
        self,
        paths: Mapping[str, Path],
        *,
        tenant: str | None = None,
        on_sent: Callable[[str, int, int], object] | None = None,
    ) -> str:
        """Send files by their names in the job's directory; return the description's `upload`.

        Files that the tenant sent before are skipped. `on_sent` is called with each name, its place and the count.
        """
        _sizes_check(paths, lambda: int(self.ask("GET", "/me").get("upload_limit_mib", 0)))
        listed = [_listed(name, path) for name, path in sorted(paths.items())]
        found = self.uploads_create(listed, tenant=tenant)
        missing = set(found["missing"])
        for place, each in enumerate(listed, start=1):
            if each["sha256"] in missing:
                missing.discard(each["sha256"])
                self._sent(paths[each["path"]], each["sha256"], tenant)
                if on_sent is not None:
                    on_sent(each["path"], place, len(listed))
        if found["missing"]:
            found = self.uploads_create(listed, tenant=tenant)
        if not found["complete"]:
            raise ClientError("The portal lacks files that were sent just now; send them again.")
        return str(found["digest"])

    def _sent(self, path: Path, sha256: str, tenant: str | None) -> None:
        for left in reversed(range(TRIES)):
            try:
                with path.open("rb") as file:
                    self.uploads_content(sha256, file, tenant=tenant)
            except AwayError:
                if not left:
                    raise
            else:
                return


def _sizes_check(paths: Mapping[str, Path], limit_mib: Callable[[], int]) -> None:
    """Refuse what is too large before it is read. Raises ClientError with the largest files."""
    try:
        sizes = {name: path.stat().st_size for name, path in paths.items()}
    except OSError as error:
        raise ClientError(f"{error.filename} cannot be read: {error.strerror}.") from None
    total = sum(sizes.values())
    if total < ASK_FROM_BYTES or not (limit := limit_mib()) or total <= limit * MIB:
        return
    largest = sorted(sizes, key=lambda name: -sizes[name])[:NAMED]
    named = ", ".join(f"{name} ({sizes[name] / MIB:.1f} MiB)" for name in largest)
    raise ClientError(
        f"These files have {total / MIB:.1f} MiB, and a job brings at most {limit} MiB; the largest: {named}. Name what stays "
        "behind in .berthignore, and put large input on storage that the nodes can read."
    )


def _listed(name: str, path: Path) -> Found:
    """Return a file as REST lists it. Raises ClientError when it cannot be read."""
    import hashlib

    found = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                found.update(piece)
            about = os.fstat(file.fileno())
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}.") from None
    size_bytes, executable = about.st_size, bool(about.st_mode & 0o100)
    return {"path": name, "sha256": found.hexdigest(), "size_bytes": size_bytes, "executable": executable}
