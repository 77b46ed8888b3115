"""The numbers beneath a job's sentence: waiting, share, window, candidates, and why the best one was rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.pages.dashboard.parts.formatting import count_of, memory, number, share
from portal.pages.dashboard.parts.plain import waited_times
from portal.planning.rounds.read.figures import QUEUES
from portal.planning.rounds.read.lengths import SOURCES

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import Fact, Rich
    from portal.work.jobs.models import Job

MEASURED = {"entity", "type", "theory", "theory-assumed", "nodes", "sizes"}
RESOURCES = {"gpus": "GPU", "cores": "core"}
QUOTAS = {"gpu_quota": "GPU", "core_quota": "core"}
OTHERWISE = {
    "trust": "another tenant's job runs there under the same account",
    "kept": "its nodes are kept for another job or pool",
    "value": "worth less than what was chosen",
    "solver": "the search stopped at its gap or limit before trying it",
}
NODES_SHOWN = 2
SIDES = {"front": "first", "backfill": "after others", "outside": "others come first"}


def numbers_make(job: Job, why: dict[str, Any]) -> dict[str, Any] | None:
    """Show what the scheduler saw: only figures that it recorded."""
    if why["age_s"] is None or job.array_size:
        return None
    wait: Fact = {"label": "Wait", "value": span_words(why["wait_s"]), "note": "eligible waiting, all attempts"}
    facts = [wait, _age(why), _ratio(why), _place(why), _share(why)]
    if not job.shareable:  # windows hand out whole GPUs
        facts.append(_window(why))
    return {
        "words": _words(why),
        "figures": [fact for fact in facts if fact],
        "throughput_unit": "samples/s"
        if any(each["source"] in MEASURED for each in why["candidates"] or ())
        else "speed",
        "candidates": [_shared(each, job) if job.shareable else each for each in _candidates(why)],
        "classes": _classes(why),
        "binding": _binding(why),
        "json_url": reverse("job-explain", args=[job.number]),
    }


def _words(why: dict[str, Any]) -> str:
    place = f"place {number(why['place'])} of {number(why['queue_length'])}" if why["place"] is not None else ""
    return "; ".join(filter(None, (waited_times(why["latency_ratio"]), place))) or "the last planning"


def span_words(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _age(why: dict[str, Any]) -> Fact:
    return {
        "label": "Age, expected run time",
        "value": span_words(why["age_s"]),
        "note": SOURCES.get(why["age_source"], why["age_source"]) or None,
    }


def _ratio(why: dict[str, Any]) -> Fact | None:
    ratio = why["latency_ratio"]
    return None if ratio is None else {"label": "Wait over run time", "value": f"{ratio:.2f}", "note": None}


def _place(why: dict[str, Any]) -> Fact | None:
    if why["place"] is None:
        return None
    value = f"{number(why['place'])} of {number(why['queue_length'])}"
    return {"label": "Place", "value": value, "note": f"in the queue for {QUEUES[why['queue']]}"}


def _share(why: dict[str, Any]) -> Fact | None:
    own = why["tenant_share"]
    if own is None or own["share"] is None:
        return None
    what = "GPUs" if own["resource"] == "gpus" else "CPU cores"
    note = f"{own['held']:g} of {own['capacity']:g} held; {own['with_picks']:g} with its considered jobs"
    return {"label": f"Tenant share, {what}", "value": str(share(own["share"], 1)), "note": note}


def _window(why: dict[str, Any]) -> Fact | None:
    if why["side"] is None:
        return None
    window = why["window"]
    note = None
    if window:
        asked = "" if window["counted"] is None else f": {window['counted']} asked"
        note = f"closes at {count_of(window['capacity'], 'GPU')}{asked}"
    return {"label": "Looked at", "value": SIDES.get(why["side"], why["side"]), "note": note}


# ---- candidates ------------------------------------------------------------------------------------------------------


def _candidates(why: dict[str, Any]) -> list[dict[str, Any]]:
    chosen, rejected = why["chosen"], why["best_rejected"]
    if chosen is None and not why["candidates"]:
        return []
    rows = [_not_placed()] if chosen is None else [_row(chosen, why, verdict="chosen", result=_source(chosen))]
    loss = None if chosen is None else chosen["value"]
    if rejected is not None:
        rows.append(_row(rejected, why, verdict="best-rejected", result=binding_words(rejected["binding"]), than=loss))
    rows += [
        _row(each, why, verdict="rejected", result=_where(each), than=loss)
        for each in why["candidates"] or ()
        if not any(other and _shape(each) == _shape(other) for other in (chosen, rejected))
    ]
    return rows


def _shape(each: dict[str, Any]) -> tuple[Any, ...]:
    return each["gpu_type"], each["gpus"], each["cores"], each["spread"]


def _not_placed() -> dict[str, Any]:
    return {
        "configuration": "not placed in this planning",
        "gpus": None,
        "cores": None,
        "throughput": None,
        "goodness": None,
        "weight": None,
        "loss": None,
        "objective": 0.0,
        "verdict": "chosen",
        "result": "",
    }


def _row(
    each: dict[str, Any], why: dict[str, Any], *, verdict: str, result: str, than: float | None = None
) -> dict[str, Any]:
    loss = None if than is None else each["value"] - than
    return {
        "configuration": _configuration(each),
        "gpus": str(each["gpus"]),
        "cores": str(each["cores"]),
        "throughput": None if each["throughput"] is None else f"{each['throughput']:.4g}",
        "goodness": each["gain"],  # G
        "weight": why["weight"],  # w
        "objective": each["value"],  # w x G x factor
        "loss": loss if loss and abs(loss) >= 0.005 else None,
        "verdict": verdict,
        "result": result,
    }


def _shared(row: dict[str, Any], job: Job) -> dict[str, Any]:
    """The row of a job that shares a GPU: it takes a part of one, and no whole GPU."""
    if row["gpus"] is None:
        return row
    words = row["configuration"].replace("\u00d7 CPU", "\u00d7 part of a GPU")
    return {**row, "configuration": words, "gpus": f"{job.gpu_compute / 10:g} %"}


def _configuration(each: dict[str, Any]) -> str:
    """a100-01 x 4 where the nodes are known, else A100 x 4."""
    if isinstance(each["nodes"], dict):
        return " + ".join(f"{name} \u00d7 {part['gpus'] or 'CPU'}" for name, part in each["nodes"].items())
    spread = ", over several nodes" if each["spread"] else ""
    return f"{each['gpu_type']} \u00d7 {each['gpus']}{spread}"


def _source(each: dict[str, Any]) -> str:
    borrowed = "borrowed; " if each["factor"] < 1 else ""
    return f"{borrowed}{each['source']} speed"


def _where(each: dict[str, Any]) -> str:
    """Say on how many nodes it could have been placed when the planning began."""
    if each["ways"] is None or isinstance(each["nodes"], dict):
        return _source(each)
    names = ", ".join(each["nodes"][:NODES_SHOWN]) + (" ..." if each["ways"] > NODES_SHOWN else "")
    what = "set of nodes" if each["spread"] else "node"
    return (
        f"fitted {each['ways']} {what}{'s' if each['ways'] != 1 else ''} ({names})" if each["ways"] else _source(each)
    )


def _classes(why: dict[str, Any]) -> str | None:
    more = (why["classes"] or 0) - len(why["candidates"] or ())
    return f"{more} more kind{'s' if more != 1 else ''} of candidates, all worth less." if more > 0 else None


def binding_words(binding: dict[str, Any] | None) -> str:
    if not binding:
        return ""
    resource, where = binding["resource"], f" on {binding['node']}" if binding["node"] else ""
    if resource == "memory_mib":
        left = f"{memory(binding['available'])} left in the final plan"
        return f"needs {memory(binding['needed'])} of memory{where}; {left}"
    if resource in RESOURCES:
        left = f"{number(binding['available'])} left in the final plan"
        return f"needs {count_of(binding['needed'], RESOURCES[resource])}{where}; {left}"
    if resource in QUOTAS:
        what = count_of(binding["needed"], QUOTAS[resource])
        return f"needs {what} of the tenant's quota; {max(0, binding['available'])} left"
    return OTHERWISE.get(resource, resource) + where


def _binding(why: dict[str, Any]) -> Rich | None:
    larger = why.get("larger_sentence")
    return [{"text": f"{larger} "}, *(_bound(why) or [])] if larger else _bound(why)


def _bound(why: dict[str, Any]) -> Rich | None:
    rejected = why["best_rejected"]
    if not rejected or not rejected["binding"]:
        return None
    return [
        {"text": "Binding constraint: ", "bold": True},
        {"text": f"{_configuration(rejected)} {binding_words(rejected['binding'])}."},
    ]
