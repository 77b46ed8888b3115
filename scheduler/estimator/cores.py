"""Where a job's CPU cores begin (CODA V-B.1; algorithms.md section 8), in cores per GPU. Service and simulator both ask here.

*N_start*: the owner's past jobs of the same category give their largest tuned number; with no such past 3 (cv), 5 (nlp), 5
(speech); with no category, or one without a number of its own, the owner's whole past; with nothing at all 4. Then -1 if
pipelined, -1 if the model is large, +1 if there is heavy work between iterations; at least 1. The job's own earlier tuning counts
before all that. It does not matter what the job asks for: tuning corrects the start. The number asked is kept where nobody would
correct it (`is_corrected`), and where the tenant says `exactly`. Spread over several nodes a job gets at most 2 per GPU (our
reading of "no more than two cores").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduler.model.placements import serves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

CATEGORY_CORES: Mapping[str, int] = {"cv": 3, "nlp": 5, "speech": 5}
DEFAULT_CORES = 4
DISTRIBUTED_CORES = 2
LARGE_MODEL_PARAMETERS = 100_000_000
"""A model with more parameters than this is large."""


def begin_cores(
    start: int, *, own: int | None = None, asked: int | None = None, exactly: bool = False, corrected: bool = True
) -> int:
    """The cores per GPU that a GPU job begins with. `start`: its N_start; `own`: the result of its earlier attempts.

    `corrected`: see `is_corrected`.
    """
    return asked if asked and (exactly or not corrected) else own or start


def start_cores(
    *,
    category: str | None,
    tuned: Mapping[str | None, int],
    part: float = 1.0,
    pipelined: bool = False,
    model_parameters: int | None = None,
    heavy_between_iterations: bool = False,
) -> int:
    """N_start per GPU. `tuned`: the owner's largest tuned number per category of its past jobs (None = no category).

    `part`: of a GPU that it shares, of which it gets that part of N_start.
    """
    large = model_parameters is not None and model_parameters > LARGE_MODEL_PARAMETERS
    start = _from_past(category, tuned) - pipelined - large + heavy_between_iterations
    return max(1, round(max(1, start) * part))


def is_corrected(requirement: Sequence[int], gpu_types: AbstractSet[str], tuning: Mapping[str, int]) -> bool:
    """Whether some node tunes the cores of such a job: it may use the node's GPUs, and its smallest size fits there.

    `tuning`: GPU type -> the most GPUs of one node that tunes; {} = none does.
    """
    return any(gpus >= requirement[0] > 0 and serves(gpu_types, name) for name, gpus in tuning.items())


def _from_past(category: str | None, tuned: Mapping[str | None, int]) -> int:
    if category is not None and (known := tuned.get(category) or CATEGORY_CORES.get(category)):
        return known
    return max(tuned.values(), default=DEFAULT_CORES)
