"""The values that a planning hands over to be placed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


BY_SAMPLES = "samples"
"""Where an age came from that is no guess: the scheduler's own word."""


@dataclass(frozen=True)
class Part:
    """An attempt's part on one node.

    With a `gpu_compute` (thousandths) it holds that, and `gpu_memory_mib`, of the one GPU that it names and may share.
    """

    node_id: int
    gpu_indices: tuple[int, ...]
    core_ids: tuple[int, ...]
    memory_mib: int
    gpu_compute: int | None = None
    gpu_memory_mib: int | None = None

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs that it holds."""
        return 1000 * len(self.gpu_indices) if self.gpu_compute is None else self.gpu_compute


@dataclass(frozen=True)
class Profile:
    """The target of a profile, and its longest time."""

    signature: str
    gpu_type: str
    limit_s: int


AgeRow = tuple[float | None, str, float | None, int | None]


@dataclass(frozen=True)
class Placing:
    """A waiting job, the parts of its attempt, and (expected run time in seconds, where that came from, its spread, and the
    number of ended jobs behind it).

    The age is refreshed until a job's first start, then fixed, but for a guess (algorithms, section 3); None leaves it as it is.
    With a `profile` the job goes on waiting: the attempt only measures its speed. `cores_wanted`: see `Attempt`.
    """

    job_id: int
    parts: Sequence[Part]
    age: AgeRow | None = None
    profile: Profile | None = None
    cores_wanted: int | None = None
