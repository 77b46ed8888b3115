"""Addresses of the Redis-compatible server: for Celery, for Channels, and for health checks.

`REDIS_URL` has one of three forms: `redis://[:PASSWORD@]HOST:PORT[/DB]`, the same with `rediss://`, and
`unix://[:PASSWORD@]/absolute/path.sock[?db=N]`. Celery (kombu) and Channels (redis-py) each spell a Unix socket their
own way; `kombu_url` and `channels_host` are the one place that knows.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from portal.foundation.errors import LaunchError

CELERY_DATABASE = 1


@dataclass(frozen=True)
class SocketAddress:
    """The parts of a `unix://` URL."""

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


def ping(url: str, limit_s: float = 1.0) -> None:
    """One PING over a plain connection; raises redis.RedisError or OSError."""
    import redis  # late: only those who start or check a server pay for it

    client = redis.Redis.from_url(url, socket_connect_timeout=limit_s, socket_timeout=limit_s)
    try:
        client.ping()
    finally:
        client.close()
