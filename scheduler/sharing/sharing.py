"""One planning's sharing step: waiting jobs that opted in get places on shared GPUs (algorithms.md section 11).

The same code for the service and the simulator. Grants come to no more than a GPU has, in memory and in compute, by every
policy; a refused job gets the rules that refused it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from scheduler.sharing.board import Board
from scheduler.sharing.cbp import Cbp
from scheduler.sharing.dqn import Dqn
from scheduler.sharing.measured import NOTHING, Measured
from scheduler.sharing.model import BY_NUMBER, Asker, Harvest, Joined, Refused, Rule, SharedGpu, admitting, closing
from scheduler.sharing.peak import CbpPeak
from scheduler.sharing.policy import Policy, granted
from scheduler.sharing.res_ag import ResAg

if TYPE_CHECKING:
    from scheduler.sharing.learned.record import Stored

LOOKS_AT_USE = frozenset({"res-ag", "cbp", "cbp-pp", "dqn"})
"""The policies that read earlier use: all, for a GPU that a job would crowd is closed to it. Res-Ag reads only requests."""
LOOKS_NOW = frozenset({"cbp", "cbp-pp", "dqn"})
"""The policies that read the memory of the last minute: of the GPUs for forecasts, of the jobs for harvesting."""
POLICIES: Mapping[str, Callable[[], Policy]] = {each.name: each for each in (ResAg, Cbp, CbpPeak, Dqn)}


def policy_named(name: str, learned: Stored | None = None) -> Policy | None:
    """Return the policy; None for `off`, and for an unknown name. `learned`: the network of `dqn`."""
    if name == Dqn.name:
        return Dqn(learned)
    return POLICIES[name]() if name in POLICIES else None


@dataclass(frozen=True, slots=True)
class Shared:
    """The decisions of the step. Harvests come first: the places count on them."""

    harvests: tuple[Harvest, ...]
    joined: tuple[Joined, ...]
    refused: tuple[Refused, ...]


def share(
    policy: Policy,
    askers: Sequence[Asker],
    gpus: Sequence[SharedGpu],
    *,
    horizon_steps: int = 1,
    measured: Measured = NOTHING,
) -> Shared:
    """Give waiting jobs places on shared GPUs; `horizon_steps` samples ahead is what a forecast looks at (one second).

    Raises ValueError where a GPU's grants already come to more than it has.
    """
    board = Board(askers, gpus, horizon_steps, measured)
    if (board.left_mib < 0).any() or (board.left_compute < 0).any():
        raise ValueError("a shared GPU's grants come to more than it has")
    harvests = _harvests(board) if policy.harvests else []
    joined, refused = [], []
    for row in policy.first(board):
        rules = policy.rules(board, row)
        open_to = np.flatnonzero(admitting(rules))
        if len(open_to) == 0:
            refused.append(Refused(board.askers[row].key, closing(rules)))
        else:
            column = int(open_to[np.argmin(board.order(row, policy.keys(board))[open_to])])
            joined.append(_join(policy, board, row, column, BY_NUMBER[rules[column]]))
    return Shared(tuple(harvests), tuple(joined), tuple(refused))


def _harvests(board: Board) -> list[Harvest]:
    """Return the memory that running batch jobs give back, and count it as left."""
    found = []
    for column, gpu in enumerate(board.gpus):
        for each in gpu.residents:
            grant = each.kept_mib
            if grant < each.grant_mib:
                board.regrant(column, grant - each.grant_mib)
                found.append(Harvest(each.asker.key, gpu.key, grant))
    return found


def _join(policy: Policy, board: Board, row: int, column: int, rule: Rule) -> Joined:
    asker, gpu = board.askers[row], board.gpus[column]
    grant = granted(policy, board, row, rule)
    figure = None
    if rule is Rule.UNCORRELATED:
        figure = float(board.alike.correlated(row, np.array([column]))[0])
    elif rule is Rule.FORECAST:
        figure = float(board.ahead_mib[column])
    beside = tuple(board.joined[column])
    board.join(row, column, grant)
    return Joined(asker.key, gpu.key, grant, rule, figure, beside)
