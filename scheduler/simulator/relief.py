"""The simulated service's contention eliminator (CODA V-D; algorithms.md section 9): the rule itself is `scheduler.contention`.

While a node's memory is pressed, or a job is throttled there, one period (`relieve_period_s`) follows another. A throttled job
gets its share of the memory traffic, works slower by the same factor, and gives that part of its cores back, but keeps one.
When the throttle is lifted it takes back those of its cores that are idle, and its speed follows the cores that it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from scheduler.contention import Order, Reading, Rules, Training, Watch, observe

if TYPE_CHECKING:
    from scheduler.simulator.cluster import Cluster
    from scheduler.simulator.load import Attempt, Load


class Relief:
    """Watches each node's traffic. `running`: the cluster's own mapping."""

    def __init__(self, cluster: Cluster, running: Mapping[int, Load], rules: Rules) -> None:
        self._cluster, self._running, self._rules = cluster, running, rules
        self._watches: dict[int, Watch] = {}
        self._upset_s: dict[int, float] = {}  # when somebody was throttled or released there last
        self._owed: dict[int, dict[int, int]] = {}  # node -> job -> cores that it had before its throttle
        self._due: set[int] = set()
        self.orders: list[tuple[float, int, Order]] = []

    def look(self, node: int) -> bool:
        """Note that something came or went on the node. Returns whether a period begins; call `period` when it ends."""
        watch = self._watches.get(node, Watch())
        pressed = self._cluster.pressure(node) >= self._rules.threshold
        if not pressed:
            self._watches[node] = Watch(self._reading(node).trainings, watch.throttles, watch.harmless)
        if node in self._due or not (pressed or watch.throttles or self._owed.get(node)):
            return False
        self._due.add(node)
        return True

    def period(self, node: int, now_s: float) -> tuple[list[int], bool]:
        """End a period. Returns the jobs whose share changed, and whether cores have become idle."""
        self._due.discard(node)
        changed = self._regain(node)
        self._watches[node], order = observe(self._watches.get(node, Watch()), self._reading(node), self._rules)
        if order is None:
            return changed, False
        self.orders.append((now_s, node, order))
        self._upset_s[node] = now_s
        freed = self._apply(node, order)
        return [*changed, order.job], freed

    def upset_since(self, node: int, at_s: float) -> bool:
        """Whether a measurement there since then is worth nothing."""
        return self._upset_s.get(node, -1.0) >= at_s

    def released_at(self, node: int, at_s: float) -> bool:
        """Whether somebody was released there then."""
        last = self.orders[-1] if self.orders else None
        return last is not None and last[:2] == (at_s, node) and last[2].share >= 1

    def _reading(self, node: int) -> Reading:
        trainings, drawn = {}, {}
        for load in self._running.values():
            attempt = load.attempt
            if attempt is None or not any(piece.node == node for piece in attempt.pieces):
                continue
            if load.traced.hints is not None and attempt.gpus:
                utilisation = min(1.0, attempt.rate / attempt.noise)
                trainings[load.id] = Training(utilisation, sum(len(piece.cores) for piece in attempt.pieces))
            elif load.traced.job.is_cpu:
                drawn[load.id] = self._cluster.part_of_bandwidth(node, load.traced.bandwidth_gbs * attempt.share)
        return Reading(self._cluster.pressure(node), trainings, drawn)

    def _apply(self, node: int, order: Order) -> bool:
        """Limit the job to its share. Returns whether it gave cores back."""
        load = self._running[order.job]
        attempt = load.attempt
        assert attempt is not None
        owed = self._owed.setdefault(node, {})
        held = len(attempt.pieces[0].cores)
        whole = owed.setdefault(order.job, held)
        cores = max(1, int(whole * order.share))
        if order.share < 1:
            attempt.exchange(
                self._cluster, min(cores, held + len(self._cluster.idle[node].cores)), load.traced.job.tenant
            )
            self._draw(load, attempt, order.share)
        else:
            self._regain(node)
        return len(attempt.pieces[0].cores) < held

    def _regain(self, node: int) -> list[int]:
        """Jobs that are not throttled any more take back their cores that are idle. Returns the jobs that have changed."""
        throttles = self._watches.get(node, Watch()).throttles
        changed = []
        for number, whole in list(self._owed.get(node, {}).items()):
            load = self._running.get(number)
            attempt = None if load is None else load.attempt
            if load is None or attempt is None or attempt.pieces[0].node != node:
                del self._owed[node][number]
            elif number not in throttles:
                held = len(attempt.pieces[0].cores)
                cores = min(whole, held + len(self._cluster.idle[node].cores))
                attempt.exchange(self._cluster, cores, load.traced.job.tenant)
                self._draw(load, attempt, cores / whole)
                changed.append(number)
                if cores == whole:
                    del self._owed[node][number]
        return changed

    def _draw(self, load: Load, attempt: Attempt, share: float) -> None:
        """From now on it has this share of its memory traffic and of its speed."""
        self._cluster.draw(attempt.pieces, load.traced.bandwidth_gbs * (share - attempt.share))
        attempt.share, attempt.shown = share, None
