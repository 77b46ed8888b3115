"""A learned sharing policy is trained again from this cluster's jobs, judged, and proposed. One at a time, bounded.

Half of the measured pairs are taught, the truth of the judgement is all of them (or, where none was measured, the law).
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from django.conf import settings
from django.db.models import Max

from portal.cluster.models import Gpu
from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.sources.training_data import telemetry_data
from portal.planning.estimation.selectors import pairs_measured
from portal.planning.rounds.planning.sharing import NAME
from portal.planning.sharing.proposing import proposal_fail, proposal_ready, proposal_take
from scheduler.sharing.learned.record import PolicyFileError, packed, unpacked
from scheduler.simulator.sharing.laws import MeasuredPairs
from scheduler.simulator.sharing.one_gpu import Observation
from scheduler.simulator.sharing.pickers import Sharing, placed, played
from scheduler.simulator.sharing.training_runs import LAW, training_begin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scheduler.sharing.learned.training import Network
    from scheduler.simulator.sharing.one_gpu import OneGpu
    from scheduler.simulator.sharing.training_runs import Seen

log = logging.getLogger(__name__)

LIMIT_S = 600.0
"""A training that takes longer is given up."""
SIGNATURES = 200
"""Kinds of jobs to learn from: those that ran last."""
JUDGED = tuple(range(1_000_001, 1_000_006))
"""Seeds of the workloads that policies are judged on; no training draws these."""
Speeds = dict[tuple[str, str], float]


class TooLong(Exception):
    """It did not come to its end in time."""


def retrain_next() -> int | None:
    """Train and judge the proposal that waits, or is due; return its number, None where there is none."""
    proposal = proposal_take()
    if proposal is None:
        return None
    try:
        proposal_ready(proposal=proposal, **trained(seed=proposal.pk, ends_s=time.monotonic() + LIMIT_S))
    except (SimulationError, TooLong) as error:
        proposal_fail(proposal=proposal, error=str(error))
    except Exception as error:
        proposal_fail(proposal=proposal, error=f"{type(error).__name__}: {error}")
        raise
    return proposal.pk


def trained(*, seed: int, ends_s: float, updates: int | None = None) -> dict[str, Any]:
    """Return a policy's file, its training record, its learning curve and how it was judged. Raises SimulationError, TooLong."""
    speeds, data = speeds_measured(), telemetry_data(_memory_mib(), SIGNATURES)
    known = half(speeds, seed)
    taught, truth = replace(data, law=MeasuredPairs(known, LAW)), replace(data, law=MeasuredPairs(speeds, LAW))
    training = training_begin(taught, seed, updates)
    while not training.over:
        if time.monotonic() > ends_s:
            raise TooLong(
                f"it was not trained within {LIMIT_S:g} s: {training.made} of {training.recipe.updates} updates"
            )
        training.update()
    about = taught.about() | {"pairs_known": len(known), "pairs_measured": len(speeds)}
    return {
        "content": packed(training, data.observation.limits, about),
        "about": about | {"seed": seed, "updates": training.made},
        "curve": [round(each, 4) for each in training.curve],
        "judged": judged(truth, training.network, known),
    }


def speeds_measured() -> Speeds:
    """Return the measured pairs: the part of its own speed that the first kept beside the second; of several types the mean."""
    found: dict[tuple[str, str], list[float]] = {}
    for (own, beside, _), (cell, _) in pairs_measured().items():
        found.setdefault((own, beside), []).append(cell.mean)
    return {pair: float(np.mean(each)) for pair, each in sorted(found.items())}


def half(speeds: Speeds, seed: int) -> Speeds:
    """Return the pairs that are taught, drawn by the seed: of two kinds both ways, as far as they were measured."""
    pairs = sorted({(min(pair), max(pair)) for pair in speeds})
    drawn = np.random.default_rng(seed).permutation(len(pairs))[: (len(pairs) + 1) // 2]
    taught = {pairs[int(place)] for place in drawn}
    return {pair: speed for pair, speed in speeds.items() if (min(pair), max(pair)) in taught}


def judged(truth: Seen, network: Network, known: Mapping[tuple[str, str], float]) -> dict[str, Any]:
    """Return each policy's mean figures on the workloads that no policy was trained on, by name."""
    found = {"proposed": _means([played(truth(seed), network) for seed in JUDGED], known)}
    if (present := _present()) is not None:
        as_present = replace(truth, observation=Observation(present[1].frame, present[1].limits))
        found["present"] = _means([played(as_present(seed), present[0]) for seed in JUDGED], known)
    found["cbp-pp"] = _means([placed(truth(seed), Sharing("cbp-pp")) for seed in JUDGED], known)
    return found


def _present() -> tuple[Network, Any] | None:
    """The network that serves now, with its record; None where there is no file that can be used."""
    try:
        stored = unpacked((Path(settings.DATA_DIR) / NAME).read_bytes())
    except (OSError, PolicyFileError) as error:
        log.info("no present policy to judge beside the proposed one: %s", error)
        return None
    return stored.network, stored


def _means(played_through: list[OneGpu], known: Mapping[tuple[str, str], float]) -> dict[str, float | None]:
    figures = [gpu.figures() for gpu in played_through]
    strangers = [slowdown for gpu in played_through for slowdown in _among_strangers(gpu, known)]
    means = {name: round(float(np.mean([each[name] for each in figures])), 3) for name in figures[0]}
    worst = round(max(each["worst_slowdown"] for each in figures), 3)
    unknown = round(float(np.mean(strangers)), 3) if strangers else None
    return means | {"worst_slowdown": worst, "unknown_slowdown": unknown}


def _among_strangers(gpu: OneGpu, known: Mapping[tuple[str, str], float]) -> list[float]:
    """The slowdowns of jobs that met only neighbours beside whom their kind was not taught."""
    kinds = [job.usage.signature for job in gpu.world.jobs]
    slowed = gpu.slowdowns()
    return [
        slowed[job]
        for job, met in enumerate(gpu.met)
        if met and all((kinds[job], kinds[other]) not in known for other in met)
    ]


def _memory_mib() -> int:
    """The memory of the largest GPU that jobs share; of the largest at all where none is shared."""
    present = Gpu.objects.present()
    shared = present.filter(mode=Gpu.Mode.SHARED)
    most = (shared if shared.exists() else present).aggregate(most=Max("memory_mib"))["most"]
    return most or 16_384
