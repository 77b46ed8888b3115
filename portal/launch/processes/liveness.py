"""Finds what hangs: a stopped or blocked process still exists, so its exit tells nobody.

Each program either writes signs of life into its pipe (`portal.alive`) or is asked from outside: the portal over HTTP,
the broker with PING. Silence for the limit means that it hangs. Nothing is concluded while the supervisor itself stood
still (a suspended machine), nor of a worker while the broker does not answer.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from portal.launch.processes.children import Child

FIRST_SIGN_S = 120.0
"""A program may take so long to begin: on a busy machine it loads its modules for half a minute."""
ASK_PERIOD_S = 2.0
UNSURE_SHARE = 0.25
"""An asked program that has not answered for this share of the limit is not relied upon by those that need it."""

Ask = Callable[[], None]


@dataclass
class Asker:
    """Asks each program in a thread of its own, so that one that hangs keeps nobody waiting."""

    clock: Callable[[], float] = time.monotonic
    answered_at: dict[str, float] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)

    def begin(self, name: str, ask: Ask) -> None:
        """Ask from now on; a second call for one name changes nothing."""
        if name not in self._asked:
            self._asked.add(name)
            threading.Thread(target=self._ask_for_ever, args=(name, ask), name=f"ask-{name}", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _ask_for_ever(self, name: str, ask: Ask) -> None:
        while not self._over.wait(ASK_PERIOD_S):
            try:
                ask()
            except Exception:  # noqa: BLE001, S112 - whatever it was, it was no answer, and the next may be one
                continue
            self.answered_at[name] = self.clock()


@dataclass
class Liveness:
    """Judges children. `limit_s` 0: nothing is ever judged."""

    limit_s: float
    clock: Callable[[], float] = time.monotonic
    asker: Asker = field(default_factory=Asker)
    _looked_at: float | None = None

    def begin(self, child: Child) -> None:
        """A process of this child has just been started."""
        if child.program.ask is not None:
            self.asker.begin(child.program.name, child.program.ask)

    def look(self, children: Mapping[str, Child]) -> tuple[list[Child], list[tuple[Child, int]]]:
        """Return the children that hang, and (child, pid) of hanging pool processes of others."""
        now = self.clock()
        stood_still = self._looked_at is not None and now - self._looked_at > self.limit_s / 2
        self._looked_at = now
        hanging, pool = [], []
        for child in children.values():
            if child.process is None:
                continue
            child.read_signs(now)
            if stood_still or self._is_excused(child, now):
                child.excused_at = now
            if self.limit_s <= 0:
                continue
            if self._hangs(child, now):
                hanging.append(child)
            else:
                pool += [(child, pid) for pid in self._pool_hanging(child, now)]
        return hanging, pool

    def _is_excused(self, child: Child, now: float) -> bool:
        need = child.program.needs
        return need is not None and now - self.asker.answered_at.get(need, 0.0) > self.limit_s * UNSURE_SHARE

    def _last_sign(self, child: Child) -> float | None:
        """When the present process last showed that it lives; None when it has not been asked for signs, or given any."""
        assert child.process is not None
        if child.program.ask is not None:
            at = self.asker.answered_at.get(child.program.name, 0.0)
            return at if at > child.started_at else None
        return child.signs.get(child.process.pid)

    def _hangs(self, child: Child, now: float) -> bool:
        if child.program.ask is None and not child.program.signs:
            return False
        last = self._last_sign(child)
        silent_from = child.started_at + max(0.0, FIRST_SIGN_S - self.limit_s) if last is None else last
        return now - max(silent_from, child.excused_at) > self.limit_s

    def _pool_hanging(self, child: Child, now: float) -> Iterable[int]:
        """Processes of the child's own group that signed once and then fell silent; the dead are forgotten."""
        assert child.process is not None
        for pid, at in list(child.signs.items()):
            if pid == child.process.pid or now - max(at, child.excused_at) <= self.limit_s:
                continue
            del child.signs[pid]
            if _group_of(pid) == child.process.pid:
                yield pid


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return None
