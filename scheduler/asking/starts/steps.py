"""How far a draw's virtual clock goes on at once: near times are exact to about a tick, far ones less.

No job is placed within a step, and the GPUs of a job that ends in it stand idle till the step is over. So a step ends when a
tenth of the held GPUs has come free. In longer steps hardly a job an hour would start, the queue would grow without end, and jobs
far behind in it would be foretold hours or days ahead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

GROWTH = 0.15
"""The longest step: this part of the time so far."""
RELEASED = 0.1
"""The part of the held GPUs that may come free in a step."""
FINE, DOUBLES, MOST = 120, 20, 220
"""Steps of a draw with that part, which is about ten times round the cluster; in how many steps after them the part doubles, and
all steps: a job that has not started by then starts late in any case.
"""


def longest_s(step: int, now_s: float, passed_s: float, running: Iterable[tuple[float, int]]) -> float:
    """The longest step at this number of the draw, `passed_s` after its beginning. `running`: (end, GPUs) of running jobs."""
    grown_s = GROWTH * passed_s
    ends = sorted(running)
    left = RELEASED * 2.0 ** (max(0, step - FINE) / DOUBLES) * sum(gpus for _, gpus in ends)
    for end_s, gpus in ends:
        left -= gpus
        if left <= 0:
            return min(grown_s, max(0.0, end_s - now_s))
    return grown_s
