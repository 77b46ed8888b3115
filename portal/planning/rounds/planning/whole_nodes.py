"""A plan in terms of nodes: the core plans the GPUs of each type of a node as a node of its own (`scheduler.model.bays`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from scheduler.model.bays import node_of, number_of

if TYPE_CHECKING:
    from scheduler.model import Decision, Kept, Node, Piece, Plan


def on_whole_nodes(made: Plan, nodes: Iterable[Node]) -> Plan:
    """Return the plan with nodes in the place of bays. Promises keep their bays: the next planning is to find them again."""
    if not any(number_of(node.id) for node in nodes):
        return made
    for decision in made.decisions:
        _place_on_nodes(decision)
    return replace(
        made,
        profiles=tuple(replace(each, piece=_on_node(each.piece)) for each in made.profiles),
        probes=tuple(replace(each, pieces=tuple(map(_on_node, each.pieces))) for each in made.probes),
        reservations=tuple(_reserve_nodes(each) for each in made.reservations),
    )


def _place_on_nodes(decision: Decision) -> None:
    if decision.placement is not None:
        pieces = tuple(_on_node(piece) for piece in decision.placement.pieces)
        decision.placement = replace(decision.placement, pieces=pieces)


def _on_node(piece: Piece) -> Piece:
    return replace(piece, node=node_of(piece.node))


def _reserve_nodes(kept: Kept) -> Kept:
    return replace(kept, nodes=tuple(dict.fromkeys(node_of(node) for node in kept.nodes)))
