"""Where waiting jobs stand in the last planning, and the figures of those whose turn has not come: read, never stored.

Both change with every planning, while a waiting job's stored figures stay as long as its reason does. The numbering is that
of `scheduler.explaining.places`: page, sentence, form and REST say the same place of the same queue.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from portal.work.jobs.models import Job
from scheduler.errors import InvalidParameter
from scheduler.explaining.places import PLACE_FIGURES, QUEUES
from scheduler.explaining.sentences import queue_words
from scheduler.parameters import PARAMETERS, Parameters
from scheduler.policies.registry import POLICIES

if TYPE_CHECKING:
    from portal.planning.rounds.models import Planning
    from portal.planning.rounds.record.decisions import Decisions
    from scheduler.policies.policy import Policy

__all__ = ["OUTSIDE", "QUEUES", "Turns", "queue_words"]

OUTSIDE = "outside-window"


class Turns:
    """A planning's figures of the jobs whose turn has not come. At most one query, for a strict policy."""

    def __init__(self, decisions: Decisions, planning: Planning | None) -> None:
        self._decisions, self._planning = decisions, planning

    def told(self, row: int, job: Job, figures: dict[str, Any]) -> dict[str, Any]:
        """Return the decision's figures: as given, but where its turn has not come with its place as of this planning."""
        entry, tenant_id = self._decisions.entry(row), job.tenant_id
        standing = self._decisions.standing(row)
        if entry["reason"] != OUTSIDE or standing is None:
            return figures
        kept = {name: value for name, value in figures.items() if name not in PLACE_FIGURES}
        kept.setdefault("needs", {"min_gpus": job.gpus[0], "gpus": job.gpus, "gpu_types": job.gpu_types})
        blocking = self._blocking(tenant_id)
        if blocking is not None:
            return {**kept, **standing, "blocked_by": blocking}
        return {**kept, **standing, **self._window(entry["array"], tenant_id)}

    def _window(self, array: str, tenant_id: int) -> dict[str, Any]:
        window = self._decisions.window(array)
        whole = self._planning.metrics.get("window_gpus", 0) if self._planning else 0
        return {
            **self._decisions.considered(array),
            "window_gpus": window["capacity"] if window else whole,
            "share": self._share(tenant_id),
        }

    @cached_property
    def _policy(self) -> Policy | None:
        return POLICIES.get(self._planning.policy) if self._planning else None

    @cached_property
    def _knobs(self) -> Parameters:
        stored = self._planning.parameters if self._planning else {}
        try:
            return Parameters.from_mapping({each.name: stored[each.name] for each in PARAMETERS if each.name in stored})
        except InvalidParameter:  # of another release
            return Parameters()

    @property
    def sweeps(self) -> bool:
        """Whether what the windows left idle was offered to the jobs behind them."""
        return self._policy is not None and self._policy.sweeps(self._knobs)

    def _share(self, tenant_id: int) -> float | None:
        """Return the tenant's share of the GPUs with its picks; None where shares do not decide, or nobody else has one."""
        told = [each for each in self._decisions.head["shares"] if each["resource"] == "gpus"]
        if len(told) < 2 or (self._policy and not self._policy.is_fair(self._knobs)):
            return None
        own = next((each for each in told if each["tenant"] == tenant_id), None)
        return own["with_picks"] / (own["capacity"] or 1.0) / own["weight"] if own else 0.0

    @cached_property
    def _tenants(self) -> dict[int, int]:
        """Return the tenants of the jobs that nobody may pass."""
        jobs = [job for job, tenant in self._decisions.head.get("blocking", ()) if tenant is None]
        return dict(Job.objects.filter(pk__in=jobs).values_list("pk", "tenant_id")) if jobs else {}

    def _blocking(self, tenant_id: int) -> dict[str, Any] | None:
        """Return the job that keeps the tenant's jobs back under a strict order; its number only where it is the tenant's own."""
        for job, tenant in self._decisions.head.get("blocking", ()):
            row = self._decisions.find(job)
            standing = None if row is None else self._decisions.standing(row)
            if tenant in {None, tenant_id} and standing is not None:
                own = tenant_id in {tenant, self._tenants.get(job)}
                return {"place": standing["place"], "queue": standing["queue"], "job": job if own else None}
        return None
