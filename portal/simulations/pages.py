"""What the laboratory's pages show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml
from django.urls import reverse

from portal.dashboard.templatetags.berth import number
from portal.errors import BerthError, NotFound
from portal.rounds.knobs import knobs_current
from portal.simulations import form
from portal.simulations.models import SharedWith, Simulation
from portal.simulations.orders import HERE
from portal.simulations.plots import plots_of, styles_of
from portal.simulations.selectors import (
    cluster_now,
    curves_of,
    simulations_ahead,
    simulations_chosen,
    simulations_listed,
    traces_listed,
)
from portal.tenants.selectors import tenants_of
from scheduler.simulator.traces.registry import FORMATS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.http import QueryDict

    from portal.tenants.models import User

MOST_COMPARED = 6
COLUMNS = (
    ("mean_jct_h", "Mean JCT, h", 2, "low"),
    ("median_jct_h", "Median JCT, h", 2, "low"),
    ("p99_jct_h", "99 % JCT, h", 2, "low"),
    ("makespan_h", "Makespan, h", 2, "low"),
    ("mean_wait_h", "Mean wait, h", 2, "low"),
    ("mean_lr", "Mean LR", 3, "low"),
    ("max_lr", "Max LR", 2, "low"),
    ("max_ftf", "Max FTF", 2, "low"),
    ("fragments_per_round", "Fragments a round", 2, "low"),
    ("gpu_active_rate", "GPU active, %", 1, "high"),
    ("solve_p95_s", "Planning p95, ms", 1, "low"),
)
"""Figure, its label, decimals, and which end is the better one. `solve_p95_s` is this machine's wall time."""
FACTORS = {"gpu_active_rate": 100.0, "solve_p95_s": 1000.0}
STATES = {"QUEUED": ("PENDING", "Queued")}
"""Shown as a job's states are; what waits here is queued."""


def list_context(user: User) -> dict[str, Any]:
    rows = [row_of(each, user) for each in simulations_listed(user)]
    return {"rows": rows, "open": any(row["open"] for row in rows), "most_compared": MOST_COMPARED}


def row_of(simulation: Simulation, user: User) -> dict[str, Any]:
    fractions = [simulation.progress.get(name, 0.0) for name in simulation.policies]
    return {
        "number": simulation.pk,
        "name": simulation.name,
        "url": reverse("laboratory-detail", args=[simulation.pk]),
        "state": simulation.state,
        "shown": STATES.get(simulation.state, (simulation.state, None)),
        "open": simulation.is_open,
        "percent": round(100 * sum(fractions) / max(1, len(fractions))),
        "what": jobs_words(simulation),
        "cluster": simulation.cluster_name,
        "policies": ", ".join(simulation.policies),
        "tenant": simulation.tenant.name,
        "owner": simulation.owner.username,
        "own": simulation.owner_id == user.pk,
        "shared": simulation.get_shared_with_display() if simulation.shared_with != SharedWith.OWNER else None,
        "at": simulation.created_at.isoformat(),
        "comparable": simulation.state == Simulation.State.COMPLETED,
    }


def jobs_words(simulation: Simulation) -> str:
    if simulation.trace is not None:
        return f"{simulation.trace.name}, {simulation.trace.jobs} jobs"
    return f"{simulation.generator}, {simulation.generated_jobs} jobs drawn"


def new_context(user: User, post: QueryDict | None = None, error: BerthError | None = None) -> dict[str, Any]:
    """The form; with what was typed and what is wrong with it after a refusal."""
    typed: Mapping[str, str] = post.dict() if post is not None else {}
    chosen = post.getlist("policies") if post is not None else ["berth", "hops", "drf", "fifo"]
    knobs = knobs_current()
    traces = [
        {"value": f"trace:{each.pk}", "label": f"{each.name}: {each.jobs} jobs in {number(each.span_s / 3600, 1)} h"}
        for each in traces_listed(user)
    ]
    return {
        "typed": {"name": "", "jobs": "", "seed": "1", "until_h": "", "cluster": HERE, "description": EXAMPLE} | typed,
        "traces": traces,
        "generators": form.generator_choices(),
        "policies": form.policy_choices(chosen),
        "knobs": form.knob_fields(typed),
        "tenants": [each.name for each in tenants_of(user)],
        "here": cluster_words(cluster_now()),
        "formats": [{"name": each.name, "meaning": each.meaning} for each in FORMATS.values()],
        "limits": {
            name.removeprefix("laboratory_"): value for name, value in knobs.items() if name.startswith("laboratory_")
        },
        "error": error,
        "error_field": error.field if error else None,
    }


EXAMPLE = """nodes:
  - {count: 8, gpu_type: A100, gpus: 8, cores: 64, memory_gib: 512}
  - {count: 4, cores: 64, memory_gib: 256}
gpu_types:
  A100: {speed: 1.0}
"""


def cluster_words(cluster: Mapping[str, Any]) -> str:
    """3 nodes, 24 GPUs."""
    groups = cluster.get("nodes") or []
    counts = [(each.get("count", 1), each.get("gpus", 0)) for each in groups]
    nodes, gpus = sum(count for count, _ in counts), sum(count * gpus for count, gpus in counts)
    return f"{nodes} node{'s' if nodes != 1 else ''}, {gpus} GPU{'s' if gpus != 1 else ''}" if groups else "no node yet"


def detail_context(simulation: Simulation, user: User) -> dict[str, Any]:
    return {
        "simulation": simulation,
        "row": row_of(simulation, user),
        "sharing": [{"value": value, "label": label} for value, label in SharedWith.choices],
        "facts": _facts(simulation),
        **progress_context(simulation),
        **answer_context([simulation]),
        "plots": plots_context([simulation]) if simulation.state == Simulation.State.COMPLETED else [],
    }


def progress_context(simulation: Simulation) -> dict[str, Any]:
    """How far each policy is, and how many simulations stand before one that waits."""
    return {
        "simulation": simulation,
        "bars": [
            {"policy": name, "percent": round(100 * simulation.progress.get(name, 0.0))} for name in simulation.policies
        ],
        "ahead": simulations_ahead(simulation) if simulation.state == Simulation.State.QUEUED else 0,
    }


def _facts(simulation: Simulation) -> list[dict[str, Any]]:
    took = simulation.ended_at and simulation.started_at and (simulation.ended_at - simulation.started_at)
    knobs = ", ".join(f"{name} = {value}" for name, value in sorted(simulation.knobs.items())) or "all at their default"
    cut = f"after {simulation.until_h:g} h" if simulation.until_h else "when all jobs have ended"
    facts = [
        {"label": "Jobs", "value": jobs_words(simulation)},
        {
            "label": "Cluster",
            "value": simulation.cluster_name,
            "note": cluster_words(yaml.safe_load(simulation.cluster)) if simulation.cluster else "",
        },
        {"label": "Knobs", "value": knobs},
        {"label": "Seed", "value": str(simulation.seed)},
        {"label": "Ends", "value": cut},
        {
            "label": "Asked by",
            "value": f"{simulation.owner.username} of {simulation.tenant.name}",
            "at": simulation.created_at.isoformat(),
        },
    ]
    return [*facts, {"label": "Took", "value": f"{took.total_seconds():.0f} s"}] if took else facts


def answer_context(simulations: Sequence[Simulation]) -> dict[str, Any]:
    """The table: a row a policy of each simulation, the best of each column marked."""
    rows = [
        (label_of(each, policy, len(simulations)), own) for each in simulations for policy, own in each.figures.items()
    ]
    best = {name: _best(name, good, [own for _, own in rows]) for name, _, _, good in COLUMNS}
    return {
        "columns": [label for _, label, _, _ in COLUMNS],
        "answers": [
            {
                "label": label,
                "cells": [_cell(own, name, digits, best[name]) for name, _, digits, _ in COLUMNS],
                "unfinished": own.get("jobs_unfinished") or 0,
            }
            for label, own in rows
        ],
    }


def label_of(simulation: Simulation, policy: str, among: int) -> str:
    return policy if among == 1 else f"{policy} ({simulation.name}, {simulation.pk})"


def _best(name: str, good: str, figures: Sequence[Mapping[str, Any]]) -> float | None:
    known = [own[name] for own in figures if own.get(name) is not None]
    if len(known) < 2:
        return None
    return min(known) if good == "low" else max(known)


def _cell(own: Mapping[str, Any], name: str, digits: int, best: float | None) -> dict[str, Any]:
    value = own.get(name)
    text = None if value is None else number(value * FACTORS.get(name, 1.0), digits)
    return {"text": text, "best": best is not None and value == best}


def plots_context(simulations: Sequence[Simulation]) -> list[dict[str, Any]]:
    """What the page says of each plot: the title, the legend, where its figure is fetched."""
    answer = answer_of(simulations)
    legend = [
        {"label": style.name, "token": style.token, "kind": "line" if style.dash == "solid" else "dashed"}
        for style in styles_of(list(answer["policies"]))
    ]
    return [
        {
            "name": plot.key,
            "title": plot.title,
            "note": f"{plot.note} {axes_words(plot.figure)}".strip(),
            "url": _figure_url(simulations, plot.key),
            "legend": legend,
            "topics": "none",
        }
        for plot in plots_of(answer)
    ]


def axes_words(figure: Mapping[str, Any]) -> str:
    """The axes' titles, which stand in the plot's head: share by hours."""
    titles = [figure["layout"].get(axis, {}).get("title", {}).get("text", "") for axis in ("yaxis", "xaxis")]
    words = " by ".join(filter(None, titles))
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _figure_url(simulations: Sequence[Simulation], key: str) -> str:
    if len(simulations) == 1:
        return reverse("laboratory-figure", args=[simulations[0].pk, key])
    query = "&".join(f"run={each.pk}" for each in simulations)
    return f"{reverse('laboratory-compare-figure', args=[key])}?{query}"


def answer_of(simulations: Sequence[Simulation]) -> dict[str, Any]:
    """Their policies together, as `simulation_run` answers: several simulations of one policy are told apart by name."""
    policies, curves = {}, {}
    for each in simulations:
        own = curves_of(each)
        for name, figures in each.figures.items():
            label = label_of(each, name, len(simulations))
            policies[label], curves[label] = figures, own[name]
    return {"policies": policies, "curves": curves}


def figure_of(simulations: Sequence[Simulation], key: str) -> dict[str, Any]:
    """One plot as JSON for plots.js. Raises NotFound for an unknown one."""
    plot = next((each for each in plots_of(answer_of(simulations)) if each.key == key), None)
    if plot is None:
        raise NotFound("figure")
    layout = {
        name: {**axis, "title": None} if name in {"xaxis", "yaxis"} else axis
        for name, axis in plot.figure["layout"].items()
    }
    layout["xaxis"] |= {"tickformatstops": [], "hoverformat": ".3~g"}  # no times stand there
    return {"data": plot.figure["data"], "layout": layout}


def chosen_of(user: User, numbers: Sequence[int]) -> list[Simulation]:
    """The simulations to compare. Raises BerthError for too many or too few, NotFound for one that is not to be seen."""
    if not 2 <= len(set(numbers)) <= MOST_COMPARED:
        raise BerthError("invalid", f"Choose 2 to {MOST_COMPARED} simulations that have completed.", field="run")
    chosen = simulations_chosen(user, numbers)
    if len(chosen) != len(set(numbers)):
        raise NotFound("simulation")
    return chosen


def compare_context(user: User, numbers: Sequence[int]) -> dict[str, Any]:
    """Several simulations side by side."""
    chosen = chosen_of(user, numbers)
    return {
        "chosen": [{"row": row_of(each, user), "facts": _facts(each)} for each in chosen],
        **answer_context(chosen),
        "plots": plots_context(chosen),
    }


def traces_context(
    user: User, typed: Mapping[str, str] | None = None, error: BerthError | None = None
) -> dict[str, Any]:
    return {
        "traces": [
            {
                "number": each.pk,
                "name": each.name,
                "format": each.format,
                "origin": each.get_origin_display(),
                "jobs": each.jobs,
                "span_h": each.span_s / 3600,
                "kib": each.size_bytes / 1024,
                "tenant": each.tenant.name,
                "owner": each.owner.username,
                "own": each.owner_id == user.pk,
                "shared_with": each.shared_with,
                "at": each.created_at.isoformat(),
            }
            for each in traces_listed(user)
        ],
        "formats": [{"name": each.name, "meaning": each.meaning, "columns": each.columns} for each in FORMATS.values()],
        "tenants": [each.name for each in tenants_of(user)],
        "sharing": [{"value": value, "label": label} for value, label in SharedWith.choices],
        "typed": {"name": "", "format": "", "days": "7", **(typed or {})},
        "limits": knobs_current(),
        "error": error,
    }
