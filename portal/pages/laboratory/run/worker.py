"""One simulation at a time: taken by conditional UPDATE, worked on with a heartbeat, ended once.

The worker that holds it may die at any time; a heartbeat gone stale gives the simulation to the next one, and after
`TRIES` of them it has failed. The same row in, the same answer out: everything it needs stands in the database.
"""

from __future__ import annotations

import json
import logging
import time
import zlib
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import F, Q
from django.utils import timezone

from portal.foundation.errors import BerthError
from portal.foundation.leases import holder_new
from portal.pages.laboratory.checking import inputs_of
from portal.pages.laboratory.errors import SimulationError as LabError
from portal.pages.laboratory.live import simulation_advanced, simulations_moved
from portal.pages.laboratory.models import Simulation
from portal.pages.laboratory.output.turns import turns_cost
from portal.pages.laboratory.run.simulating import policy_simulated
from portal.pages.laboratory.selectors import simulations_waiting
from portal.planning.rounds.settings.knobs import knobs_current
from scheduler.errors import SchedulerError
from scheduler.simulator.rivals import parameters_for, policy_named
from scheduler.simulator.traces.source import TraceError
from scheduler.simulator.world.truth import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.pages.laboratory.output.turns import Answer
    from scheduler.parameters import Parameters

log = logging.getLogger(__name__)
State = Simulation.State

STALE_S = 120
"""A heartbeat older than this is of a worker that is gone. One planning of the largest cluster takes a tenth of it."""

TRIES = 2
BEAT_EVERY_S = 1.0

REFUSALS = (TraceError, SimulationError, LabError, SchedulerError, BerthError)
"""The request cannot be simulated, and says why; anything else is a fault of ours."""


class Ended(Exception):
    """The simulation no longer belongs to this worker: it was cancelled, or another worker has it."""


class NotWorthIt(Exception):
    """The run without turns takes longer than the laboratory gives it."""


class TooLong(Exception):
    """It has run longer than the operator allows."""


def simulation_next() -> int | None:
    """Work on the oldest waiting simulation until it ends. Return its id; None when none waits."""
    _stale_release()
    holder = holder_new()
    simulation = _take(holder)
    if simulation is None:
        return None
    try:
        figures, curves, turns = _work(simulation, holder)
    except Ended:
        _end(simulation, holder, State.CANCELLED)
    except TooLong as error:
        _end(simulation, holder, State.FAILED, error=str(error))
    except REFUSALS as error:
        _end(simulation, holder, State.FAILED, error=str(error))
    except Exception as error:
        log.exception("simulation %s failed", simulation.pk)
        _end(simulation, holder, State.FAILED, error=f"{type(error).__name__}: {error}. This is a fault of Berth's.")
    else:
        packed = zlib.compress(json.dumps(curves, separators=(",", ":")).encode())
        _end(simulation, holder, State.COMPLETED, figures=figures, curves=packed, turns=turns)
    return simulation.pk


def _stale_release() -> None:
    """Give back simulations of workers that died: to be tried again, as failed, or as cancelled when that was asked."""
    now = timezone.now()
    stale = Simulation.objects.filter(state=State.RUNNING, heartbeat_at__lt=now - timedelta(seconds=STALE_S))
    gone = list(stale.values_list("pk", flat=True))
    stale.filter(cancel_requested_at__isnull=False).update(state=State.CANCELLED, ended_at=now, holder="")
    words = "Its worker died twice, most often because memory ran out; simulate fewer jobs or a smaller cluster."
    stale.filter(tries__gte=TRIES).update(state=State.FAILED, ended_at=now, holder="", error=words)
    stale.update(state=State.QUEUED, holder="")
    if gone:
        simulations_moved([*gone, *simulations_waiting().exclude(pk__in=gone)])


def _take(holder: str) -> Simulation | None:
    now = timezone.now()
    for number in Simulation.objects.filter(state=State.QUEUED).order_by("pk").values_list("pk", flat=True)[:10]:
        waiting = Simulation.objects.filter(pk=number, state=State.QUEUED)
        if waiting.update(state=State.RUNNING, holder=holder, heartbeat_at=now, started_at=now, tries=F("tries") + 1):
            simulations_moved([number])
            return Simulation.objects.select_related("trace").get(pk=number)
    return None


@dataclass(slots=True)
class _Beat:
    """Writes now and then how far a policy is, and learns whether to go on."""

    simulation: Simulation
    holder: str
    until_s: float
    minutes: float
    beaten_s: float = 0.0

    def of(self, policy: str) -> Callable[[float], None]:
        def tell(fraction: float) -> None:
            self.simulation.progress[policy] = round(fraction, 4)
            self.beat()

        return tell

    def at_most(self, limit_s: float) -> Callable[[float], None]:
        """Return a `tell` that raises NotWorthIt after this time, or when the operator's limit is reached."""
        until_s = min(self.until_s, time.monotonic() + limit_s)

        def tell(_: float) -> None:
            if time.monotonic() > until_s:
                raise NotWorthIt(f"it took longer than {limit_s:g} s")
            self.beat()

        return tell

    def beat(self, *, now: bool = False) -> None:
        at_s = time.monotonic()
        if at_s > self.until_s:
            raise TooLong(
                f"It ran longer than the {self.minutes:g} minutes that the operator allows (laboratory_minutes); "
                "simulate fewer jobs, or cut it off earlier."
            )
        if not now and at_s - self.beaten_s < BEAT_EVERY_S:
            return
        self.beaten_s = at_s
        mine = Simulation.objects.filter(pk=self.simulation.pk, holder=self.holder, state=State.RUNNING)
        progress = self.simulation.progress
        if not mine.filter(cancel_requested_at=None).update(heartbeat_at=timezone.now(), progress=progress):
            raise Ended
        simulation_advanced(self.simulation.pk)


def _work(simulation: Simulation, holder: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    minutes = knobs_current()["laboratory_minutes"]
    beat = _Beat(simulation, holder, time.monotonic() + 60 * minutes, minutes)
    beat.beat(now=True)
    inputs = inputs_of(simulation)
    found, drawn, took_s = {}, {}, {}
    asked: dict[str, Any] = {"seed": simulation.seed, "until_h": simulation.until_h}

    def run(parameters: Parameters, *, tell: Callable[[float], None]) -> Answer:
        return policy_simulated(inputs.jobs, inputs.names, inputs.world, parameters, tell=tell, **asked)

    for policy in simulation.policies:
        from_s = time.monotonic()
        found[policy], drawn[policy] = run(parameters_for(policy, simulation.knobs), tell=beat.of(policy))
        took_s[policy] = time.monotonic() - from_s
        simulation.progress[policy] = 1.0
        beat.beat(now=True)
    short = [name for name in found if took_s[name] <= TURNS_LIMIT_S and len(found[name]["tenants"]) > 1]
    priced = (_turns(run, parameters_for(name, simulation.knobs), (found[name], drawn[name]), beat) for name in short)
    return found, drawn, next(filter(None, priced), {})


TURNS_LIMIT_S = 60.0
"""Turns have a price where the run with them took no longer; the one without may take twice as long."""


def _turns(run: Callable[..., Answer], parameters: Parameters, answer: Answer, beat: _Beat) -> dict[str, Any]:
    """Return the price of turns by shares, from one more run without. {} where there are none, or it takes long."""
    plain, is_fair = replace(parameters, fair_shares="off"), policy_named(parameters.policy).is_fair
    if is_fair(plain) or not is_fair(parameters):
        return {}
    try:
        return turns_cost(answer, run(plain, tell=beat.at_most(2 * TURNS_LIMIT_S)))
    except (NotWorthIt, *REFUSALS) as error:
        log.info("simulation %s has no price of turns: %s", beat.simulation.pk, error)
        return {}


def _end(simulation: Simulation, holder: str, state: str, **fields: Any) -> None:
    """End it, if it is still ours."""
    mine = Simulation.objects.filter(Q(pk=simulation.pk, holder=holder, state=State.RUNNING))
    if mine.update(state=state, ended_at=timezone.now(), holder="", progress=simulation.progress, **fields):
        simulations_moved([simulation.pk, *simulations_waiting()])
