"""How far a draw's virtual clock goes on at once: near times are exact to about a tick, far ones less.

Nobody is placed within a step, and what ends in it stands idle till the step is over. So no step is longer than it takes until a
tenth of what is held comes free: in longer ones hardly a job an hour would start, the queue would grow without end, and whoever
is behind in it would be foretold hours or days ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

GROWTH = 0.15
"""A step at most: this part of the time so far."""
RELEASED = 0.1
"""The part of the held GPUs that may come free in a step."""
FINE, DOUBLES, MOST = 120, 20, 220
"""Steps of a draw with that part, which is about ten times round the cluster; in how many steps after them the part doubles, and
all steps: whoever has not started by then starts late in any case.
"""


def longest_s(step: int, now_s: float, passed_s: float, running: Iterable[tuple[float, int]]) -> float:
    """Of the draw's step with this number, `passed_s` after its beginning. `running`: (end, GPUs) of whoever runs."""
    grown_s = GROWTH * passed_s
    ends = sorted(running)
    left = RELEASED * 2.0 ** (max(0, step - FINE) / DOUBLES) * sum(gpus for _, gpus in ends)
    for end_s, gpus in ends:
        left -= gpus
        if left <= 0:
            return min(grown_s, max(0.0, end_s - now_s))
    return grown_s
