"""The files of a job: those that are named, and a folder's but those in its `.berthignore`. Links are not followed."""

from __future__ import annotations

import base64
import os
import re
import sys
import unicodedata
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

from berth_client.errors import ClientError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from berth_client import Berth

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
IGNORE_FILE = ".berthignore"
ALWAYS = (".git/", "__pycache__/", ".venv/", IGNORE_FILE)
MOST_BYTES, MOST_FILES = 1024 * 1024, 1000
"""Limits of the files in a description. Larger ones are uploaded."""
MOST_UPLOADED = 10_000
_FROM_HERE = re.compile(r"\A(\./+)+")
_UNREAD = {
    r"\A!|\*\*": "neither ! nor ** is known here",
    r"\\": "a backslash is not known here; write folders with /",
    r"\A(\./+)*/*\Z": "it names nothing",
    r"(\A|/)\.\.(/|\Z)|[^./]/+\.(/|\Z)|\A\.\Z|\A~/|\A[A-Za-z]:/": "it names what lies outside; write the path "
    "from this folder on",
    r"[ \t]#": "a comment stands on a line of its own",
    r"\A([\"']).*\1\Z": "quotation marks are not known here; write the name as it is",
    r"\{.*,.*\}": "braces are not known here; write a line for each",
    r"\[\^": "[^ is not known here; write [! for all characters but these",
}
"""Forbidden in a pattern -> why. It means something to other programs or people, and nothing here."""


def _paths(asked: Any) -> dict[str, Path]:
    """Return the files by name; one that is named itself comes before one of the folder."""
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


def check_script_names(asked: Any, brought: Mapping[str, Any]) -> None:
    """Refuse a file under the name that a batch script has in its job, unless it is the script: it would take its place."""
    own = _paths(asked)
    for name in own.keys() & brought.keys():
        if read(str(own[name])).replace(b"\r\n", b"\n") != str(brought[name]).encode():
            raise ClientError(
                f"{own[name]}: in the job the batch script itself is {name}; give this file another name."
            )


def files_read(asked: Any) -> dict[str, Any]:
    """Return names and contents as REST takes them beside a description. Raises ClientError for more than that takes."""
    found = _paths(asked)
    if not is_small(found):
        raise ClientError("These files have more than 1 MiB, or are more than 1000; a template brings no more.")
    return {name: _content(read(str(path))) for name, path in found.items()}


def files_sent(asked: Any, berth: Berth) -> dict[str, Any]:
    """Return the description's fields: the files themselves, or an upload where they are larger."""
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
    return text_of(sys.stdin.buffer.read(), "standard input") if path == "-" else text_of(read(path), path)


def folder_paths(folder: Path) -> dict[str, Path]:
    """Return {relative name: file}. Raises ClientError when it is no folder, cannot be read, or has too many files."""
    if not folder.is_dir():
        raise ClientError(f"{folder} is no folder.")
    patterns = [*ALWAYS, *_patterns(folder / IGNORE_FILE)]
    try:
        return {name: folder / name for name in _names(folder, patterns)}
    except OSError as error:
        raise ClientError(f"{error.filename} cannot be read: {error.strerror}.") from None


def is_small(paths: Mapping[str, Path]) -> bool:
    """Say whether a description takes these files: they go with the job in one request. Raises ClientError."""
    try:
        return len(paths) <= MOST_FILES and sum(path.stat().st_size for path in paths.values()) <= MOST_BYTES
    except OSError as error:
        raise ClientError(f"{error.filename} cannot be read: {error.strerror}.") from None


def _names(folder: Path, patterns: list[str]) -> Iterator[str]:
    """Yield the relative names of regular files, in order; one more than may be sent suffices."""
    found = 0
    for root, folders, files in os.walk(folder, onerror=_raise):
        here = Path(root).relative_to(folder)
        folders[:] = sorted(
            name
            for name in folders
            if not (Path(root) / name).is_symlink() and not _ignored(here / name, patterns, is_folder=True)
        )
        if IGNORE_FILE in files and here.parts:
            detail = f"is not read: move its lines to {folder / IGNORE_FILE}, each with its folder before it"
            raise ClientError(f"{Path(root) / IGNORE_FILE} {detail}.")
        for name in sorted(files):
            path = Path(root) / name
            if path.is_file() and not path.is_symlink() and not _ignored(here / name, patterns, is_folder=False):
                found += 1
                if found > MOST_UPLOADED:
                    raise ClientError(
                        f"{folder} holds more than {MOST_UPLOADED} files, the most that a job brings. Name what stays behind "
                        f"in {folder / IGNORE_FILE}."
                    )
                yield (here / name).as_posix()


def _raise(error: OSError) -> None:
    raise error


def text_of(content: bytes, name: object) -> str:
    """Read a text file, without the byte order mark of some editors. Raises ClientError."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ClientError(f"{name} is not UTF-8 text; save it as that.") from None


def _patterns(path: Path) -> list[str]:
    """Return the patterns of a `.berthignore`: a line each, as in .gitignore, but without `!` and `**`."""
    try:
        text = text_of(path.read_bytes(), path)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}.") from None
    found = []
    for number, line in enumerate(re.split("\r\n|\r|\n", text), start=1):
        pattern = line.strip(" \t")
        if not pattern or pattern.startswith("#"):
            continue
        if (why := _unread(pattern)) is not None:
            raise ClientError(f"{path}, line {number}: {pattern!r}: {why}.")
        found.append(unicodedata.normalize("NFC", re.sub("//+", "/", _FROM_HERE.sub("", pattern))))
    return found


def _unread(pattern: str) -> str | None:
    """Return why a pattern does not mean what it seems to: the files that it names would be sent."""
    kinds = [unicodedata.category(char) for char in pattern]
    if {"Cc", "Cf", "Cn", "Co", "Zl", "Zp"} & set(kinds):
        return "it holds a character that cannot be seen; remove it"
    if "Zs" in {kinds[0], kinds[-1]}:
        return "it begins or ends with a character that looks like a space; remove it"
    return next((why for wrong, why in _UNREAD.items() if re.search(wrong, pattern)), None)


def _ignored(name: Path, patterns: list[str], *, is_folder: bool) -> bool:
    """Say whether a pattern names it: by its whole path when it holds a slash, else by its last part, at any depth."""
    own = unicodedata.normalize("NFC", name.as_posix()).split("/")
    for pattern in patterns:
        bare = pattern.rstrip("/")
        if bare != pattern and not is_folder:
            continue
        wanted = bare.lstrip("/").split("/")
        parts = own if "/" in bare else own[-1:]
        if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
            return True
    return False
