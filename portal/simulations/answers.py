"""The answers of simulations as pages show them: one table with the best marked, and plots; several side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.dashboard.templatetags.berth import number
from portal.errors import NotFound
from portal.simulations.plots import plots_of, styles_of
from portal.simulations.selectors import curves_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.simulations.models import Simulation

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
