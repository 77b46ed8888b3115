"""Section 10's figures for Prometheus: of the last applied planning, and of the last round that has ended.

A figure that is not known (no job ended, nothing measured) has no sample: a nought would be a lie.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily

from portal.planning.rounds.models import Round
from portal.planning.rounds.read.selectors import cluster_metrics
from portal.planning.rounds.record.metrics import RAQLR_HOURS
from portal.work.jobs.held_time import active_rates

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from portal.cluster.models import Node


RATIOS = {
    "berth_gpu_active_ratio": ("gpu_active_rate", 1.0, "GPUs allocated, of all, after the last planning."),
    "berth_cpu_active_ratio": ("cpu_active_rate", 1.0, "Cores allocated, of all, after the last planning."),
    "berth_gpu_utilisation_ratio": ("utilisation", 0.01, "Mean utilisation of the allocated GPUs."),
    "berth_cpu_utilisation_ratio": ("cpu_utilisation", 0.01, "Mean utilisation of the allocated cores."),
    "berth_fragment_ratio": ("fragment_rate", 1.0, "Fragments, of all GPUs, after the last planning."),
}
NODE_HOURS = 1
KINDS = {"no-cores": "fragments_cores", "scattered": "fragments_scattered", "kept": "fragments_kept"}
STATISTICS = {"mean": "live_lr_mean", "max": "live_lr_max"}


def figure_families() -> Iterator[GaugeMetricFamily]:
    now = cluster_metrics()
    for name, (key, factor, says) in RATIOS.items():
        family = GaugeMetricFamily(name, says)
        if (value := now.get(key)) is not None:
            family.add_metric([], factor * value)
        yield family
    hours = {str(each): f"raqlr_{each}h" for each in RAQLR_HOURS}
    jobs = {str(each): f"raqlr_jobs_{each}h" for each in RAQLR_HOURS}
    yield _by("berth_fragments", "Idle GPUs that waiting jobs could not use, by kind.", "kind", KINDS, now)
    yield _by("berth_live_latency_ratio", "LR of the eligible jobs that wait.", "statistic", STATISTICS, now)
    yield _by("berth_raqlr", "Mean LR of the jobs that ended in the last hours.", "hours", hours, now)
    yield _by("berth_raqlr_jobs", "How many jobs that mean is of.", "hours", jobs, now)
    last = Round.objects.exclude(metrics={}).first()
    over = last.metrics if last else {}
    yield _by("berth_round_fragments", "Fragments over the last whole round, by time.", "kind", KINDS, over)


def node_families(nodes: Sequence[Node], *, gpus: Mapping[int, int]) -> Iterator[GaugeMetricFamily]:
    """Yield the active rates of each of these nodes over the last hours; `gpus`: how many each has. Three queries."""
    rates = active_rates(nodes, hours=NODE_HOURS, now=timezone.now(), gpus=gpus)
    for what, words in (("gpus", "GPUs"), ("cores", "cores")):
        name = "berth_node_gpu_active_ratio" if what == "gpus" else "berth_node_cpu_active_ratio"
        family = GaugeMetricFamily(
            name, f"Share of a node's {words} that jobs held in the last hours.", labels=["node", "hours"]
        )
        for node in nodes:
            if (rate := getattr(rates[node.pk], what)) is not None:
                family.add_metric([node.name, str(NODE_HOURS)], rate)
        yield family


def _by(name: str, says: str, label: str, keys: Mapping[str, str], figures: Mapping[str, Any]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, says, labels=[label])
    for value, key in keys.items():
        if (figure := figures.get(key)) is not None:
            family.add_metric([value], figure)
    return family
