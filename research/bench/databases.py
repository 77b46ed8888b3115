"""Private databases for benchmarks: made, migrated, used by a process of their own, and removed again.

Django's connection is fixed when a process starts, so what is to be measured runs as `berth bench NAME --here` in a
child whose DATABASE_URL names the private one.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

import redis

from portal.foundation.errors import LaunchError
from portal.foundation.layout import SOURCE, Layout
from portal.launch import broker
from research.bench.errors import BenchError
from research.bench.postgres import postgres_started, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

KINDS = ("postgres", "sqlite")
NAME = "berth_bench"


def measure_apart(*, arguments: Sequence[str], kind: str) -> dict[str, Any]:
    """Run `bench *arguments --here --json` on a private database of this kind and return its figures."""
    with database_private(kind) as environment:
        _manage(["migrate", "--verbosity", "0"], environment)
        return json.loads(_manage(["bench", *arguments, "--here", "--json"], environment))


@contextlib.contextmanager
def database_private(kind: str) -> Iterator[Mapping[str, str]]:
    """Give the environment of a process that uses a new, empty database; it is removed afterwards."""
    url = os.environ.get("DATABASE_URL", "")
    with tempfile.TemporaryDirectory(prefix="berth-b-") as directory, contextlib.ExitStack() as stack:
        data = Path(directory) / "data"
        data.mkdir()
        environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        environment |= {"BERTH_DATA_DIR": str(data)}
        environment |= stack.enter_context(_broker(data))
        if kind == "sqlite":
            yield environment
        elif url.startswith("postgres"):
            with _database_on(url) as own:
                yield environment | {"DATABASE_URL": own}
        else:
            server = Path(directory) / "server"
            server.mkdir()
            Path(directory).chmod(0o755)  # the server's account must come through; the data directory stays ours
            data.chmod(0o700)
            with postgres_started(server) as run_sql:
                run_sql(f"CREATE DATABASE {NAME}")
                yield environment | {"DATABASE_URL": url_of(server, NAME)}


@contextlib.contextmanager
def _broker(data: Path) -> Iterator[Mapping[str, str]]:
    """Start a Redis-compatible server of our own and give its REDIS_URL: pages ask it for their streams' numbers."""
    if _answers(os.environ.get("REDIS_URL", "")):
        yield {}
        return
    layout = Layout.at(data)
    layout.prepare()
    try:
        server = broker.server_configure(layout)
        process = subprocess.Popen(server.argv, stdout=subprocess.DEVNULL)  # noqa: S603 - our own argv
    except LaunchError as error:
        raise BenchError(str(error)) from error
    try:
        broker.wait_until_up(server.url)
        yield {"REDIS_URL": server.url}
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    """Say whether a broker is there: the one of a Berth that was stopped is named in its clone still."""
    try:
        return bool(url) and bool(redis.Redis.from_url(url, socket_timeout=2, socket_connect_timeout=2).ping())
    except redis.RedisError:
        return False


@contextlib.contextmanager
def _database_on(url: str) -> Iterator[str]:
    """Make a database of our own on the server that the URL names, and drop it afterwards."""
    import psycopg

    name = f"{NAME}_{os.getpid()}"
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # our own name
    except psycopg.Error as error:
        raise BenchError(f"No database could be made on the server that DATABASE_URL names: {error}") from error
    try:
        yield urlunsplit(urlsplit(url)._replace(path=f"/{name}"))
    finally:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _manage(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    argv = [sys.executable, "-P", "manage.py", *arguments]
    where = dict(environment) | {"PYTHONPATH": str(SOURCE)}
    done = subprocess.run(argv, cwd=SOURCE, env=where, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        told = done.stderr.strip().removeprefix("CommandError: ")
        raise BenchError(told[-2000:] or f"the measuring process ended with {done.returncode}")
    return done.stdout
