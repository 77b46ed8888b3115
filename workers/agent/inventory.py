"""The node's resources: the machine's own cores, memory, GPUs and software, or those that a virtual node declares."""

from __future__ import annotations

import os
import shlex
import socket
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from workers import VERSION
from workers.agent.settings import AgentSettings, SettingError
from workers.environments.offer import Limits, Offer, OfferError, offer_find, offer_with
from workers.system import log
from workers.system.interfaces import address_of
from workers.system.procs import boot_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workers.protocol.inventory import Gpu, Inventory, Links
    from workers.telemetry.sampler import GpuSampler

_KEYS = ("gpus", "type", "gpu-memory-mib", "cores", "memory-mib", "core-percent", "memory-gb-s")
_LISTS = ("gpus", "type", "gpu-memory-mib")


@dataclass(frozen=True, slots=True)
class VirtualNode:
    """The values of `--virtual`. The work of one virtual GPU takes `core_percent` per cent of a real core.

    `memory_gb_s`: its memory's bandwidth; 0: its traffic is not simulated.
    """

    gpus: int
    gpu_type: str | None
    gpu_memory_mib: int
    cores: int
    memory_mib: int
    core_percent: int = 100
    memory_gb_s: int = 0
    beside: tuple[tuple[int, str, int], ...] = ()  # (GPUs, type, memory of each in MiB) of further types

    @property
    def kinds(self) -> list[tuple[int, str, int]]:
        first = [(self.gpus, self.gpu_type, self.gpu_memory_mib)] if self.gpu_type else []
        return [*first, *self.beside]


def virtual_parse(text: str) -> VirtualNode:
    """Read `gpus=8,type='A100 80 GB',...`; of several types `gpus=4+2,type=A100+T4,gpu-memory-mib=...+...`. SettingError."""
    lexer = shlex.shlex(text, posix=True)
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = ",", True, ""
    try:
        pairs = dict(item.partition("=")[::2] for item in lexer)
    except ValueError as error:
        raise SettingError(f"--virtual: {error}") from error
    if unknown := sorted(set(pairs) - set(_KEYS)):
        raise SettingError(f"--virtual: unknown {unknown[0]!r}; known are {', '.join(_KEYS)}")

    kinds = [_kind(pairs, each) for each in range(1, pairs.get("gpus", "").count("+") + 1)]
    pairs |= {key: pairs[key].partition("+")[0] for key in _LISTS if kinds and key in pairs}

    def number(key: str, *, least: int, default: int | None = None) -> int:
        raw = pairs.get(key, default if default is None else str(default))
        if raw is None or not raw.isdecimal() or int(raw) < least:
            raise SettingError(f"--virtual: {key} must be a whole number of at least {least}, not {raw!r}")
        return int(raw)

    gpus = number("gpus", least=0, default=0)
    if gpus and not pairs.get("type"):
        raise SettingError("--virtual: type must name the GPUs, as in type='A100 80 GB'")
    memory = number("gpu-memory-mib", least=1) if gpus else 0
    cores, memory_mib = number("cores", least=1), number("memory-mib", least=1)
    percent = number("core-percent", least=1, default=100)
    if percent > 100:
        raise SettingError(f"--virtual: core-percent must be at most 100, not {percent}")
    traffic = number("memory-gb-s", least=0, default=0)
    return VirtualNode(
        gpus, pairs.get("type") if gpus else None, memory, cores, memory_mib, percent, traffic, tuple(kinds)
    )


def _kind(pairs: Mapping[str, str], place: int) -> tuple[int, str, int]:
    try:
        gpus, name, memory = (pairs.get(key, "").split("+")[place] for key in _LISTS)
        if int(gpus) > 0 and name and int(memory) > 0:
            return int(gpus), name, int(memory)
    except (IndexError, ValueError):
        pass
    raise SettingError("--virtual: of several types write gpus, type and gpu-memory-mib as lists of equal length: 4+2")


def virtual_pace(settings: AgentSettings) -> float | None:
    """Return the share (0 to 1) of a real core that one virtual GPU's work takes; None on a real node. Raises SettingError."""
    return virtual_parse(settings.virtual).core_percent / 100 if settings.virtual else None


def machine_memory_mib() -> int:
    """Return the machine's memory, or its control group's limit when that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            text = (Path("/sys/fs/cgroup") / name).read_text().strip()
        except OSError:  # that version of control groups is not mounted
            continue
        if text.isdecimal():
            total = min(total, int(text))
    return total // 2**20


def own_address(url: str) -> str:
    """Return the address from which this machine reaches the portal. Nothing is sent."""
    parts = urlsplit(url)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((parts.hostname or "127.0.0.1", parts.port or 443))
        except OSError:  # the portal's name is unknown, or it has IPv6 only: use this machine's name
            return socket.gethostname()
        return str(probe.getsockname()[0])


def _base(settings: AgentSettings) -> Inventory:
    address = settings.address or own_address(settings.url)
    return {
        "name": settings.name,
        "address": address,
        "boot_id": boot_id(),
        "agent_version": VERSION,
        "virtual": settings.virtual is not None,
        "single_account": True,  # until accounts for tenants were tried
        "trusts_tenants": settings.trust_tenants,
        "gpu_type": None,
        "gpus": [],
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": machine_memory_mib(),
        "storage_domain": settings.storage_domain,
        "links": {
            "nvlink_gbps": None,
            "pcie_generation": None,
            "pcie_lanes": None,
            "network_mbps": network_mbps(address),
        },
    }


def inventory_virtual(settings: AgentSettings, node: VirtualNode) -> Inventory:
    kinds = [(name, memory_mib) for count, name, memory_mib in node.kinds for _ in range(count)]
    gpus: list[Gpu] = [
        {"index": i, "uuid": f"VIRTUAL-{settings.name}-{i}", "memory_mib": memory_mib} | _beside(name, node.gpu_type)
        for i, (name, memory_mib) in enumerate(kinds)
    ]
    own: Inventory = {**_base(settings), "gpu_type": node.gpu_type, "gpus": gpus}
    return {
        **own,
        "cores": node.cores,
        "memory_mib": node.memory_mib,
        "memory_traffic": {
            "gb_s": float(node.memory_gb_s) or None,
            "meter": "simulated" if node.memory_gb_s else "",
            "throttle": "cores",
        },
    }


def inventory_real(settings: AgentSettings, sampler: GpuSampler) -> Inventory:
    """Return the machine's resources. Its GPU type is the most frequent one; GPUs of another type say so."""
    found = sampler.gpus()
    counts = Counter(gpu.type for gpu in found)
    own = max(counts, key=lambda name: counts[name], default=None)  # of equally many the first on the machine
    gpus: list[Gpu] = [
        {"index": g.index, "uuid": g.uuid, "memory_mib": g.memory_mib} | _beside(g.type, own) for g in found
    ]
    base = _base(settings)
    links: Links = {**sampler.links(), "network_mbps": base["links"]["network_mbps"]}
    return {**base, "gpu_type": own, "gpus": gpus, "links": links}


def _beside(name: str, own: str | None) -> Any:
    """Return a GPU's own type where it is not the node's."""
    return {} if name == own else {"gpu_type": name}


def network_mbps(address: str) -> int | None:
    """Return the speed in Mbit/s of the interface with this address; None when the kernel gives none."""
    try:
        wanted = socket.gethostbyname(address)
        names = [name for _, name in socket.if_nameindex()]
    except OSError:
        return None
    return next((_speed(name) for name in names if address_of(name) == wanted), None)


def _speed(name: str) -> int | None:
    try:
        speed = int((Path("/sys/class/net") / name / "speed").read_text())
    except (OSError, ValueError):  # the loopback and most virtual interfaces have none
        return None
    return speed if speed > 0 else None


def software_find(settings: AgentSettings) -> Offer:
    """Return this machine's offer to jobs. Raises SettingError for a wrong setting; absent software is logged."""
    limits = Limits(
        build_s=settings.environments_build_s,
        one_gib=settings.environments_one_gib,
        all_gib=settings.environments_all_gib,
        keep_days=settings.environments_keep_days,
    )
    try:
        offer = offer_find(
            settings.dir / "environments",
            named=settings.environments,
            python=settings.environments_python,
            index=settings.environments_index,
            wheels=settings.environments_wheels,
            limits=limits,
        )
    except OfferError as error:
        raise SettingError(str(error)) from error
    for what, why in offer.missing.items():
        (log.info if what == "image" else log.warning)("software not offered", what=what, why=why)
    return offer


class Software:
    """The machine's offer, with the environments that operators name for all nodes. `sent`: the offer that the portal has."""

    def __init__(self, own: Offer, *, closed: tuple[Path, ...] = ()) -> None:
        self._own, self._closed = own, closed
        self.wanted: Mapping[str, str] = {}
        self.offer = own
        self.sent: Mapping[str, object] | None = None

    def refresh(self) -> bool:
        """Look again for the wanted environments; true: the portal has an older offer. Reads the disk."""
        self.offer = offer_with(self._own, self.wanted, closed=self._closed)
        return self.offer.to_wire() != self.sent
