"""Cluster files: YAML in, a simulated world out. Every complaint names the file and the field.

nodes:                     # groups of alike nodes
  - count: 8               # how many; 1
    name: dgx              # dgx-1 ... dgx-8 (dgx where there is one); group-1 ...
    gpu_type: A100         # needed where there are GPUs
    gpus: 8                # 0; of several types, without `gpu_type`: {A100: 4, T4: 2}
    cores: 128
    memory_gib: 1024
    speed: 1.0             # the nodes' own factor on every job's speed, found out by the scheduler as jobs report
    bandwidth_gbs: 200     # of memory; none = no contention
    storage_domain: nfs    # who can read its checkpoints, where `shared_storage: false`
    closes_s: 86400        # the nodes end then, as an allocation of Slurm does; none = they stay
gpu_types:                 # optional; what the scheduler is told of them
  A100: {speed: 2.0, weight: 2.0}    # 1; of an instance of MIG (`A100 MIG 1g.5gb`) its part of a GPU
tenants:                   # optional; tenants of the trace that are not named here have weight 1 and no quota
  - {name: vision, weight: 2, gpu_quota: 32, core_quota: 512}
manners:                   # optional; of the simulated service, see `World`
  tick_s: 30               # plannings at multiples of it; 0 = whenever something happens
  restart_s: 60
  stop_s: 0
  noise: 0.0
  shared_storage: true
"""

from __future__ import annotations

import math
import reprlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from portal.foundation.strict_yaml import YamlError, yaml_strict
from portal.pages.laboratory.errors import SimulationError
from scheduler.intake.bays import split
from scheduler.model import Node, Tenant
from scheduler.model.cluster import bay_id
from scheduler.model.placements import is_instance, share_of_gpu
from scheduler.simulator.world.truth import World

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

MOST_NODES, MOST_TYPES, MOST_BAYS, MOST_PLACES = 20_000, 8, 40_000, 5_000_000
"""Bays: a node's, for each GPU type. Places: cores and GPUs of all groups, each group's once."""
_CORES = tuple(range(4096))
MANNERS = {
    "tick_s": (0.0, 86_400.0),
    "restart_s": (0.0, 86_400.0),
    "stop_s": (0.0, 86_400.0),
    "profiling_s": (0.0, 86_400.0),
    "noise": (0.0, 1.0),
}
SWITCHES = ("failures", "shared_storage")


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """The world as described, and the tenants' names in their order: the first is tenant 1."""

    world: World
    tenants: tuple[str, ...] = ()
    name: str = field(default="", compare=False)

    @property
    def gpu_speeds_option(self) -> str:
        """As the trace formats' option `gpu_speeds` wants it."""
        return ",".join(f"{name}={speed:g}" for name, speed in self.world.gpu_speeds.items())


def cluster_read(path: Path) -> ClusterFile:
    """SimulationError: no such file, no YAML, or a field that cannot be."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SimulationError("cluster", f"{path} cannot be read: {error.strerror}; see examples/clusters/") from error
    except UnicodeDecodeError as error:
        raise SimulationError("cluster", f"{path} cannot be read: it is not text in UTF-8") from error
    return cluster_parse(text, name=str(path))


def cluster_parse(text: str, *, name: str = "cluster") -> ClusterFile:
    try:
        described = yaml_strict(text)
    except YamlError as error:
        where = f", line {error.line}, column {error.column}" if error.line else ""
        raise SimulationError(f"{name}{where}", error.detail) from error
    top = _Fields(name, "", described, ("nodes", "gpu_types", "tenants", "manners"))
    speeds, weights = _gpu_types(top)
    nodes, factors, bandwidths = _nodes(top)
    for kind in sorted({node.gpu_type for node in nodes if node.gpu_type and is_instance(node.gpu_type)}):
        speeds.setdefault(kind, share_of_gpu(kind))
        weights.setdefault(kind, share_of_gpu(kind))
    tenants = [_tenant(top.group("tenants", n, each), n) for n, each in enumerate(top.items("tenants"))]
    names = tuple(each for each, _ in tenants)
    seen: set[str] = set()
    for n, each in enumerate(names):
        if each in seen:
            raise top.wrong(f"tenants[{n}].name", f"{_show(each)} is listed twice")
        seen.add(each)
    world = World(
        nodes,
        tuple(tenant for _, tenant in tenants),
        speeds,
        weights,
        speeds=factors,
        bandwidth_gbs=bandwidths,
        **_manners(top),
    )
    return ClusterFile(world, names, name)


_CUT = reprlib.Repr()
_CUT.maxlevel, _CUT.maxstring, _CUT.maxother = 2, 60, 60


def _show(value: Any) -> str:
    """A value as a complaint repeats it: cut, and never walked to its end."""
    return _CUT.repr(value)


class _Fields:
    """A mapping of the file at a path in it; each field is checked when it is asked for, unknown ones at once."""

    def __init__(self, file: str, path: str, given: Any, known: tuple[str, ...]) -> None:
        self._file, self._path = file, path
        if not isinstance(given, dict):
            raise self.wrong("", f"is not a mapping of {', '.join(known)}")
        self._given: Mapping[str, Any] = given
        for name in given:
            if name not in known:
                raise self.wrong(str(name)[:60], f"there is no such field; there are {', '.join(known)}")

    def wrong(self, name: str, detail: str) -> SimulationError:
        at = ".".join(filter(None, (self._path, name)))
        return SimulationError(f"{self._file}: {at}" if at else self._file, detail)

    def items(self, name: str) -> list[Any]:
        value = self._given.get(name, [])
        if not isinstance(value, list):
            raise self.wrong(name, "is not a list")
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        value = self._given.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(name, "is not a mapping")
        return value

    def counts(self, name: str, *, most: int) -> list[tuple[str, int]] | None:
        """Names and whole numbers from 1 to 64, with a limit of entries; None where the field is no mapping."""
        given = self._given.get(name)
        if not isinstance(given, dict):
            return None
        if not 0 < len(given) <= most or not all(isinstance(each, str | int) for each in given):
            raise self.wrong(name, f"has not from 1 to {most} names")
        own = _Fields(self._file, ".".join(filter(None, (self._path, name))), given, tuple(given))
        return [(str(each), own.whole(each, 0, low=1, high=64)) for each in given]

    def group(self, name: str, number: int, given: Any) -> _Fields:
        return _Fields(self._file, f"{name}[{number}]", given, {"nodes": NODE_FIELDS, "tenants": TENANT_FIELDS}[name])

    def part(self, name: str, given: Any, known: tuple[str, ...]) -> _Fields:
        return _Fields(self._file, name, given, known)

    def has(self, name: str) -> bool:
        return self._given.get(name) is not None

    def text(self, name: str, default: str = "") -> str:
        value = self._given.get(name, default)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self.wrong(name, f"{_show(value)} is no name")
        return str(value)

    def number(self, name: str, default: float, *, low: float = 0.0, high: float = 1e12, above: bool = False) -> float:
        value = self._given.get(name, default)
        is_one = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_one or not low <= value <= high or (above and value == low):  # NaN is in no range
            raise self.wrong(name, f"{_show(value)} is not a number {'above' if above else 'from'} {low:g} to {high:g}")
        return float(value)

    def whole(self, name: str, default: int, *, low: int = 0, high: int = 10**9) -> int:
        value = self.number(name, default, low=low, high=high)
        if value != int(value):
            raise self.wrong(name, f"{_show(value)} is not a whole number")
        return int(value)

    def switch(self, name: str, *, default: bool) -> bool:
        value = self._given.get(name, default)
        if not isinstance(value, bool):
            raise self.wrong(name, f"{_show(value)} is neither true nor false")
        return value


NODE_FIELDS = tuple(
    """
        count name gpu_type gpus cores memory_gib speed bandwidth_gbs storage_domain closes_s
    """.split()
)
TENANT_FIELDS = ("name", "weight", "gpu_quota", "core_quota")


def _nodes(top: _Fields) -> tuple[list[Node], dict[int, float], dict[int, float]]:
    """The nodes, numbered from 1, their factors, and their memory bandwidths."""
    nodes: list[Node] = []
    factors: dict[int, float] = {}
    bandwidths: dict[int, float] = {}
    groups, number, places = top.items("nodes"), 0, 0
    if not groups:
        raise top.wrong("nodes", "no node is described; list at least one group of nodes")
    for n, given in enumerate(groups):
        group = top.group("nodes", n, given)
        name, count = group.text("name", f"group-{n + 1}"), group.whole("count", 1, low=1, high=MOST_NODES)
        if number + count > MOST_NODES:
            raise top.wrong(f"nodes[{n}].count", f"more than {MOST_NODES} nodes in all")
        speed = group.number("speed", 1.0, above=True) if group.has("speed") else None
        bandwidth = group.number("bandwidth_gbs", 1.0, above=True) if group.has("bandwidth_gbs") else None
        kinds = _kinds(group)
        alike = _node(group, kinds, name)
        bays = split(alike, kinds) if len(kinds) > 1 else [alike]
        places += sum(len(bay.idle_cores) + len(bay.idle_gpus) for bay in bays)
        if len(nodes) + len(bays) * count > MOST_BAYS or places > MOST_PLACES:
            detail = f"more than {MOST_BAYS} GPU types of nodes, or {MOST_PLACES} cores and GPUs of groups; join alike groups"
            raise top.wrong(f"nodes[{n}]", detail)
        for place in range(1, count + 1):
            number += 1
            own = name if count == 1 else f"{name}-{place}"
            here = [
                replace(bay, id=bay_id(number, kind), name=own + bay.name.removeprefix(name))
                for kind, bay in enumerate(bays)
            ]
            nodes += here
            if speed is not None:
                factors |= dict.fromkeys([bay.id for bay in here], speed)
            if bandwidth is not None:
                bandwidths |= {bay.id: bandwidth * bay.cores_total / alike.cores_total for bay in here}
    return nodes, factors, bandwidths


def _kinds(group: _Fields) -> list[tuple[str, int]]:
    """The GPUs by type; of several types they are given as `gpus: {A100: 4, T4: 2}`, the node's own first."""
    if (several := group.counts("gpus", most=MOST_TYPES)) is not None:
        if group.has("gpu_type"):
            raise group.wrong("gpu_type", "gpus names the types; leave gpu_type out")
        return several
    gpus, gpu_type = group.whole("gpus", 0, high=64), group.text("gpu_type")
    if gpus and not gpu_type:
        raise group.wrong("gpu_type", f"the nodes have {gpus} GPUs and no gpu_type; name their type")
    return [(gpu_type, gpus)] if gpus else []


def _node(group: _Fields, kinds: Sequence[tuple[str, int]], name: str) -> Node:
    cores = group.whole("cores", 0, low=1, high=len(_CORES))
    memory_mib = round(group.number("memory_gib", 0.0, above=True, high=1e6) * 1024)
    gpu_type, gpus = kinds[0] if kinds else (None, 0)
    return Node(
        id=0,
        name=name,
        gpu_type=gpu_type,
        gpus_total=gpus,
        idle_gpus=tuple(range(gpus)),
        cores_total=cores,
        idle_cores=_CORES[:cores],
        memory_total_mib=memory_mib,
        idle_memory_mib=memory_mib,
        storage_domain=group.text("storage_domain"),
        closes_s=group.number("closes_s", 0.0, above=True) if group.has("closes_s") else math.inf,
    )


def _gpu_types(top: _Fields) -> tuple[dict[str, float], dict[str, float]]:
    speeds: dict[str, float] = {}
    weights: dict[str, float] = {}
    for name, given in top.mapping("gpu_types").items():
        own = top.part(f"gpu_types.{name}", given, ("speed", "weight"))
        if own.has("speed"):
            speeds[str(name)] = own.number("speed", 1.0, above=True)
        if own.has("weight"):
            weights[str(name)] = own.number("weight", 1.0, above=True)
    return speeds, weights


def _tenant(own: _Fields, number: int) -> tuple[str, Tenant]:
    name = own.text("name")
    if not name:
        raise own.wrong("name", "it is empty; tenants are known by their names in the trace")
    gpus = own.whole("gpu_quota", 0) if own.has("gpu_quota") else None
    cores = own.whole("core_quota", 0) if own.has("core_quota") else None
    return name, Tenant(number + 1, own.number("weight", 1.0, above=True), gpus, cores)


def _manners(top: _Fields) -> dict[str, Any]:
    own = top.part("manners", top.mapping("manners"), (*MANNERS, *SWITCHES))
    found: dict[str, Any] = {
        name: own.number(name, 0.0, low=low, high=high) for name, (low, high) in MANNERS.items() if own.has(name)
    }
    return found | {name: own.switch(name, default=False) for name in SWITCHES if own.has(name)}
