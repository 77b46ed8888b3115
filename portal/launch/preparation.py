"""Prepares the data directory before the portal starts, if something that the preparation depends on has changed.

Migrations, first accounts and join tokens run in one process with Django; static files are collected in another beside
it.
"""

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from portal.foundation.alive import MARK
from portal.foundation.errors import LaunchError
from portal.foundation.layout import SOURCE, Layout, read_json, write_json
from portal.launch.demo import slurm
from portal.launch.guarded import guarded_argv
from portal.launch.notices import Notices
from portal.launch.programs import REGISTERED_FILE, node_names

LIMIT_S = 300.0


@dataclass
class Prepared:
    """The preparation's results: join tokens by node name, and the lines to show when all is up."""

    join_tokens: dict[str, str] = field(default_factory=dict)
    farewell: list[str] = field(default_factory=list)


def _digest(words: str, *patterns: str) -> str:
    """Return a hash of these words, Python's version, requirements.lock, and when our files of these patterns were written."""
    digest = hashlib.sha256(f"{sys.version_info[:2]} {words}".encode())
    digest.update((SOURCE / "requirements.lock").read_bytes())
    for path in sorted(path for pattern in patterns for path in SOURCE.glob(pattern) if path.is_file()):
        stat = path.stat()
        digest.update(f"{path.relative_to(SOURCE)} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def fingerprint(*, demo: bool) -> str:
    """Return a hash that changes when a migration, a static file, a requirement, Python or the database's address does, or
    whether artefacts go to a bucket: beat's schedule depends on it.
    """
    bucket = bool(os.environ.get("BERTH_S3_URL"))
    words = f"{demo} {os.environ.get('DATABASE_URL', '')} {bucket}"
    return _digest(words, "portal/**/migrations/*.py", "static/**/*")


def static_fingerprint() -> str:
    """Return a hash that changes when the files do that are collected: ours, and those of the packages that are required."""
    return _digest("static", "static/**/*", "portal/settings.py", "portal/foundation/middleware.py")


def stamp(*, demo: bool) -> dict[str, str]:
    """Return the notes in a data directory that has been prepared. A restore takes all but `static` away."""
    return {"fingerprint": fingerprint(demo=demo), "static": static_fingerprint()}


def nodes_unregistered(layout: Layout, *, demo: bool) -> list[str]:
    names = [name for name in node_names(layout, demo=demo) if not (layout.nodes / name / REGISTERED_FILE).exists()]
    has_engine = (read_json(layout.mode) or {}).get("engine")
    return [*names, *([slurm.BRIDGE] if has_engine and not slurm.is_attached(layout) else [])]


def is_due(layout: Layout, *, demo: bool) -> bool:
    """Say whether to prepare. With a database of one's own (DATABASE_URL) always, because somebody may have emptied it."""
    if os.environ.get("DATABASE_URL") or not layout.database.exists():
        return True
    noted = read_json(layout.prepared) or {}
    return noted.get("fingerprint") != fingerprint(demo=demo) or bool(nodes_unregistered(layout, demo=demo))


def is_static_due(layout: Layout) -> bool:
    """Say whether to collect the static files anew: a restored backup or a new migration is no reason."""
    noted = read_json(layout.prepared) or {}
    return noted.get("static") != static_fingerprint() or not (layout.root / "static").exists()


def prepare(
    layout: Layout,
    *,
    demo: bool,
    environment: dict[str, str],
    notices: Notices,
    meanwhile: Callable[[], None],
    between: Callable[[], None],
) -> Prepared:
    """Run what is due. Meanwhile call `meanwhile` once, and `between` a few times a second; both may raise."""
    if not is_due(layout, demo=demo):
        meanwhile()
        notices.step("data directory is up to date")
        return Prepared()
    tasks = [Task("prepare", guarded_argv(str(layout.root), "portal.launch.prepare")[1:], layout, environment)]
    if is_static_due(layout):
        argv = guarded_argv(str(layout.root), "manage", "collectstatic", "--noinput", "-v", "0")
        tasks.append(Task("collectstatic", argv[1:], layout, environment))
    try:
        meanwhile()
        await_tasks(tasks, notices, between)
    finally:
        for task in tasks:
            task.end()
    write_json(layout.prepared, stamp(demo=demo))
    return tasks[0].prepared


class Task:
    """One process of the preparation: it writes JSON lines for `up` to standard output, and its log to logs/NAME.log."""

    def __init__(self, name: str, arguments: list[str], layout: Layout, environment: dict[str, str]) -> None:
        self.name = name
        self.log = layout.logs / f"{name}.log"
        self.prepared = Prepared()
        self._partial = b""
        with self.log.open("wb") as errors:
            self.process = subprocess.Popen(  # noqa: S603 - our own argv, no shell
                [sys.executable, *arguments],
                cwd=SOURCE,
                env=environment | {MARK: str(layout.root)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)

    def read(self, notices: Notices) -> None:
        """Take what the process has written since the last call."""
        assert self.process.stdout is not None
        data = self.process.stdout.read()
        *lines, self._partial = (self._partial + (data or b"")).split(b"\n")
        for line in lines:
            self._take(json.loads(line), notices)

    def _take(self, said: dict[str, object], notices: Notices) -> None:
        if "refused" in said:
            raise LaunchError(str(said["refused"]))
        if "step" in said:
            notices.step(str(said["step"]))
        if "farewell" in said:
            self.prepared.farewell.append(str(said["farewell"]))
        if "join" in said:
            self.prepared.join_tokens[str(said["join"])] = str(said["token"])

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1] if lines else "it said nothing"


def await_tasks(tasks: list[Task], notices: Notices, between: Callable[[], None]) -> None:
    deadline = time.monotonic() + LIMIT_S
    running = list(tasks)
    while running:
        between()
        for task in list(running):
            code = task.process.poll()
            task.read(notices)
            if code is None:
                continue
            running.remove(task)
            if code != 0:
                raise LaunchError(f"{task.name} failed: {task.last_words()}", f"See {task.log}.")
            if task.name == "collectstatic":
                notices.step("static files collected")
        if time.monotonic() > deadline:
            raise LaunchError(f"Preparing the data directory took over {LIMIT_S:.0f} s.", f"See {tasks[0].log}.")
        time.sleep(0.1)
