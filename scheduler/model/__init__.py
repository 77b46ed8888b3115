"""The scheduler's input and output: frozen values, no behaviour beyond arithmetic on their own fields.

Ids are the caller's integers; they order nodes ("id order" of section 5) and break ties. Times are seconds on the caller's
clock, memory is MiB. The caller fills these values; `scheduler.intake.validation` checks them.
"""

from scheduler.model.alike import Alike
from scheduler.model.bays import bay_id, node_of, number_of
from scheduler.model.cluster import ArrayHistory, ClusterState, Ended, LinkWish, Node, RunHistory, Tenant
from scheduler.model.jobs import Figures, Job, Profiled, Promise, Reason, Running, Span
from scheduler.model.parts import GpuPart, HeldPart, Holder, PairSeen, PartedGpu
from scheduler.model.placements import Configuration, Piece, Placement, Reservation, Share
from scheduler.model.plan import (
    Blocking,
    Clock,
    Decision,
    Fault,
    Kept,
    LinkOrder,
    Metrics,
    Plan,
    ProfileOrder,
    Promised,
    Result,
    ShareView,
    Side,
    SolverFigures,
    Standing,
    StopOrder,
    WindowView,
)
from scheduler.model.queue import Chosen, Lines, Queue, Ranked, by_tenant, given_back, labelled, who_of

__all__ = [
    "Alike",
    "ArrayHistory",
    "Blocking",
    "Chosen",
    "Clock",
    "ClusterState",
    "Configuration",
    "Decision",
    "Ended",
    "Fault",
    "Figures",
    "GpuPart",
    "HeldPart",
    "Holder",
    "Job",
    "Kept",
    "Lines",
    "LinkOrder",
    "LinkWish",
    "Metrics",
    "Node",
    "PairSeen",
    "PartedGpu",
    "Piece",
    "Placement",
    "Plan",
    "ProfileOrder",
    "Profiled",
    "Promise",
    "Promised",
    "Queue",
    "Ranked",
    "Reason",
    "Reservation",
    "Result",
    "RunHistory",
    "Running",
    "Share",
    "ShareView",
    "Side",
    "SolverFigures",
    "Span",
    "Standing",
    "StopOrder",
    "Tenant",
    "WindowView",
    "bay_id",
    "by_tenant",
    "given_back",
    "labelled",
    "node_of",
    "number_of",
    "who_of",
]
