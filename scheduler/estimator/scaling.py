"""How speed per GPU falls with the number of GPUs where a job was measured with one number only (algorithms.md section 2).

    v(r) = v(s) * (r / s)^e          s: the number that was measured

e is, between r and s, the mean of the same job's on the GPU types where several numbers were measured. Without any it is the
usual one: the mean over its tenant's signatures, the assumption (-0.1) counting as one of them. A tenant without any goes by the
median of the tenants' figures and the assumption, of two in the middle that nearer to the assumption: no single tenant moves
another's (ours; docs/decisions/0229).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING

from scheduler.estimator.links import towards
from scheduler.estimator.measured import SCALING_EXPONENT, Measured
from scheduler.estimator.tables import tenant_of

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


def learn(measured: Mapping[str, Mapping[str, Measured]]) -> Usual:
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
