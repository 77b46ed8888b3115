"""The answers of simulations as pages show them: a verdict, one table, three plots; several simulations side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.foundation.errors import NotFound
from portal.pages.laboratory.errors import CurvesError
from portal.pages.laboratory.output.answer_plots import MOST_RULES, answer_plots
from portal.pages.laboratory.output.tables import cell
from portal.pages.laboratory.output.told import jobs_note
from portal.pages.laboratory.output.turns import turns_words
from portal.pages.laboratory.output.verdict import order_of, table_of, verdict_of
from portal.pages.laboratory.selectors import curves_of
from portal.planning.rounds.settings.knobs import knobs_current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.pages.laboratory.models import Simulation

DAY_S = 86400.0


def answer_context(simulations: Sequence[Simulation]) -> dict[str, Any]:
    """Return `verdict`, `answer`, the table, and `plots`, each with its `legend` and the table with the same content.

    Where the stored curves are damaged: `plots_lost`, the sentence that says so.
    """
    rules = _rules(simulations)
    if not rules:
        return {"answer": None}
    in_force = _in_force(simulations)
    order = order_of(rules, in_force)
    table = table_of(rules, order)
    for row in table["rows"]:
        row |= {"in_force": row["name"] == in_force, "unfinished": rules[row["name"]].get("jobs_unfinished") or 0}
    answer = {**table, "rules": len(order), "drawn": min(len(order), MOST_RULES), "note": jobs_note(rules)}
    try:
        curves = _curves(simulations)
    except CurvesError as error:
        verdict = _with_turns(verdict_of(rules, order, _span(simulations)), simulations)
        return {"verdict": verdict, "answer": answer, "plots": [], "plots_lost": error.detail}
    drawn = answer_plots({"policies": rules, "curves": curves}, order)
    plots = [
        {
            "name": plot.key,
            "title": plot.title,
            "note": plot.note,
            "url": _figure_url(simulations, plot.key),
            "height_px": 60 + 40 * (len(plot.table.columns) - 1) if plot.key == "tenants" else 230,
            "legend": [{"label": style.name, "token": style.token} for style in styles],
            "left_out": plot.table.note,
            "table": {
                "title": plot.table.title,
                "columns": plot.table.columns,
                "rows": [[cell(value) for value in row] for row in plot.table.rows],
            },
        }
        for plot, styles in drawn
    ]
    verdict = _with_turns(verdict_of(rules, order, _span(simulations), curves), simulations)
    return {"verdict": verdict, "answer": answer, "plots": plots}


def _with_turns(verdict: dict[str, Any], simulations: Sequence[Simulation]) -> dict[str, Any]:
    """Add the price of turns by shares, of one simulation."""
    words = turns_words(simulations[0].turns) if len(simulations) == 1 else ""
    return {**verdict, "below": " ".join(filter(None, (verdict["below"], words)))}


def label_of(simulation: Simulation, policy: str, among: int) -> str:
    return policy if among == 1 else f"{policy} ({simulation.name}, {simulation.pk})"


def _rules(simulations: Sequence[Simulation]) -> dict[str, Any]:
    """Return the figures of all rules. Names tell several simulations of one rule apart."""
    many = len(simulations)
    return {label_of(each, name, many): own for each in simulations for name, own in each.figures.items()}


def _curves(simulations: Sequence[Simulation]) -> dict[str, Any]:
    many = len(simulations)
    return {label_of(each, name, many): own for each in simulations for name, own in curves_of(each).items()}


def _in_force(simulations: Sequence[Simulation]) -> str | None:
    """Return the rule that this cluster plans by; None for several simulations, which may differ in all else."""
    return knobs_current()["policy"] if len(simulations) == 1 else None


def _span(simulations: Sequence[Simulation]) -> str:
    """Return the time that was simulated: one week, 3 days, or by the jobs where that is not known."""
    trace = simulations[0].trace
    days = trace.span_s / DAY_S if trace else 0.0
    if 6 <= days <= 8:
        return "one week"
    return f"{days:.0f} days" if days >= 1.5 else "so short a time"


def _figure_url(simulations: Sequence[Simulation], key: str) -> str:
    if len(simulations) == 1:
        return reverse("laboratory-figure", args=[simulations[0].pk, key])
    query = "&".join(f"run={each.pk}" for each in simulations)
    return f"{reverse('laboratory-compare-figure', args=[key])}?{query}"


def figure_of(simulations: Sequence[Simulation], key: str) -> dict[str, Any]:
    """Return one plot as JSON for plots.js. Raises NotFound for an unknown one."""
    rules = _rules(simulations)
    order = order_of(rules, _in_force(simulations))
    drawn = answer_plots({"policies": rules, "curves": _curves(simulations)}, order) if rules else []
    plot = next((each for each, _ in drawn if each.key == key), None)
    if plot is None:
        raise NotFound("figure")
    return plot.figure
