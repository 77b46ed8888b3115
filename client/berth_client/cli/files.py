"""The files of `submit`, `plan` and `templates import`: read here, named as the job sees them."""

from __future__ import annotations

import base64
import re
import sys
from contextlib import contextmanager
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from berth_client.errors import ClientError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from berth_client import Berth

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def _paths(asked: Any) -> dict[str, Path]:
    """Return the files by name; one that is named itself comes before one of the folder."""
    from berth_client.folder import folder_paths

    found = folder_paths(Path(asked.folder)) if asked.folder else {}
    own: dict[str, Path] = {}
    for named in asked.file or ():
        path, name = _named(named)
        if name in own and own[name] != path:
            raise ClientError(f"--file {path}: {own[name]} is {name} in the job already; write {path}:OTHERNAME.")
        own[name] = path
    return found | own


def _named(text: str) -> tuple[Path, str]:
    r"""Return path and name of `PATH[:NAME]`. The colon of a drive, as in `C:\data\train.py`, is the path's own."""
    drive, rest = (text[:2], text[2:]) if _DRIVE.match(text) else ("", text)
    path, _, name = rest.partition(":")
    own = PureWindowsPath(path) if drive else Path(path)
    return Path(drive + path), name or own.name


def kept_apart(asked: Any, brought: Mapping[str, Any]) -> None:
    """Refuse a file under the name that a batch script has in its job, unless it is the script: it would take its place."""
    own = _paths(asked)
    for name in own.keys() & brought.keys():
        if read(str(own[name])).replace(b"\r\n", b"\n") != str(brought[name]).encode():
            raise ClientError(
                f"{own[name]}: in the job the batch script itself is {name}; give this file another name."
            )


def files_read(asked: Any) -> dict[str, Any]:
    """Return names and contents as REST takes them beside a description. Raises ClientError for more than that takes."""
    from berth_client.folder import is_small

    found = _paths(asked)
    if not is_small(found):
        raise ClientError("These files have more than 1 MiB, or are more than 1000; a template brings no more.")
    return {name: _content(read(str(path))) for name, path in found.items()}


def files_sent(asked: Any, berth: Berth) -> dict[str, Any]:
    """Return the description's fields: the files themselves, or an upload where they are larger."""
    from berth_client.folder import is_small

    if is_small(found := _paths(asked)):
        return {"files": files_read(asked)}

    def say(name: str, place: int, count: int) -> None:
        print(f"sent {name} ({place} of {count})", file=sys.stderr, flush=True)

    return {"upload": berth.uploads_send(found, tenant=asked.tenant, on_sent=say)}


def _content(content: bytes) -> str | dict[str, str]:
    """Return text; base64 where the bytes are no text."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = "\0"
    return text if "\0" not in text else {"base64": base64.b64encode(content).decode()}


@contextmanager
def named(path: str) -> Iterator[None]:
    """Name the file in what the portal says of its text, which it knows as the field `text`. `-`: standard input."""
    try:
        yield
    except RefusedError as error:
        if error.field != "text":
            raise
        raise ClientError(f"{'standard input' if path == '-' else path}: {error.detail}") from None


def read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}.") from None


def text_read(path: str) -> str:
    """Return the text of a file; `-`: of standard input."""
    from berth_client.folder import text_of  # few commands need it

    return text_of(sys.stdin.buffer.read(), "standard input") if path == "-" else text_of(read(path), path)
