"""The three plots of an answer, of at most four rules: waits on a log axis, waits by tenant, GPUs held. Pure.

Scales end at the 99th percentile of the rules that are drawn; the jobs beyond are counted in the note.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from portal.pages.dashboard.parts.formatting import duration, number
from portal.pages.laboratory.output.plots import SHARES, Plot, Style, line_of, quantile_of, tenths_of
from portal.pages.laboratory.output.tables import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_RULES = 4
MOST_TENANTS = 12
TOKENS = ("plot-1", "plot-3", "plot-4", "plot-2")
LOW_PART = 480
"""The axis of waits begins at this part of its end: 1 min of 8 h."""
TICKS_S = (1, 10, 60, 600, 3600, 8 * 3600, 86400, 7 * 86400, 30 * 86400)


def answer_styles(order: Sequence[str]) -> list[Style]:
    return [Style(name, token, "solid") for name, token in zip(order, TOKENS, strict=False)]


def answer_plots(answer: Mapping[str, Any], order: Sequence[str]) -> list[tuple[Plot, list[Style]]]:
    """Return each plot with the rules in it. `order`: the rules; the first four are drawn, in the two others the first two."""
    styles = answer_styles(order)
    made = (
        (_waits(answer, styles), styles),
        (_tenants(answer["policies"], styles[:2]), styles[:2]),
        (_held(answer, styles[:2]), styles[:2]),
    )
    return [(plot, drawn) for plot, drawn in made if plot is not None]


def _waits(answer: Mapping[str, Any], styles: Sequence[Style]) -> Plot | None:
    curves = {style.name: answer["curves"][style.name]["cdf_wait_h"] for style in styles}
    high = quantile_of(sorted(value for values in curves.values() for value in values), 0.99)
    if not high:
        return None
    low = high / LOW_PART
    data: list[dict[str, Any]] = []
    beyond: list[str] = []
    for style in reversed(styles):  # the rule in force is drawn last, above the others
        values = curves[style.name]
        shares = [100.0 * n / max(1, len(values) - 1) for n in range(len(values))]
        inside = [(value, at) for value, at in zip(values, shares, strict=True) if low < value <= high]
        first = max((at for value, at in zip(values, shares, strict=True) if value <= low), default=0.0)
        x, y = [low, *(value for value, _ in inside), high], [first, *(at for _, at in inside)]
        y.append(y[-1])
        data.append(line_of(style, x, y, shape="hv", width=2.4 if style is styles[0] else 1.6))
        jobs = round(
            answer["policies"][style.name]["jobs"] * sum(value > high for value in values) / max(1, len(values))
        )
        if jobs:
            beyond.insert(0, f"{number(jobs)} of {style.name}")
    ticks = [at for at in TICKS_S if low * 3600 <= at <= high * 3600 * 1.02]
    rows = [[style.name, *(quantile_of(curves[style.name], share / 100) for share in SHARES)] for style in styles]
    layout = {
        "xaxis": {
            "type": "log",
            "range": [math.log10(low), math.log10(high)],
            "tickvals": [at / 3600 for at in ticks],
            "ticktext": [duration(at) for at in ticks],
        },
        "yaxis": {"range": [0, 101], "tickvals": [0, 50, 100], "ticktext": ["0", "50", "100 %"]},
    }
    left = f"Not drawn, they waited more than {duration(3600 * high)}: {', '.join(beyond)}." if beyond else ""
    table = Table("Waiting, hours", ("rule", *(f"{share} %" for share in SHARES)), rows, left)
    return Plot("waits", "Jobs started within", "by time waited", {"data": data, "layout": layout}, table)


UNITS = (("d", 1 / 24), ("h", 1.0), ("min", 60.0))


def _tenants(policies: Mapping[str, Any], styles: Sequence[Style]) -> Plot | None:
    """A dot for each rule and tenant, with a line between the two of a tenant."""
    own = {style.name: policies[style.name]["tenants"] for style in styles}
    jobs = {name: told["jobs"] for tenants in own.values() for name, told in tenants.items()}
    names = sorted(sorted(jobs), key=jobs.__getitem__, reverse=True)[:MOST_TENANTS]
    waits_h = {rule: [tenants.get(name, {}).get("mean_wait_h") for name in names] for rule, tenants in own.items()}
    most_h = max((wait for waits in waits_h.values() for wait in waits if wait is not None), default=0.0)
    if len(names) < 2 or not most_h:
        return None
    unit, factor = next((each for each in UNITS if most_h * each[1] >= 2), ("s", 3600.0))
    shown = {rule: [None if wait is None else factor * wait for wait in waits] for rule, waits in waits_h.items()}
    dots = [_dots(style, names, shown[style.name], said=style is styles[0]) for style in reversed(styles)]
    layout = {
        "xaxis": {
            "range": [0, 1.06 * factor * most_h],
            "ticksuffix": f" {unit}",
            "showticksuffix": "last",
            "showgrid": True,
        },
        "yaxis": {"type": "category", "autorange": "reversed", "automargin": True, "showgrid": False},
    }
    rows = [[rule, *waits] for rule, waits in waits_h.items()]
    table = Table("Mean wait by tenant, hours", ("rule", *names), rows)
    note = "" if len(jobs) <= MOST_TENANTS else f"the {MOST_TENANTS} with the most jobs"
    figure = {"data": [_between(names, list(shown.values())), *dots], "layout": layout}
    return Plot("tenants", "Mean wait by tenant", note, figure, table)


def _between(names: Sequence[str], waits: Sequence[Sequence[float | None]]) -> dict[str, Any]:
    x = [value for pair in zip(*waits, strict=True) if None not in pair for value in (*pair, None)]
    known = [name for name, pair in zip(names, zip(*waits, strict=True), strict=True) if None not in pair]
    y = [name for name in known for _ in range(len(waits) + 1)]
    line = {"color": "line-2", "width": 3}
    return {"type": "scatter", "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip"}


def _dots(style: Style, names: Sequence[str], waits: Sequence[float | None], *, said: bool) -> dict[str, Any]:
    digits = 0 if max((wait for wait in waits if wait is not None), default=0.0) >= 10 else 1
    words = ["" if wait is None else number(wait, digits) for wait in waits]
    return {
        "type": "scatter",
        "mode": "markers+text" if said else "markers",
        "name": style.name,
        "x": list(waits),
        "y": list(names),
        "text": words if said else [],
        "textposition": "top center",
        "marker": {"color": style.token, "size": 12},
        "cliponaxis": False,
    }


def _held(answer: Mapping[str, Any], styles: Sequence[Style]) -> Plot | None:
    curves, gpus = answer["curves"], {answer["policies"][style.name].get("gpus_total") or 0 for style in styles}
    whole = max(gpus, default=0)
    if not whole or not any(curves[style.name]["hours"] for style in styles):
        return None
    most_h = max(max(curves[style.name]["hours"], default=0.0) for style in styles)
    unit, factor = ("day", 1 / 24) if most_h > 72 else ("h", 1.0)
    data = [
        line_of(
            style,
            [factor * hour for hour in curves[style.name]["hours"]],
            [whole * rate for rate in curves[style.name]["active_rate"]],
            width=2.0 if style is styles[0] else 1.6,
        )
        for style in reversed(styles)
    ]
    layout = {
        "xaxis": {"range": [0, factor * most_h], "ticksuffix": f" {unit}", "showticksuffix": "last"},
        "yaxis": {"range": [0, 1.04 * whole], "tickvals": [0, whole / 2, whole]},
    }
    columns = ("rule", *(f"{n} to {n + 1} tenths" for n in range(10)))
    rows = [[style.name, *tenths_of([whole * rate for rate in curves[style.name]["active_rate"]])] for style in styles]
    table = Table("GPUs held: means over tenths of each rule's own time", columns, rows)
    return Plot(
        "held", "GPUs held", f"of {number(whole)}" if len(gpus) == 1 else "", {"data": data, "layout": layout}, table
    )
