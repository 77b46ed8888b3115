"""The lines of requirements that pip, uv and Berth read in the same way, and nothing besides. Pure.

The portal checks with it what a user sends. A node writes what it returns, so that no installer sees another text than the one
that was checked.

A line is a package (`name==1.2; marker`), a package at an https URL (`name @ https://...`), with `--hash=ALGORITHM:DIGEST` behind
it, or one of OPTIONS in full. Other files, folders, continuations, variables and separators of lines have no place in it.
"""

from __future__ import annotations

import re
import unicodedata

OPTIONS = {
    "--index-url": "URL",
    "--extra-index-url": "URL",
    "--only-binary": "names",
    "--no-binary": "names",
    "--pre": "",
    "--prefer-binary": "",
    "--require-hashes": "",
}
"""Option -> what stands behind it."""
HASH = "--hash"
MOST_CHARS = 2000
MOST_BRACKETS = 16
_DIGITS = {"sha256": 64, "sha384": 96, "sha512": 128}
_COMMENT = re.compile(r"(?:^|[ \t])#.*")
_URL = re.compile(r"https://(?P<site>[A-Za-z0-9.:@_~%!&*+,=\[\]-]+)(?:/[A-Za-z0-9._~%/:@!&*+,=?#\[\]-]*)?")
_SITE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](:[0-9]{1,5})?")
_NAMES = re.compile(r"[A-Za-z0-9:][A-Za-z0-9._,:-]*")
_PATH = re.compile(r"(\.{0,2}[/\\]|[A-Za-z]:[/\\]|\.+\Z|~)|[^@;\s]*[/\\]|file:", re.IGNORECASE)
_ARCHIVE = re.compile(r"\.(zip|whl|egg|tar|tgz|tbz|txz|tlz|tar\.[a-z0-9]+)\s*(\[[^\]]*\])?\s*\Z", re.IGNORECASE)
_AWAY = "names another file or directory, which the node does not have while it builds; write the packages themselves"
_FILES = ("-r", "-c", "-e", "-f", "--requirement", "--constraint", "--editable", "--find-links")


class LineError(ValueError):
    """A refused line: its number from 1 on, a code, and the reason. No part of a URL is repeated."""

    def __init__(self, number: int, code: str, detail: str) -> None:
        super().__init__(f"Line {number} {detail}.")
        self.number, self.code = number, code


def requirement_lines(text: str) -> list[str]:
    """Return the lines in one spelling, without comments and blank ones. Raises LineError."""
    found = []
    for number, line in enumerate(text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n"), start=1):
        try:
            _characters_check(line)
            if bare := _COMMENT.sub("", line).strip(" \t"):
                found.append(_line(bare))
        except _Wrong as wrong:
            raise LineError(number, wrong.code, wrong.detail) from None
    return found


def is_option(line: str) -> bool:
    return line.startswith("-")


class _Wrong(Exception):
    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


def _characters_check(line: str) -> None:
    for char in line:
        if char != "\t" and unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
            name = unicodedata.name(char, "a control character")
            detail = f"holds U+{ord(char):04X} ({name}), which some programs read as the end of a line; remove it"
            raise _Wrong("control_character", detail)
    if line.rstrip().endswith("\\"):
        raise _Wrong("continuation", "ends with a backslash; write what is continued on one line, its hashes too")
    if len(line) > MOST_CHARS:
        raise _Wrong("too_long", f"has {len(line)} characters; at most {MOST_CHARS}")


def _line(line: str) -> str:
    if not line.isascii():
        char = next(char for char in line if not char.isascii())
        raise _Wrong("bad_requirement", f"holds U+{ord(char):04X}; outside comments use ASCII alone")
    line = " ".join(line.split())
    return _option(line) if is_option(line) else _package(line)


def _option(line: str) -> str:
    name, sign, value = re.fullmatch(r"(-[^ =]*)([ =]?)(.*)", line).groups()  # type: ignore[union-attr]
    if name not in OPTIONS:
        if (name.startswith("--") and name in _FILES) or name[:2] in _FILES:
            raise _Wrong("not_self_contained", _AWAY)
        raise _Wrong("bad_option", f"begins with an option that is not taken; there are {', '.join(OPTIONS)}, in full")
    kind, value = OPTIONS[name], value.strip()
    if not kind and (sign or value):
        raise _Wrong("bad_option", f"gives {name} a value; it stands alone on its line")
    if kind == "URL":
        _url_check(value)
    elif kind and not _NAMES.fullmatch(value):
        raise _Wrong("bad_option", f"needs names of packages behind {name}, as a,b or :all:")
    return f"{name} {value}".rstrip()


def _package(line: str) -> str:
    """Return a requirement and its hashes, each behind one space."""
    from packaging.requirements import InvalidRequirement, Requirement  # few processes need it

    wanted, *hashes = line.split(f" {HASH}")
    for each in hashes:
        algorithm, _, digest = each.removeprefix("=").partition(":")
        digits = _DIGITS.get(algorithm)
        if each[:1] != "=" or not digits or not re.fullmatch(f"[0-9a-f]{{{digits}}}", digest):
            raise _Wrong("bad_hash", f"needs its hashes as --hash=ALGORITHM:DIGEST, with {', '.join(_DIGITS)}")
    bare = wanted.partition(";")[0].strip()
    if bare.lower().startswith(("https://", "http://")):
        raise _Wrong("bad_requirement", "is a URL without the package's name; write NAME @ https://...")
    if "@" not in bare and (_PATH.match(bare) or _ARCHIVE.search(bare)):
        raise _Wrong("not_self_contained", _AWAY)
    if " -" in wanted or any(char in wanted for char in "\\$`{}") or wanted.count("(") > MOST_BRACKETS:
        raise _Wrong(
            "bad_requirement",
            "is no requirement: it holds an option, a variable or a sign that none has; write NAME==VERSION, "
            "and options on lines of their own",
        )
    try:
        read = Requirement(wanted)
    except InvalidRequirement:
        raise _Wrong("bad_requirement", "is no requirement; write NAME, NAME==VERSION or NAME @ https://...") from None
    if read.url is not None:
        _url_check(read.url)
    return f"{wanted}{''.join(f' {HASH}{each}' for each in hashes)}"


def _url_check(url: str) -> None:
    if re.match(r"(file:|[/\\.~]|[A-Za-z]:[/\\])", url, re.IGNORECASE):
        raise _Wrong("not_self_contained", _AWAY)
    found = _URL.fullmatch(url)
    if found is None:
        raise _Wrong("bad_url", "needs a URL with https://, and nothing in it but letters, digits and a URL's signs")
    if "@" in found["site"]:
        raise _Wrong("credentials_in_url", "holds a name or a password in its URL")
    if not _SITE.fullmatch(found["site"]):
        raise _Wrong("bad_url", "needs a URL with the name of a host, as https://host/path")
