"""How speed per GPU falls with the number of GPUs where a job was measured with one number only (algorithms.md section 2).

    v(r) = v(s) * (r / s)^e          s: the number that was measured

e is, between r and s, the mean of the same job's on the GPU types where several numbers were measured. Without any it is the
usual one: the mean over its tenant's signatures, the assumption (-0.1) counting as one of them. A tenant without any goes by the
median of the tenants' figures and the assumption, of two in the middle that nearer to the assumption: no single tenant moves
another's (ours; docs/decisions/0229).

How fast GPU types are against each other, learned from the jobs that were measured on several (algorithms.md section 2).

    speed(t) = speed(reference) * exp(median over signatures of the mean of log(v_t / v_reference) over equal sizes)

on one node, v per GPU; the reference is the type that most signatures were measured on. A signature that ran with no size on
both types is compared at those of the one, judged on the reference by its sizes there. The operator's figures hold for types
without a measurement. A tenant's jobs go by the tenant's own signatures on the types where it has any; else by the median of the
tenants' figures and the operator's, of two in the middle that nearer to the operator's: no single tenant moves another's.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import TYPE_CHECKING

from scheduler.estimator.links import towards
from scheduler.estimator.measured import SCALING_EXPONENT, Measured, tenant_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Usual:
    """The usual exponent, for jobs of tenants with figures of their own (`own`, by tenant) and for all others."""

    every: float = SCALING_EXPONENT
    own: Mapping[int, float] = field(default_factory=dict)

    def of(self, tenant: int | None) -> float:
        return self.own.get(tenant, self.every) if tenant is not None else self.every


USUAL = Usual()
"""Where nothing was measured."""


def learn_usual(measured: Mapping[str, Mapping[str, Measured]]) -> Usual:
    """The usual exponents by the measurements on one node, by signature and type.

    Signatures without a model label say nothing of others.
    """
    found: dict[int, list[float]] = {}
    for name, types in measured.items():
        tenant = tenant_of(name)
        slopes = [slope for each in types.values() if (slope := each.slope()) is not None]
        if tenant is not None and slopes:
            found.setdefault(tenant, []).append(fmean(slopes))
    own = {tenant: fmean([SCALING_EXPONENT, *slopes]) for tenant, slopes in found.items()}
    return Usual(towards(SCALING_EXPONENT, [SCALING_EXPONENT, *own.values()]), own)


@dataclass(frozen=True, slots=True)
class TypeSpeeds:
    """By GPU type, for jobs of tenants with figures of their own (`own`, by tenant) and for all others. Absent = 1."""

    every: Mapping[str, float]
    own: Mapping[int, Mapping[str, float]] = field(default_factory=dict)

    def of(self, tenant: int) -> Mapping[str, float]:
        return self.own.get(tenant, self.every)


def learn_type_speeds(
    measured: Mapping[str, Mapping[str, Measured]], told: Mapping[str, float], usual: Usual = USUAL
) -> TypeSpeeds:
    """The speeds by measurements (by signature and type), over the operator's."""
    several = {name: types for name, types in measured.items() if len(types) > 1 and tenant_of(name) is not None}
    if not several:
        return TypeSpeeds(told)
    counts = Counter(gpu_type for types in several.values() for gpu_type in types)
    reference = min(counts, key=lambda each: (-counts[each], each))
    found: dict[int, dict[str, list[float]]] = {}
    for name, types in several.items():
        tenant = tenant_of(name)
        for gpu_type, ratio in _ratios(types, reference, usual.of(tenant)).items():
            found.setdefault(tenant or 0, {}).setdefault(gpu_type, []).append(ratio)
    base = told.get(reference, 1.0)
    own = {
        tenant: {gpu_type: base * math.exp(median(each)) for gpu_type, each in ratios.items()}
        for tenant, ratios in found.items()
    }
    every = dict(told)
    for gpu_type in sorted({each for ratios in found.values() for each in ratios}):
        said = told.get(gpu_type, 1.0)
        every[gpu_type] = towards(
            said, [said, *(own[tenant][gpu_type] for tenant in found if gpu_type in found[tenant])]
        )
    return TypeSpeeds(every, {tenant: {**every, **speeds} for tenant, speeds in own.items()})


def _ratios(types: Mapping[str, Measured], reference: str, usual: float) -> dict[str, float]:
    """Mean log of a type's speed over the reference's, at the sizes measured on both; without any, at the type's own."""
    base = types.get(reference)
    found: dict[str, float] = {}
    for gpu_type, each in types.items():
        if base is not None and gpu_type != reference:
            sizes = sorted(each.aggregated.keys() & base.aggregated.keys()) or sorted(each.aggregated)
            pairs = [(each.on_one(size, usual, types), base.on_one(size, usual, types)) for size in sizes]
            logs = [math.log(own / other) for own, other in pairs if own and other]
            if logs:
                found[gpu_type] = fmean(logs)
    return found
