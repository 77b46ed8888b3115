"""A node's plots: measures of the last hour, day, week or 90 days, as finely as they are kept."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta
from statistics import fmean
from typing import TYPE_CHECKING, Any

from django.urls import reverse
from django.utils import timezone

from portal.cluster.telemetry import batches_between
from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.parts import lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from portal.cluster.models import Node
    from portal.pages.dashboard.parts.context import PlotContext

POINTS = 240
RANGES = {"1h": ("1 h", 3600), "24h": ("24 h", 86_400), "7d": ("7 days", 7 * 86_400), "90d": ("90 days", 90 * 86_400)}
"""By the words of `?range=`: label and seconds. An hour is kept as sent, a day by 10 s, the rest by five
minutes; 90 days are read by the hour."""
Series = list[float | None]


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot: its measure, its colour, and its place in a batch."""

    title: str
    note: str
    token: str
    series: Callable[[dict[str, Any], Node], Series]
    of_gpus: bool = False
    unit: str | None = None
    """None: per cent."""


def _of_gpus(measure: str, pick: Callable[[list[float]], float], batch: dict[str, Any]) -> Series:
    """Return one value for each sample of the GPUs."""
    rows = [gpu.get(measure) or [] for gpu in (batch.get("gpus") or {}).values()]
    known = [[value for value in then if value is not None] for then in zip(*filter(None, rows), strict=False)]
    return [pick(values) if values else None for values in known]


def _of_host(names: tuple[str, ...], factor: float, batch: dict[str, Any]) -> Series:
    """Return the sum of these measures of the host times a factor, None where one of them is not known."""
    host = batch.get("host") or {}
    rows = [host.get(name) or [] for name in names]
    return [None if None in then else factor * sum(then) for then in zip(*rows, strict=False)]


def _gpu_memory(batch: dict[str, Any], node: Node) -> Series:
    whole = {str(gpu.index): gpu.memory_mib for gpu in node.gpus_present}
    gpus = [(whole.get(index), own.get("memory_mib") or []) for index, own in (batch.get("gpus") or {}).items()]
    total = sum(size for size, own in gpus if size and own)
    rows = [own for size, own in gpus if size and own]
    return [None if None in then else 100 * sum(then) / total for then in zip(*rows, strict=False)]


PLOTS = {
    "gpu": Plot("GPU use", "mean of its GPUs", "plot-1", lambda b, _: _of_gpus("utilisation", fmean, b), of_gpus=True),
    "gpu-memory": Plot("GPU memory", "used of all its GPUs", "plot-2", _gpu_memory, of_gpus=True),
    "power": Plot(
        "Power",
        "of its GPUs together",
        "plot-2",
        lambda b, _: _of_gpus("power_w", sum, b),
        of_gpus=True,
        unit="W",
    ),
    "temperature": Plot(
        "Temperature",
        "of its hottest GPU",
        "plot-4",
        lambda b, _: _of_gpus("temperature_c", max, b),
        of_gpus=True,
        unit="\u00b0C",
    ),
    "cores": Plot("Cores", "used of all", "plot-3", lambda b, node: _of_host(("cpu_cores",), 100 / node.cores, b)),
    "memory": Plot(
        "Memory", "used of all", "plot-4", lambda b, node: _of_host(("memory_mib",), 100 / node.memory_mib, b)
    ),
    "network": Plot(
        "Network",
        "received and sent",
        "plot-1",
        lambda b, _: _of_host(("net_rx_mb_s", "net_tx_mb_s"), 1.0, b),
        unit="MB/s",
    ),
    "disk": Plot(
        "Disks",
        "read and written",
        "plot-3",
        lambda b, _: _of_host(("disk_read_mb_s", "disk_write_mb_s"), 1.0, b),
        unit="MB/s",
    ),
}
VIRTUAL_LACKS = frozenset({"network", "disk", "temperature"})
"""A virtual node's share of these is not known: its machine is another's, too."""


def range_seconds(text: str | None) -> int:
    """Return the seconds of `?range=`. Raises BerthError for another word."""
    if not text:
        return RANGES["1h"][1]
    if text not in RANGES:
        raise BerthError("invalid", f"range is {' or '.join(RANGES)}.", field="range")
    return RANGES[text][1]


def range_choices(node: Node, chosen: str | None) -> list[dict[str, Any]]:
    """Return the choices of the page, with whether each is the present one."""
    url = reverse("node-detail", args=[node.name])
    return [
        {"label": label, "url": f"{url}?range={word}", "selected": word == (chosen or "1h")}
        for word, (label, _) in RANGES.items()
    ]


def plot_contexts(node: Node, chosen: str | None = None) -> list[PlotContext]:
    shown = {
        name: plot
        for name, plot in PLOTS.items()
        if (node.gpus_present or not plot.of_gpus) and not (node.is_virtual and name in VIRTUAL_LACKS)
    }
    query = f"?range={chosen}" if chosen and chosen != "1h" else ""
    return [
        {
            "name": name,
            "title": plot.title,
            "note": plot.note,
            "url": reverse("node-figure", args=[node.name, name]) + query,
            "topics": "telemetry" if not query else "node",
        }
        for name, plot in shown.items()
    ]


def figure_make(node: Node, figure: str, *, seconds: int) -> lines.Drawing:
    """Return one measure over a number of seconds until now. Raises NotFound for an unknown figure."""
    plot = PLOTS.get(figure)
    if plot is None:
        raise NotFound("figure")
    now, bin_s = timezone.now(), max(1, seconds // POINTS)
    since = now - timedelta(seconds=seconds)
    asked = {"node_ids": [node.pk], "since": since, "until": now, "step_s": bin_s}
    batches = (batch for _, batch in batches_between(**asked, attempts=False))
    rows = _binned(_samples(batches, node, plot), since_s=since.timestamp(), bin_s=bin_s)
    return lines.node_use(rows, plot.token, (since.timestamp(), now.timestamp()), plot.unit)


def _samples(batches: Iterable[dict[str, Any]], node: Node, plot: Plot) -> Iterator[tuple[float, float, float]]:
    """Yield (Unix time, period in s, value) of each sample that was measured."""
    for batch in batches:
        for position, value in enumerate(plot.series(batch, node)):
            if value is not None:
                yield batch["start"] + position * batch["period_s"], batch["period_s"], value


def _binned(samples: Iterable[tuple[float, float, float]], *, since_s: float, bin_s: int) -> list[lines.Row]:
    """Return (time, mean) of each bin with samples; a gap of several bins or periods is one None: it breaks the line."""
    bins: dict[int, list[float]] = defaultdict(list)
    longest = 1
    for at, period_s, value in samples:
        if at + period_s > since_s:
            bins[int(at // bin_s)].append(value)
            longest = max(longest, -int(-period_s // bin_s))
    rows: list[lines.Row] = []
    last = None
    for place in sorted(bins):
        if last is not None and place > last + 2 * longest:
            rows.append(((last + longest) * bin_s, None))
        rows.append(((place + 0.5) * bin_s, round(fmean(bins[place]), 2)))
        last = place
    return rows
