"""Requests through Django's ASGI handler, in this process: the same handlers and middleware as in service.

Nothing is sent over a network. Django runs a view in the thread that waits for it here, so its queries are counted.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from asgiref.sync import async_to_sync
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


@dataclass(frozen=True, slots=True)
class Answer:
    """`wall_s`, `cpu_s` (of this process; the database server's own is not in it), `sql_s` waited for statements; the body."""

    status: int
    headers: dict[str, str]
    body: bytes
    wall_s: float
    cpu_s: float
    sql_s: float
    queries: int


@contextmanager
def connection_kept() -> Iterator[None]:
    """Keep this process's connection between requests, as the service does for a minute, inside a transaction too."""
    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    try:
        yield
    finally:
        for signal in signals:
            signal.connect(close_old_connections)


@contextmanager
def statements_timed() -> Iterator[list[float]]:
    """Give a list of how long each statement sent meanwhile took, in s (of wall time, rows that are fetched later aside)."""
    took_s: list[float] = []

    def wrapper(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        began_s = time.monotonic()
        try:
            return execute(sql, params, many, context)
        finally:
            took_s.append(time.monotonic() - began_s)

    with connection.execute_wrapper(wrapper):
        yield took_s


def asker(application: Any) -> Callable[[str, Mapping[str, str]], Answer]:
    """Return a function that asks the application for one path (GET) with these headers."""
    run = async_to_sync(partial(_exchange, application))

    def ask(path: str, headers: Mapping[str, str]) -> Answer:
        began_s, began_cpu_s = time.monotonic(), time.process_time()
        with statements_timed() as took_s:
            status, answered, body = run(path, {"host": "localhost", **headers})
        wall_s, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
        return Answer(status, answered, body, wall_s, cpu_s, sum(took_s), len(took_s))

    return ask


async def _exchange(application: Any, path: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Have one request answered; return status, headers and body."""
    sent: list[dict[str, Any]] = []
    received = iter([{"type": "http.request", "body": b"", "more_body": False}])

    async def receive() -> dict[str, Any]:
        message = next(received, None)
        if message is None:
            await asyncio.Event().wait()  # the client stays; the handler ends this wait when it has answered
        return message or {}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application(_scope(path, headers), receive, send)
    start = next(each for each in sent if each["type"] == "http.response.start")
    body = b"".join(each.get("body", b"") for each in sent if each["type"] == "http.response.body")
    return start["status"], {name.decode().lower(): value.decode() for name, value in start["headers"]}, body


def _scope(path: str, headers: Mapping[str, str]) -> dict[str, Any]:
    """Return an ASGI scope: a GET from this machine."""
    parts = urlsplit(path)
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": parts.path,
        "raw_path": parts.path.encode(),
        "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 80),
    }
