"""The pass over nodes whose memory is pressed: each gets a watch, and each watch that is due goes a period on.

It costs two queries while nothing is pressed, for any number of nodes, and a fixed number more while something is; and a
transaction for each order. The nodes' last words (`Node.memory_share`) open a watch; the meaning of a period is
the scheduler's (`scheduler.contention.observe`, which the simulator calls too).

Where too little was measured, nothing is done: nobody is slowed further, and nobody is let go. Orders stand until the node is
in contact again, or the job has ended.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from portal.cluster.models import Node, NodeEvent
from portal.foundation.bulk import among
from portal.planning.rounds.contention import readings
from portal.planning.rounds.contention.throttling import cores_regain, ended_close, let_go, order_apply
from portal.planning.rounds.planning.lease import errand
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.planning.rounds.tuning.measures import idle_cores_beside
from portal.work.jobs.models import Allocation, Attempt, MemoryWatch, Slowing
from portal.work.jobs.states import AttemptState
from scheduler.contention import Rules, Watch, observe
from scheduler.parameters import Parameters

log = logging.getLogger(__name__)

LAG_S = 6.0
"""Figures of the last seconds are on their way: nodes send every five."""
SETTLE_S = 2.0
"""Seconds of a held order before a period begins."""
ANSWER_S = 120.0
"""Seconds after which a missing acknowledgement is reported; the rest of the node is looked at again."""
AT_ONCE = 500
LEASE_S = 60.0


def relief_pass(*, now: datetime | None = None) -> int:
    """Slow jobs, and let them go, when it is time; return how many orders were given. Nothing while another worker does it.

    Where nothing runs and nobody is held back or watched, it takes no lease: an idle portal writes nothing.
    """
    held = Slowing.objects.filter(Q(to_at=None) | Q(cores_owed__isnull=False))
    if not (Attempt.objects.runs().live().exists() or MemoryWatch.objects.exists() or held.exists()):
        return 0
    with errand("relieve", limit_s=LEASE_S) as mine:
        return _pass(now or timezone.now()) if mine else 0


def _pass(now: datetime) -> int:
    parameters = scheduler_parameters(knobs_current())
    ended_close(now=now)
    _regain()
    if parameters.relieve_memory != "on":
        MemoryWatch.objects.all().delete()
        held = Slowing.objects.filter(to_at=None).select_related("attempt__job", "helped__job", "node")[:AT_ONCE]
        return sum(let_go(slowing, now=now) for slowing in held)
    _begin(now, parameters)
    _acknowledged(now, parameters)
    due = list(MemoryWatch.objects.filter(due_at__lte=now, since__isnull=False).select_related("node")[:AT_ONCE])
    if not due:
        return 0
    here = readings.here_read(watch.node_id for watch in due)
    batches = readings.batches_read(here, min(watch.since for watch in due if watch.since), now)
    return sum(_period(watch, here[watch.node_id], batches, parameters, now) for watch in due)


def _regain() -> None:
    """Let those who were let go take their cores back, where some are idle."""
    owed = list(Slowing.objects.filter(cores_owed__isnull=False, to_at__isnull=False)[:AT_ONCE])
    if owed:
        able = idle_cores_beside(slowing.attempt_id for slowing in owed)
        for slowing in owed:
            if slowing.attempt_id in able:
                cores_regain(slowing)


def _begin(now: datetime, parameters: Parameters) -> None:
    """Watch the nodes that say that they are pressed, where a training job and a CPU job run beside each other."""
    runs = Allocation.objects.filter(
        node=OuterRef("pk"), released_at=None, attempt__kind="run", attempt__state=AttemptState.RUNNING
    )
    pressed = Node.objects.reachable().filter(
        Exists(runs.filter(attempt__gpus__gt=0)),
        Exists(runs.filter(attempt__gpus=0)),
        ~Exists(MemoryWatch.objects.filter(node=OuterRef("pk"))),
        memory_share__gte=parameters.relieve_threshold,
        dead_at=None,
    )
    names = list(pressed.order_by("pk").values_list("pk", flat=True)[:AT_ONCE])
    if not names:
        return
    here, batches = readings.here_read(names), readings.batches_read(names, now - readings.HISTORY, now)
    MemoryWatch.objects.bulk_create(
        [_watch_new(node_id, here[node_id], batches.get(node_id, []), now, parameters) for node_id in names],
        ignore_conflicts=True,
    )


def _watch_new(
    node_id: int, here: readings.Here, batches: readings.Batches, now: datetime, parameters: Parameters
) -> MemoryWatch:
    period_s, threshold = parameters.relieve_period_s, parameters.relieve_threshold
    before = readings.before_read(batches, here, now=now, period_s=period_s, threshold=threshold)
    return MemoryWatch(
        node_id=node_id,
        state=readings.watch_dump(Watch(before=before)),
        since=now,
        due_at=now + timedelta(seconds=period_s + LAG_S),
        begun_at=now,
    )


def _acknowledged(now: datetime, parameters: Parameters) -> None:
    """Begin the next period where a node has acknowledged its order; go on without where it has not for too long."""
    waiting = list(MemoryWatch.objects.filter(since=None).select_related("node"))
    if not waiting:
        return
    jobs = Slowing.objects.filter(
        node=OuterRef("node"), attempt=OuterRef("attempt"), changed_at__gte=now - readings.HISTORY
    )
    open_orders = Allocation.objects.filter(
        Exists(jobs), node__in=among(watch.node_id for watch in waiting), released_at=None, cores_sequence__gt=0
    ).exclude(cores_acknowledged=F("cores_sequence"))
    behind = set(open_orders.values_list("node_id", flat=True))
    for watch in waiting:
        late = watch.ordered_at is not None and now - watch.ordered_at > timedelta(seconds=ANSWER_S)
        if watch.node_id in behind and not late:
            continue
        if watch.node_id in behind:
            NodeEvent.objects.create(
                node=watch.node, kind="no answer", detail="it has not said that a job is slowed there, as it was told"
            )
        _next(watch, since=now + timedelta(seconds=SETTLE_S), parameters=parameters)
    MemoryWatch.objects.bulk_update(waiting, ["since", "due_at", "ordered_at"])


def _next(watch: MemoryWatch, *, since: datetime, parameters: Parameters) -> None:
    watch.since, watch.ordered_at = since, None
    watch.due_at = since + timedelta(seconds=parameters.relieve_period_s + LAG_S)


def _period(
    row: MemoryWatch,
    here: readings.Here,
    batches: Mapping[int, readings.Batches],
    parameters: Parameters,
    now: datetime,
) -> bool:
    """End a period of one node; say whether something was ordered. A failure there concerns no other node."""
    try:
        return _Period(row, here, parameters, now).go(batches.get(row.node_id, []))
    except Exception:
        log.exception("memory of node %s: its period failed", row.node.name)
        MemoryWatch.objects.filter(pk=row.pk).update(due_at=now + timedelta(seconds=ANSWER_S))
        return False


@dataclass(frozen=True, slots=True)
class _Period:
    """A period of a node that is over."""

    row: MemoryWatch
    here: readings.Here
    parameters: Parameters
    now: datetime

    def go(self, batches: readings.Batches) -> bool:
        since, period_s = self.row.since, self.parameters.relieve_period_s
        assert since is not None
        span = readings.Span(batches, since.timestamp(), since.timestamp() + period_s)
        watch = readings.watch_load(self.row.state)
        known = {*watch.before, *(each.helped for each in watch.throttles.values())} & self.here.trainings.keys()
        by_cores = self.row.node.memory_traffic.get("throttle") in {"cores", "", None}
        reading = readings.reading_make(span, self.here, by_cores=by_cores, known=known)
        if reading is None:  # too little was measured: nothing is done, and nobody let go
            self._go_on(watch, since=self.now)
            if not (self.here.trainings and self.here.others) and not watch.throttles:
                self.row.delete()
            return False
        after, order = observe(watch, reading, self.rules)
        if order is None:
            self._go_on(after, since=max(since + timedelta(seconds=period_s), self.now - timedelta(seconds=LAG_S)))
            matters = after.throttles or after.harmless or reading.total >= self.rules.threshold
            if not matters or not (after.throttles or (reading.trainings and reading.drawn)):
                self.row.delete()
            return False
        before = watch.before.get(order.training)
        lost = None if order.fell is None or before is None else order.fell / before.utilisation
        if not order_apply(order, lost=lost, drew=reading.drawn.get(order.job, 0.0), now=self.now):
            self._go_on(watch, since=self.now)
            return False
        self.row.state, self.row.since, self.row.ordered_at = readings.watch_dump(after), None, self.now
        self.row.save()
        return True

    @property
    def rules(self) -> Rules:
        return Rules(self.parameters.relieve_threshold, self.parameters.noise_band)

    def _go_on(self, watch: Watch, *, since: datetime) -> None:
        self.row.state = readings.watch_dump(watch)
        _next(self.row, since=since, parameters=self.parameters)
        self.row.save()
