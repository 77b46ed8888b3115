"""A shadow decides beside plannings: in a process of its own, one planning at a time, and no planning waits for it."""

from __future__ import annotations

import logging
import pickle
import queue
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connections

from portal.planning.sharing.companion import Companion, ShadowFailed
from portal.planning.sharing.keeping import Seen, shadow_store

if TYPE_CHECKING:
    from datetime import datetime

    from portal.planning.rounds.models import Planning

log = logging.getLogger(__name__)

LIMIT_S = 10.0
"""So long a shadow may take for a planning; then its process is ended."""
IDLE_S = 600.0
"""After so long without a question thread and process end."""


@dataclass(frozen=True, slots=True)
class Question:
    number: int
    at: datetime
    sharing: Any  # scheduler.planning.sharing.Sharing


class Runner:
    """One thread of this process, while there is something to ask. What comes while another waits is counted, not kept."""

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
        seen = Seen(
            number=question.number,
            at=question.at,
            acting=parameters.sharing_policy,
            shadow=parameters.sharing_shadow,
            spent_ms=1000 * (time.monotonic() - began_s),
            skipped=skipped,
        )
        shadow_store(seen=seen, found=found, error=error)

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
