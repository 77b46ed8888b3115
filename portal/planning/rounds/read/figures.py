"""A stored decision's figures as they are shown: numbers of jobs in place of ids, a job's place, the keepers of idle GPUs.

A waiting job's stored figures stay as long as its reason does. Its place changes with every planning, and so may the job that
keeps it out: both are read when they are shown. Places are numbered as `scheduler.explaining.places` numbers them, so page,
sentence, form and REST say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from portal.cluster.models import Node
from portal.planning.rounds.read.kept import kept_entries
from portal.work.jobs.models import Job
from scheduler.errors import InvalidParameter
from scheduler.explaining.places import PLACE_FIGURES, QUEUES
from scheduler.explaining.sentences import queue_words
from scheduler.model.placements import serves
from scheduler.parameters import PARAMETERS, Parameters
from scheduler.policies.registry import POLICIES

if TYPE_CHECKING:
    from portal.planning.rounds.models import Planning
    from portal.planning.rounds.record.decisions import Decisions
    from scheduler.policies.policy import Policy

    Figures = Mapping[str, Any]

__all__ = ["OUTSIDE", "QUEUES", "JobNumbers", "KeepersNow", "Turns", "queue_words"]

BESIDE = ("beside_own", "apart_own")
"""Figures of sharing: jobs on a GPU, and those that a job is kept apart from."""


class JobNumbers:
    """The numbers of jobs by id. One query for all the figures it is made with, and one for each that names others."""

    def __init__(self, figures: Iterable[Figures] = ()) -> None:
        self._known: dict[int, int | str] = {}
        self._read({job for each in figures for job in _ids(each)})

    def told(self, figures: Figures) -> dict[str, Any]:
        """Return the figures with numbers in place of ids; a job that is gone keeps its id."""
        self._read(set(_ids(figures)) - self._known.keys())
        told = dict(figures)
        if lost := told.get("lost_to"):
            told["lost_to"] = {**lost, "own_jobs": [self._number(job) for job in lost.get("own_jobs", ())]}
        if blocked := told.get("blocked_by"):
            told["blocked_by"] = {**blocked, "job": self._number(blocked.get("job"))}
        if keepers := told.get("keepers"):
            told["keepers"] = [{**each, "job": self._number(each.get("job"))} for each in keepers]
        for name in BESIDE:
            if beside := (told.get("shared") or {}).get(name):
                told["shared"] = {**told["shared"], name: [self._number(job) for job in beside]}
        if jobs := told.get("depends_on"):
            told["depends_on"] = [self._number(job) for job in jobs]
        return told

    def _number(self, job: Any) -> Any:
        return self._known.get(job, job)

    def _read(self, ids: set[int]) -> None:
        if ids:
            rows = Job.objects.filter(pk__in=ids).only("pk", "array_id", "array_index")
            self._known |= {job: job for job in ids} | {job.pk: job.number for job in rows}


def _ids(figures: Figures) -> Iterator[int]:
    """Yield the ids that figures name. A text is a number already; None stands for another tenant's job."""
    named = [*(figures.get("lost_to") or {}).get("own_jobs", ()), *(figures.get("depends_on") or ())]
    named += [job for name in BESIDE for job in (figures.get("shared") or {}).get(name) or ()]
    named += [(figures.get("blocked_by") or {}).get("job"), *(each.get("job") for each in figures.get("keepers") or ())]
    yield from (job for job in named if isinstance(job, int))


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


RESERVED = "reserved"


class KeepersNow:
    """The GPUs kept now. Five queries at most, when it is first asked about a job that is kept out."""

    def __init__(self, now: datetime) -> None:
        self._now_s = now.timestamp()

    def told(self, job: Job, reason: str | None, figures: Figures) -> dict[str, Any]:
        """Return the figures: as given, but of a job that is kept out with those who keep it out now.

        They are those with something on the nodes in its stored figures, else on nodes of its GPU types. Where nobody has any,
        for the next planning has not said yet, the stored figures stay, without a time that is past.
        """
        if reason != RESERVED or "keepers" not in figures:
            return dict(figures)
        stored = figures["keepers"]
        before = {name for each in stored for name in each["nodes"]}
        keepers = self._others(job, lambda node: node[0] in before)
        keepers = keepers or self._others(job, lambda node: serves(set(job.gpu_types), node[1]))
        if not keepers:
            past = {"until_s": None}
            keepers = [each if each.get("until_s", 0.0) > self._now_s else {**each, **past} for each in stored]
        return {**figures, "keepers": [self._counted(each, stored) for each in keepers], "more": 0}

    def _others(self, job: Job, is_meant: Callable[[tuple[str, str | None]], bool]) -> list[dict[str, Any]]:
        """Return those who keep something on such nodes; another tenant's job has no number."""
        entries, holders, nodes = self._entries
        found = []
        for entry in entries:
            holder = holders.get(entry["job"])
            on = [nodes[node] for node in entry["nodes"] if node in nodes]
            if holder is None or holder.pk == job.pk or not any(map(is_meant, on)):
                continue
            number = holder.number if holder.tenant_id == job.tenant_id else None
            names, until_s = sorted(name for name, _ in on), entry["until"].timestamp()
            found.append({"job": number, "nodes": names, "gpus": None, "until_s": until_s, "cause": entry["cause"]})
        return sorted(found, key=lambda each: each["until_s"])

    def _counted(self, keeper: dict[str, Any], stored: Sequence[Figures]) -> dict[str, Any]:
        """Return it with how many GPUs idled for it on these nodes, where that was recorded."""
        told = (
            each["gpus"] for each in stored if each["nodes"] == keeper["nodes"] and each["cause"] == keeper["cause"]
        )
        return {**keeper, "gpus": next(told, None)}

    @cached_property
    def _entries(self) -> tuple[list[dict[str, Any]], dict[int, Job], dict[int, tuple[str, str | None]]]:
        """Return the kept GPUs, their keepers, and the names and GPU types of the nodes."""
        entries = kept_entries()
        holders = Job.objects.only("pk", "tenant_id", "array_id", "array_index").in_bulk(
            [each["job"] for each in entries]
        )
        rows = Node.objects.filter(pk__in={node for each in entries for node in each["nodes"]})
        return (
            entries,
            holders,
            {pk: (name, kind) for pk, name, kind in rows.values_list("pk", "name", "gpu_type__name")},
        )
