"""A shadow decides beside plannings: in a process of its own, one planning at a time, and no planning waits for it."""

from __future__ import annotations

import json
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.db import connections

from portal.planning.sharing.keeping import shadow_store
from portal.planning.sharing.models import ShadowPlanning

if TYPE_CHECKING:
    from portal.planning.rounds.models import Planning


CHILD = Path(__file__).with_name("child.py")
MOST_ANSWER = 64 * 2**20
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class ShadowFailed(Exception):
    """The shadow gave no answer; a sentence that says why."""


class Companion:
    """Starts its process when it is asked, and again after it failed. For one thread at a time."""

    def __init__(self, path: Path = CHILD) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, content: bytes, *, limit_s: float) -> dict[str, Any]:
        """Return the answer. Raises ShadowFailed; the process has then ended."""
        process, late = self._there(), threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            body = _exchange(process, content)
        except OSError:
            body = b""
        finally:
            timer.cancel()
        if late.is_set() or not body:
            self.close()
            ended = f"its process ended with {process.returncode}"
            raise ShadowFailed(f"it gave no answer within {limit_s:g} s" if late.is_set() else ended)
        found = json.loads(body)
        if "error" in found:
            raise ShadowFailed(found["error"])
        return found

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # bytes that a process left unread at its end
                    continue

    def _there(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            pipe, known = subprocess.PIPE, {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
            argv = [sys.executable, "-I", str(self._path)]
            self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=known | ONE_THREAD)  # noqa: S603 - our own file
        return self._process


def _exchange(process: subprocess.Popen[bytes], content: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(len(content).to_bytes(8, "big") + content)
    process.stdin.flush()
    head = process.stdout.read(8)
    size = int.from_bytes(head, "big") if len(head) == 8 else 0
    return process.stdout.read(size) if 0 < size <= MOST_ANSWER else b""


log = logging.getLogger(__name__)

LIMIT_S = 10.0
"""Seconds that a shadow may take for a planning; then its process is ended."""
IDLE_S = 600.0
"""Seconds without a question after which thread and process end."""


@dataclass(frozen=True, slots=True)
class Question:
    number: int
    at: datetime
    sharing: Any  # scheduler.planning.sharing.Sharing


class Runner:
    """One thread of this process, while there is something to ask. A question while another waits is counted, not kept."""

    def __init__(self, companion: Companion | None = None) -> None:
        self._companion = companion or Companion()
        self._waiting: queue.Queue[Question] = queue.Queue(maxsize=1)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._skipped = 0

    def offer(self, record: Planning, sharing: Any) -> None:
        """Take a planning's step, or count it where another waits already. It returns at once."""
        with self._lock:
            try:
                self._waiting.put_nowait(Question(record.number, record.started_at, sharing))
            except queue.Full:
                self._skipped += 1
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="shadow", daemon=True)
                self._thread.start()

    def answer(self, question: Question) -> None:
        """Ask the shadow, and store what came of it, an error as well."""
        began_s, found, error = time.monotonic(), None, ""
        try:
            found = self._companion.ask(pickle.dumps(question.sharing), limit_s=LIMIT_S)
        except ShadowFailed as failed:
            error = str(failed)
            log.warning("planning %s: the shadow failed: %s", question.number, error)
        parameters = question.sharing.asked.parameters
        with self._lock:
            skipped, self._skipped = self._skipped, 0
        record = ShadowPlanning(
            number=question.number,
            at=question.at,
            acting=parameters.sharing_policy,
            shadow=parameters.sharing_shadow,
            spent_ms=1000 * (time.monotonic() - began_s),
            skipped=skipped,
            error=error[:500],
        )
        shadow_store(record, found)

    def _work(self) -> None:
        while (question := self._next()) is not None:
            try:
                self.answer(question)
            except Exception:
                log.exception("planning %s: what the shadow said could not be stored", question.number)
            finally:
                connections.close_all()
        self._companion.close()

    def _next(self) -> Question | None:
        """Return the next question; None: none came for long, and the thread is over."""
        try:
            return self._waiting.get(timeout=IDLE_S)
        except queue.Empty:
            with self._lock:
                if not self._waiting.empty():
                    return self._waiting.get_nowait()
                self._thread = None
                return None


RUNNER = Runner()
