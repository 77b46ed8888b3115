"""A cluster that another scheduler runs, as Berth asks of it: the contract of each engine, and the bridge's messages.

An engine works beside that scheduler, in the bridge; the portal keeps the orders. Two rules hold for all engines: an order
is known by its name, never by the other scheduler's number, which may be given twice; and an order that is not listed has
not ended.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NotRequired, Protocol, TypedDict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Form = Literal["pilot", "attempt"]
FORMS: tuple[Form, ...] = ("pilot",)
"""`pilot`: a job of the other scheduler holds GPUs, and an agent in it runs many of Berth's. `attempt`: one for each attempt."""
CAPABILITIES: Mapping[Form, frozenset[str]] = {
    "pilot": frozenset({"tunes_cores", "shares_gpus", "terminals", "moves", "holds_gpus"}),
    "attempt": frozenset({"terminals", "moves", "chooses_indices", "own_accounts"}),
}
"""Pages, planner and explanations ask these, never an engine's name."""

State = Literal["pending", "running", "ended"]
NAME = re.compile(r"berth-[A-Za-z0-9._-]{1,100}")
"""Names of orders. A job of the same account with another name is nobody's order, and is never touched."""
MOST_NODES, MOST_ORDERS, MOST_REASON = 10_000, 1000, 300


class NodeSeen(TypedDict):
    """A node of the other scheduler. `gpus`: those it has by type; `gpus_busy`: those that are given to anybody."""

    name: str
    state: str  # in the other scheduler's word, lower case
    takes_jobs: bool
    reason: str
    cores: int
    cores_busy: int
    memory_mib: int
    memory_busy_mib: int
    gpus: dict[str, int]
    gpus_busy: dict[str, int]


class Order(TypedDict):
    """An order for the other scheduler. `again`: it may have been asked for already, and is looked for first."""

    name: str
    again: bool
    gpus: int  # 0: a whole node
    gpu_type: str  # in the other scheduler's word; "": any
    cores: int  # 0: as many as its GPUs' share of a node
    memory_mib: int  # the same
    limit_s: int
    join_token: str


class Follow(TypedDict):
    """An order that lives. `ticket`: the other scheduler's number; "" while nobody knows it."""

    name: str
    ticket: str


class OrderSeen(TypedDict):
    """An order as the other scheduler lists it. Absent from a message: it is not listed, which is no end."""

    name: str
    ticket: str
    state: State
    reason: str
    node: str
    since: NotRequired[float | None]  # Unix seconds: it began to run; of a pending one, when it is expected to
    ends_at: NotRequired[float | None]


class Refused(TypedDict):
    """An order that the other scheduler did not take, in its words."""

    name: str
    reason: str


class EngineDescription(TypedDict):
    """The bridge and the cluster, in the words of the bridge."""

    kind: str
    cluster: str
    partition: str
    form: Form
    version: str
    gpus_max: int
    gpus_per_pilot: int  # 0: whole nodes
    limit_s: int
    idle_s: int
    tenant: NotRequired[str]  # the only one that is served


class AwayBody(TypedDict):
    since: float
    reason: str


class ExchangeBody(TypedDict):
    """From the bridge. `away`: the other scheduler does not answer, and nothing is known of orders. `nodes` null: as before."""

    engine: EngineDescription
    away: AwayBody | None
    nodes: list[NodeSeen] | None
    orders: list[OrderSeen]
    refused: list[Refused]


class ExchangeAnswer(TypedDict):
    period_s: float
    submit: list[Order]
    follow: list[Follow]
    stop: list[Follow]


class Enrolled(TypedDict):
    engine: str
    token: str


class NodeGroup(TypedDict):
    """Nodes of one kind."""

    count: int
    cores: int
    memory_mib: int
    gpus: dict[str, int]  # of each node, by type


class HistoryHead(TypedDict):
    """The first line of a history, as JSON. The records of `sacct` follow; all of it is compressed by zlib."""

    days: int
    nodes: list[NodeGroup]


class HistoryAnswer(TypedDict):
    """`page`: the path of the simulation's page, which the user `owner` may open. `jobs`: those that ran."""

    page: str
    owner: str
    jobs: int


@dataclass(frozen=True, slots=True)
class Away:
    """The other scheduler does not answer. It is a value, so that nobody takes it for an empty list."""

    reason: str


@dataclass(frozen=True, slots=True)
class Seen:
    """The orders that are listed, by name. Several of one name live: the first one stays, and `doubles` are to be stopped."""

    orders: Mapping[str, OrderSeen]
    doubles: Sequence[Follow] = field(default=())


class RefusedError(Exception):
    """The other scheduler does not take an order; the text says why, in its words."""


class UnknownError(Exception):
    """Nobody knows whether the order was taken: the answer was lost, or the other scheduler went away."""


class ClusterEngine(Protocol):
    """Each call ends within seconds. A scheduler that does not answer is `Away`, of `submit` an UnknownError."""

    def describe(self) -> tuple[str, str] | Away:
        """Return the cluster's name and the scheduler's version."""

    def inventory(self) -> list[NodeSeen] | Away:
        """Return the partition's nodes."""

    def submit(self, order: Order, script: str) -> str:
        """Ask for the order, once; return its ticket. Raises RefusedError or UnknownError."""

    def look(self, names: Collection[str] | None = None) -> Seen | Away:
        """Return the orders of these names that are listed; None: all of this account's in the partition."""

    def stop(self, ticket: str, name: str) -> Away | None:
        """Ask for the order's end, unless the ticket belongs to another name by now. It is no error where there is none."""

    def extend(self, ticket: str, name: str, limit_s: int) -> bool | Away:
        """Let the order last this long from its start; False where the scheduler allows it not."""
