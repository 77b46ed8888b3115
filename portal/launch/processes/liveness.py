"""Finds programs that hang: a stopped or blocked process still exists, so no exit shows it.

A program either writes signs of life into its pipe (`portal.foundation.alive`), or it is asked from
outside: the portal over HTTP, the broker with PING. A program that is silent for the limit hangs. Silence does not count while
the supervisor itself was stopped (a suspended machine), nor for a worker while the broker does not answer.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from portal.launch.processes.children import Child

FIRST_SIGN_S = 120.0
"""The time that a program has until its first sign. On a busy machine, loading modules takes half a minute."""
ASK_PERIOD_S = 2.0
UNSURE_SHARE = 0.25
"""When a program has not answered for this share of the limit, the programs that need it are excused."""

Ask = Callable[[], None]


@dataclass
class Asker:
    """Asks each program in a thread of its own, so that a program that hangs does not delay the others."""

    clock: Callable[[], float] = time.monotonic
    answered_at: dict[str, float] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    _over: threading.Event = field(default_factory=threading.Event)

    def begin(self, name: str, ask: Ask) -> None:
        """Begin to ask. A second call for the same name does nothing."""
        if name not in self._asked:
            self._asked.add(name)
            threading.Thread(target=self._ask_for_ever, args=(name, ask), name=f"ask-{name}", daemon=True).start()

    def stop(self) -> None:
        self._over.set()

    def _ask_for_ever(self, name: str, ask: Ask) -> None:
        while not self._over.wait(ASK_PERIOD_S):
            try:
                ask()
            except Exception:  # noqa: BLE001, S112 - any error means that there was no answer; it asks again
                continue
            self.answered_at[name] = self.clock()


@dataclass
class Liveness:
    """Decides which children hang. With `limit_s` 0 none ever does."""

    limit_s: float
    clock: Callable[[], float] = time.monotonic
    asker: Asker = field(default_factory=Asker)
    _looked_at: float | None = None

    def begin(self, child: Child) -> None:
        """Begin to ask a child whose process was just started."""
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
        """Return when the present process last showed that it lives; None when it never has."""
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
        """Yield processes of the child's group that gave signs and are silent now. Dead ones are forgotten."""
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
