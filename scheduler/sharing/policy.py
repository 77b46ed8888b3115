"""What a sharing policy is: an order of askers, an order of GPUs, and a rule for each pair of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from scheduler.sharing.model import Rule

if TYPE_CHECKING:
    from scheduler.sharing.board import Board
    from scheduler.sharing.series import Flags, Floats, Ints

LIMIT = 0.5
"""Largest correlation with which two jobs share a GPU (Kube-Knots, algorithm 1)."""

NUMBERS: dict[Rule, int] = {rule: number for number, rule in enumerate(Rule)}
BY_NUMBER: tuple[Rule, ...] = tuple(Rule)
ADMITS = frozenset({Rule.ALONE, Rule.FITS, Rule.LEARNED, Rule.UNCORRELATED, Rule.FORECAST, Rule.MEASURED})
_ADMITTING = np.array([rule in ADMITS for rule in Rule])


class Policy(Protocol):
    """A sharing policy. It decides nothing twice: the driver asks it once for each asker, with the board as it is then."""

    name: str
    harvests: bool
    """Whether batch jobs are provisioned with what they were seen to use, and not with what they asked for."""

    def first(self, board: Board) -> list[int]:
        """Return the askers' rows in the order in which they are given places."""

    def keys(self, board: Board) -> Floats:
        """Return a number for each GPU; those with the smallest are tried first, and equal ones in the board's order."""

    def rules(self, board: Board, row: int) -> Ints:
        """Return for each GPU the number (`NUMBERS`) of the rule by which the asker joins it, or that keeps it away."""


def admitting(rules: Ints) -> Flags:
    """Return where a rule lets the asker in. Shape as given."""
    found: Flags = _ADMITTING[rules]
    return found


def granted(policy: Policy, board: Board, row: int, rule: Rule) -> int:
    """Return the memory (MiB) that an asker gets. Measured speed says nothing of memory: by that rule it gets all it asks for."""
    harvests = policy.harvests and rule is not Rule.MEASURED
    return int(board.grants[row] if harvests else board.requests[row])


def by_memory(board: Board) -> list[int]:
    """Return the askers' rows by requested memory, largest first; equal ones stay in their order."""
    return [int(row) for row in np.argsort(-board.requests, kind="stable")]


def room(board: Board, row: int, grant_mib: int) -> Ints:
    """Return for each GPU: ALONE or FITS where the ledgers have room, else what is lacking. For every policy alike.

    Grants never come to more than a GPU's memory, nor compute to more than a whole GPU, whatever a policy thinks.
    """
    found: Ints = np.where(board.people == 0, NUMBERS[Rule.ALONE], NUMBERS[Rule.FITS])
    found[board.alike.apart[row]] = NUMBERS[Rule.APART]
    if board.harms is not None and board.harms.limited:
        if (crowded := board.harms.crowded(row)) is not None:
            found[crowded] = NUMBERS[Rule.CROWDED]
        if (slowed := board.harms.too_much(row)) is not None:
            found[slowed] = NUMBERS[Rule.SLOWED]
    found[board.left_compute < board.compute[row]] = NUMBERS[Rule.COMPUTE]
    found[board.left_mib < grant_mib] = NUMBERS[Rule.MEMORY]
    return found
