"""Curves of several policies -> Plotly figures as plain dicts, each with the table that says the same. Pure.

Colours are names of design tokens, resolved by the page's script from the stylesheet, so that they follow the theme. A
policy has the same colour and dash in every figure.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.output.tables import Table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOKENS = ("plot-1", "plot-2", "plot-3", "plot-4")
DASHES = ("solid", "6px,3px", "2px,2px", "8px,3px,2px,3px")
SHARES = (10, 25, 50, 75, 90, 95, 99, 100)
TENTHS = 10
OF_JOBS = (
    ("cdf_jct_h", "Job completion time", "hours", "Share of the ended jobs that took at most this time."),
    ("cdf_lr", "Latency ratio", "LR", "Waiting over expected run time, of the jobs that started."),
    ("cdf_wait_h", "Waiting", "hours", "Share of all jobs that waited at most this time."),
    (
        "cdf_ftf",
        "Finish-time fairness",
        "JCT over ideal",
        "Time had over time alone on an equal part; above 1 is unfair.",
    ),
)
"""A curve's key, its title, its unit, and its note."""
OVER_TIME = (
    ("throughput", "Throughput", "GPUs' worth of work", "Work done, against a GPU of the job's smallest size."),
    ("active_rate", "GPU active rate", "share of GPUs", "GPUs held by jobs, of all."),
    ("fragments", "Fragments a round", "GPUs", "Idle GPUs while a job that could use them waits."),
    ("queue_gpu_jobs", "Queue", "GPU jobs", "Eligible jobs that wait for GPUs."),
)
OF_PLANNINGS = ("solve_s", "Time of a planning", "seconds", "Wall time on the machine that simulated.")


@dataclass(frozen=True, slots=True)
class Plot:
    """`figure`: `data` and `layout` for Plotly. `table` stands beneath, for those who cannot see it or want the figures."""

    key: str
    title: str
    note: str
    figure: dict[str, Any]
    table: Table


@dataclass(frozen=True, slots=True)
class Style:
    """How a policy is drawn."""

    name: str
    token: str
    dash: str

    @property
    def svg_dash(self) -> str:
        return "" if self.dash == "solid" else self.dash.replace("px", "")


def styles_of(policies: Sequence[str]) -> list[Style]:
    """Return a style for each policy. At most 16 styles differ; colours change first."""
    return [
        Style(name, TOKENS[n % len(TOKENS)], DASHES[n // len(TOKENS) % len(DASHES)]) for n, name in enumerate(policies)
    ]


def plots_of(answer: Mapping[str, Any]) -> list[Plot]:
    """Return all plots of the answer of `simulation_run`."""
    curves: Mapping[str, Mapping[str, Any]] = answer["curves"]
    styles = styles_of(list(answer["policies"]))
    found = [
        *(_cdf(curves, styles, *each) for each in OF_JOBS),
        *(_course(curves, styles, *each) for each in OVER_TIME),
        _tenants(answer["policies"], styles),
        _cdf(curves, styles, *OF_PLANNINGS, of="plannings", logarithmic=True),
    ]
    return [plot for plot in found if any(trace["x"] for trace in plot.figure["data"])]


def line_of(style: Style, x: Sequence[Any], y: Sequence[Any], **more: Any) -> dict[str, Any]:
    line = {"color": style.token, "dash": style.dash, "width": 1.8, **more}
    return {"type": "scatter", "mode": "lines", "name": style.name, "x": list(x), "y": list(y), "line": line}


def _cdf(
    curves: Mapping[str, Mapping[str, Any]],
    styles: Sequence[Style],
    key: str,
    title: str,
    unit: str,
    note: str,
    *,
    of: str = "jobs",
    logarithmic: bool = False,
) -> Plot:
    """Return the distribution of values: `curves` has quantiles at equal steps of the share."""
    data, rows = [], []
    for style in styles:
        values = curves[style.name][key]
        shares = [n / (len(values) - 1) for n in range(len(values))] if len(values) > 1 else [1.0] * len(values)
        data.append(line_of(style, values, shares))
        rows.append([style.name, *(quantile_of(values, share / 100) for share in SHARES)])
    axis = {"type": "log"} if logarithmic else {"rangemode": "tozero"}
    layout = {
        "xaxis": {"title": {"text": unit}, **axis},
        "yaxis": {"title": {"text": f"share of {of}"}, "range": [0, 1.01]},
    }
    columns = ("policy", *(f"{share} %" for share in SHARES))
    return Plot(
        key.replace("_", "-"), title, note, {"data": data, "layout": layout}, Table(f"{title}, {unit}", columns, rows)
    )


def quantile_of(values: Sequence[float], share: float) -> float | None:
    """Return the quantile, linear between the values."""
    if not values:
        return None
    place = share * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return float(values[low] + (values[high] - values[low]) * (place - low))


def _course(
    curves: Mapping[str, Mapping[str, Any]],
    styles: Sequence[Style],
    key: str,
    title: str,
    unit: str,
    note: str,
) -> Plot:
    hours = "round_hours" if key == "fragments" else "hours"
    data = [line_of(style, curves[style.name][hours], curves[style.name][key], shape="hvh") for style in styles]
    rows = [[style.name, *tenths_of(curves[style.name][key])] for style in styles]
    layout = {
        "xaxis": {"title": {"text": "simulated hours"}},
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
    }
    columns = ("policy", *(f"{n} to {n + 1} tenths" for n in range(TENTHS)))
    table = Table(f"{title}, {unit}: means over tenths of each policy's own time", columns, rows)
    return Plot(key.replace("_", "-"), title, note, {"data": data, "layout": layout}, table)


def tenths_of(values: Sequence[float]) -> list[float | None]:
    edges = [round(n * len(values) / TENTHS) for n in range(TENTHS + 1)]
    return [sum(values[low:high]) / (high - low) if high > low else None for low, high in pairwise(edges)]


def _tenants(policies: Mapping[str, Any], styles: Sequence[Style]) -> Plot:
    names = sorted({name for figures in policies.values() for name in figures["tenants"]})
    data, rows = [], []
    for style in styles:
        own = policies[style.name]["tenants"]
        waits_h = [own[name]["p99_wait_h"] if name in own else None for name in names]
        marker = {"color": style.token, "pattern": {"shape": ("", "/", ".", "x")[DASHES.index(style.dash)]}}
        data.append({"type": "bar", "name": style.name, "x": names, "y": waits_h, "marker": marker})
        rows.append([style.name, *waits_h])
    layout = {
        "xaxis": {"type": "category", "title": {"text": "tenant"}},
        "yaxis": {"title": {"text": "hours"}, "rangemode": "tozero"},
        "barmode": "group",
    }
    table = Table("99th percentile of waiting by tenant, hours", ("policy", *names), rows)
    note = "The longest wait but for one job in a hundred."
    return Plot("tenants", "Waiting by tenant, 99th percentile", note, {"data": data, "layout": layout}, table)
