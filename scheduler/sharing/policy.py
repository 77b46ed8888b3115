"""A sharing policy: an order of askers, an order of GPUs, and a rule for each pair of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from scheduler.sharing.model import Rule
from scheduler.sharing.series import Floats, Numbers

if TYPE_CHECKING:
    from scheduler.sharing.board import Board

LIMIT = 0.5
"""Largest correlation with which two jobs share a GPU (Kube-Knots, algorithm 1)."""


class Policy(Protocol):
    """A sharing policy. It decides nothing twice: the driver asks it once for each asker, with the board as it is then."""

    name: str
    harvests: bool
    """Whether batch jobs are provisioned with their measured use, and not with their request."""

    def first(self, board: Board) -> list[int]:
        """Return the askers' rows in the order in which they are given places."""

    def keys(self, board: Board) -> Floats:
        """Return a number for each GPU; those with the smallest are tried first, and equal ones in the board's order."""

    def rules(self, board: Board, row: int) -> Numbers:
        """Return for each GPU the number (`NUMBERS`) of the rule by which the asker joins it, or that keeps it away."""


def granted(policy: Policy, board: Board, row: int, rule: Rule) -> int:
    """Return the memory (MiB) that an asker gets. Measured speed says nothing of memory: by that rule it gets all it asks for."""
    harvests = policy.harvests and rule is not Rule.MEASURED
    return int(board.grants[row] if harvests else board.requests[row])


def by_memory(board: Board) -> list[int]:
    """Return the askers' rows by requested memory, largest first; equal ones stay in their order."""
    found: list[int] = (-board.requests).argsort(kind="stable").tolist()
    return found
