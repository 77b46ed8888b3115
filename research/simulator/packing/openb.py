"""Read openb's pods without their times, and its nodes, for the packing protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from research.simulator.packing.pool import Host
from scheduler.simulator.traces.openb import POD_COLUMNS, read_demand
from scheduler.simulator.traces.source import Column, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from scheduler.simulator.traces.openb import Demand
    from scheduler.simulator.traces.source import Source

NODE_COLUMNS = (
    Column("sn", "", "the node's name"),
    Column("cpu_milli", "1/1000 core", "its cores"),
    Column("memory_mib", "MiB", "its memory"),
    Column("gpu", "GPUs", "how many it has"),
    Column("model", "", "their model; may be empty for 0 GPUs"),
)


def pods(source: Source) -> Iterator[Demand]:
    """Yield the pods' demands, in the file's order."""
    return (read_demand(row) for row in rows(source.name, source.lines, [each.name for each in POD_COLUMNS]))


def hosts(file: str, lines: Iterable[str]) -> Iterator[Host]:
    """The nodes, in the file's order."""
    for row in rows(file, lines, [each.name for each in NODE_COLUMNS]):
        gpus = row.whole("gpu", least=0)
        model = row.text("model") if gpus else row.values["model"].strip()
        yield Host(row.text("sn"), row.whole("cpu_milli", least=0), row.whole("memory_mib", least=0), gpus, model)
