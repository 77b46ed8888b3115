"""The answers of simulations as pages show them: one table with the best marked, and plots; several side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.foundation.errors import NotFound
from portal.pages.dashboard.parts.formatting import number
from portal.pages.laboratory.errors import CurvesError
from portal.pages.laboratory.output.plots import plots_of, styles_of
from portal.pages.laboratory.output.tables import cell
from portal.pages.laboratory.output.told import jobs_note
from portal.pages.laboratory.selectors import curves_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.pages.laboratory.models import Simulation

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
    """Return the table: one row for each policy of each simulation, with the best of each column marked."""
    rows = [
        (label_of(each, policy, len(simulations)), own) for each in simulations for policy, own in each.figures.items()
    ]
    best = {name: _best(name, good, digits, [own for _, own in rows]) for name, _, digits, good in COLUMNS}
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
        "answers_note": jobs_note(dict(rows)),
    }


def label_of(simulation: Simulation, policy: str, among: int) -> str:
    return policy if among == 1 else f"{policy} ({simulation.name}, {simulation.pk})"


def _best(name: str, good: str, digits: int, figures: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the best text of a column: every cell that shows this text is marked."""
    known = [own[name] for own in figures if own.get(name) is not None]
    if len(known) < 2:
        return None
    return _show(name, min(known) if good == "low" else max(known), digits)


def _show(name: str, value: float, digits: int) -> str:
    """Return a figure as text; below 1 with three decimals, because a demo's jobs take a hundredth of an hour."""
    shown = value * FACTORS.get(name, 1.0)
    return number(shown, max(digits, 3) if 0 < abs(shown) < 1 else digits)


def _cell(own: Mapping[str, Any], name: str, digits: int, best: str | None) -> dict[str, Any]:
    value = own.get(name)
    text = None if value is None else _show(name, value, digits)
    return {"text": text, "best": text is not None and text == best}


def plots_context(simulations: Sequence[Simulation]) -> dict[str, Any]:
    """Return `plots` (title, the URL of the figure, the table with the same content) and one `legend` for all.

    Where what is stored of them is damaged: `plots_lost`, the sentence that says so.
    """
    try:
        answer = answer_of(simulations)
    except CurvesError as error:
        return {"plots": [], "legend": [], "plots_lost": error.detail}
    styles = styles_of(list(answer["policies"]))
    legend = [{"label": style.name, "token": style.token, "dash": style.svg_dash} for style in styles]
    plots = [
        {
            "name": plot.key,
            "title": plot.title,
            "note": plot.note,
            "url": _figure_url(simulations, plot.key),
            "topics": "none",
            "height_px": 240,
            "table": {
                "title": plot.table.title,
                "columns": plot.table.columns,
                "rows": [[cell(value) for value in row] for row in plot.table.rows],
            },
        }
        for plot in plots_of(answer)
    ]
    return {"plots": plots, "legend": legend}


def _figure_url(simulations: Sequence[Simulation], key: str) -> str:
    if len(simulations) == 1:
        return reverse("laboratory-figure", args=[simulations[0].pk, key])
    query = "&".join(f"run={each.pk}" for each in simulations)
    return f"{reverse('laboratory-compare-figure', args=[key])}?{query}"


def answer_of(simulations: Sequence[Simulation]) -> dict[str, Any]:
    """Return their policies together, as `simulation_run` answers. Names tell several simulations of one policy apart."""
    policies, curves = {}, {}
    for each in simulations:
        own = curves_of(each)
        for name, figures in each.figures.items():
            label = label_of(each, name, len(simulations))
            policies[label], curves[label] = figures, own[name]
    return {"policies": policies, "curves": curves}


def figure_of(simulations: Sequence[Simulation], key: str) -> dict[str, Any]:
    """Return one plot as JSON for plots.js. Raises NotFound for an unknown one."""
    plot = next((each for each in plots_of(answer_of(simulations)) if each.key == key), None)
    if plot is None:
        raise NotFound("figure")
    layout = {**plot.figure["layout"], "meta": {"titled": True}}
    layout["xaxis"] = {**layout["xaxis"], "tickformatstops": [], "hoverformat": ".3~g"}  # no times stand there
    return {"data": plot.figure["data"], "layout": layout}
