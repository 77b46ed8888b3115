"""A planning's outcomes besides started jobs, as a reader may see them: other tenants' jobs have neither number nor name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.cluster.models import Node
from portal.people.tenants.models import Tenant, User
from portal.work.jobs.listing import jobs_for
from portal.work.jobs.models import Job
from portal.work.jobs.selectors import ANOTHERS

if TYPE_CHECKING:
    from portal.planning.rounds.models import Planning


def planning_outcomes(
    planning: Planning, user: User, *, tenant: Tenant | None = None
) -> dict[str, list[dict[str, Any]]]:
    """Return `stops`, `promises`, `lapsed`, `reservations`, `profiles`. Jobs: `{"number", "name"}`, number None when foreign.

    `tenant` narrows what is seen to the one that a token is restricted to. Two queries.
    """
    jobs = jobs_for(user=user, tenant=tenant).in_bulk(list(_jobs_named(planning)))
    nodes = dict(Node.objects.filter(pk__in=_nodes_named(planning)).values_list("pk", "name"))

    def who(job_id: int | None) -> dict[str, Any] | None:
        return job_shown(jobs.get(job_id)) if job_id else None

    def where(node_id: int) -> str:
        return nodes.get(node_id, "a node that is gone")

    def shares(kept: list[list[int]]) -> list[dict[str, Any]]:
        names = ("node", "gpus", "cores", "memory_mib")
        return [dict(zip(names, (where(node), *rest[:3]), strict=True)) for node, *rest in kept]

    return {
        "stops": [each | {name: who(each[name]) for name in ("job", "for_job")} for each in planning.stops],
        "promises": [
            {"job": who(each["job"]), "cause": each["cause"], "shares": shares(each["shares"])}
            for each in planning.promises
        ],
        "lapsed": [who(job_id) for job_id in planning.lapsed],
        "reservations": [
            {"job": who(each["job"]), "nodes": list(map(where, each["nodes"])), "until": each["until"]}
            for each in planning.reservations
        ],
        "profiles": [{**each, "job": who(each["job"]), "node": where(each["node"])} for each in planning.profiles],
    }


def _jobs_named(planning: Planning) -> set[int]:
    every = (*planning.stops, *planning.promises, *planning.reservations, *planning.profiles)
    served = {each["for_job"] for each in planning.stops if each["for_job"]}
    return {each["job"] for each in every} | served | set(planning.lapsed)


def _nodes_named(planning: Planning) -> set[int]:
    shared = {share[0] for each in planning.promises for share in each["shares"]}
    reserved = {node for each in planning.reservations for node in each["nodes"]}
    return shared | reserved | {each["node"] for each in planning.profiles}


def job_shown(job: Job | None) -> dict[str, Any]:
    return {"number": job.number, "name": job.name} if job else {"number": None, "name": ANOTHERS}


def stop_sentence(entry: dict[str, Any]) -> str:
    """Say in a line what became of one stop of `planning_outcomes`."""
    cause, to_gpus = entry["cause"], entry["to_gpus"]
    if cause == "resize":
        words = f"resized from {entry['from_gpus']} to {to_gpus} GPU{'' if to_gpus == 1 else 's'}"
    elif cause == "move":
        words = f"moved with its {to_gpus} GPU{'' if to_gpus == 1 else 's'}"
    else:
        words = "called back" if cause == "call-back" else "preempted"
        if entry["for_job"]:
            number = entry["for_job"]["number"]
            words += f" for {f'job {number}' if number else ANOTHERS}"
    return words if entry["ordered"] else f"{words}: it had ended or was being stopped already"


def profile_sentence(entry: dict[str, Any]) -> str:
    """Say in a line what became of one profile of `planning_outcomes`."""
    words = f"on one GPU of {entry['gpu_type']}, {entry['node']}, for {entry['limit_s']} s at most"
    return words if entry["begun"] else f"{words}: it no longer fitted"


def promise_sentence(entry: dict[str, Any]) -> str:
    """Say in a line what one promise of `planning_outcomes` keeps."""
    return " + ".join(
        f"{share['node']} \u00d7 {share['gpus']}" if share["gpus"] else f"{share['node']}, {share['cores']} cores"
        for share in entry["shares"]
    )
