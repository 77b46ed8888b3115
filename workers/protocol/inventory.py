"""A node's inventory: the body of register and of hello."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class Gpu(TypedDict):
    index: int
    uuid: str
    memory_mib: int
    gpu_type: NotRequired[str]  # absent: the inventory's


class Wall(TypedDict):
    """One wall between jobs: `by` its means, "" where it does not stand; then `why`."""

    name: str
    by: str
    why: str


def wall(name: str, by: str, why: str = "") -> Wall:
    """Return a wall as the portal takes it. `why` is cut to its length there."""
    return {"name": name, "by": by, "why": why[:300]}


class Isolation(TypedDict):
    """Whether jobs are kept out of Berth's `files`, and from sending it `signals`; `why`: the reason why not."""

    files: bool
    signals: bool
    landlock: int
    why: str
    walls: NotRequired[list[Wall]]  # means that keep its jobs apart, each as it was tried at the agent's start


class Links(TypedDict):
    """A node's links; null: unknown. `nvlink_gbps`: all NVLinks of one GPU together, GB/s, one way."""

    nvlink_gbps: float | None
    pcie_generation: int | None
    pcie_lanes: int | None
    network_mbps: float | None
    addresses: NotRequired[list[str]]  # all by which other nodes may know it


class MemoryTraffic(TypedDict):
    """How a node knows its memory's traffic, and how it can hold a CPU job back from it; empty: not at all.

    `gb_s`: its memory's bandwidth, 10^9 bytes a second; null: not known.
    """

    gb_s: float | None
    meter: Literal["resctrl", "probe", "simulated", ""]
    throttle: Literal["mba", "quota2", "quota1", "cores", ""]


class SoftwareOffer(TypedDict):
    """A node's software. `python`: its version; `installer`: "uv", "pip" or null; `images`: "apptainer" or null.

    `missing`: a kind that it does not offer -> why, and the remedy.
    """

    python: str
    installer: str | None
    images: NotRequired[str | None]
    git: NotRequired[bool]
    environments: list[str]
    missing: dict[str, str]


class Inventory(TypedDict):
    """Body of register and of hello."""

    name: str
    address: str
    boot_id: str
    agent_version: str
    virtual: bool
    single_account: bool
    trusts_tenants: bool
    isolation: NotRequired[Isolation]
    links: NotRequired[Links]
    memory_traffic: NotRequired[MemoryTraffic]
    software: NotRequired[SoftwareOffer]
    gpu_type: str | None
    gpus: list[Gpu]
    cores: int
    memory_mib: int
    storage_domain: str | None
    ends_at: NotRequired[float]  # from then on its jobs are stopped, as at the end of an allocation; absent: it stays
