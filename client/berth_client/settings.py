"""Which portal, and with which token: the environment first, then the private file of `berth login`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from berth_client.errors import ClientError

if TYPE_CHECKING:
    from configparser import ConfigParser

DEFAULT = "default"
HAS_MODES = hasattr(os, "getuid")
"""Elsewhere (Windows) a file's mode does not say who may read it; it lies in the person's own folder."""


class Chosen(NamedTuple):
    url: str
    token: str
    ca_file: str | None = None


def file_path() -> Path:
    """Return where logins are written down: BERTH_CONFIG, else `berth/config.ini` in the user's own configuration."""
    if named := os.environ.get("BERTH_CONFIG", "").strip():
        return Path(named)
    home = os.environ.get("XDG_CONFIG_HOME", "").strip()
    return Path(home or Path.home() / ".config") / "berth" / "config.ini"


def chosen(portal: str | None = None) -> Chosen:
    """Return the portal to ask. A token from the file is only ever sent to the address that it was written down with.

    `portal` names a login; None: BERTH_URL and BERTH_TOKEN, else the login that BERTH_PORTAL names, else "default".
    """
    url, token = (os.environ.get(name, "").strip() for name in ("BERTH_URL", "BERTH_TOKEN"))
    if portal is None and url and token:
        return Chosen(url, token, None)
    logins = _logins(file_path())
    if portal is None and url:
        for name in logins.sections():
            if logins[name].get("url", "").rstrip("/") == url.rstrip("/"):
                return _login(logins, name)
        raise ClientError(
            "set BERTH_TOKEN: a token made on the portal under your name (/account/tokens/); or run `berth login`."
        )
    name = portal or os.environ.get("BERTH_PORTAL", "").strip() or DEFAULT
    if name in logins:
        found = _login(logins, name)
        return found._replace(token=token) if token and portal is None else found
    if name == DEFAULT:
        raise ClientError(
            "set BERTH_URL and BERTH_TOKEN: the portal's address, and a token made there under your name "
            "(/account/tokens/); or run `berth login URL`."
        )
    known = ", ".join(logins.sections()) or "none"
    raise ClientError(f"{file_path()} has no login {name!r}; it has: {known}.")


def _login(logins: ConfigParser, name: str) -> Chosen:
    found = logins[name]
    if "url" not in found or "token" not in found:
        raise ClientError(f"The login {name!r} in {file_path()} has no `url` and `token`; run `berth login` again.")
    return Chosen(found["url"], found["token"], found.get("ca_file"))


def login_write(name: str, login: Chosen) -> Path:
    """Save a login under its name, beside the others, readable only by its owner. Return the file's path."""
    path = file_path()
    logins = _logins(path)
    if name == logins.default_section or not name.strip() or not name.isprintable():
        raise ClientError(f"--name takes a text that can be seen, and not {logins.default_section}.")
    logins[name] = {"url": login.url, "token": login.token} | ({"ca_file": login.ca_file} if login.ca_file else {})
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            logins.write(file)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise ClientError(f"{path} cannot be written: {error.strerror}.") from None
    return path


def _logins(path: Path) -> ConfigParser:
    """Read the file; without one, return nothing. A file that others may read is refused: it holds tokens."""
    from configparser import ConfigParser, Error

    logins = ConfigParser(interpolation=None)
    try:
        with path.open(encoding="utf-8-sig") as file:
            if HAS_MODES and os.fstat(file.fileno()).st_mode & 0o077:
                raise ClientError(f"{path} holds tokens and others may read it; run `chmod 600 {path}`.")
            logins.read_file(file)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ClientError(f"{path} cannot be read: {error.strerror}.") from None
    except (Error, UnicodeDecodeError) as error:
        raise ClientError(f"{path} is not as `berth login` writes it: {str(error).splitlines()[0]}") from None
    return logins
