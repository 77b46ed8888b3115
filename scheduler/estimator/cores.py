"""Where the search for a job's CPU cores starts (CODA V-B.1; algorithms.md section 8), in cores per GPU.

The owner's past jobs of the same category give their largest tuned number; with no such past 3 (cv), 5 (nlp), 5 (speech); with
no category, or one without a number of its own, the owner's whole past; with nothing at all 4. Then -1 if pipelined, -1 if the
model is large, +1 if there is heavy work between iterations; at least 1. Spread over several nodes a job gets at most 2 per GPU
(our reading of "no more than two cores"). The job's own earlier tuning counts before all that, then its tenant's request; a
tenant may fix that ("exactly").
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CATEGORY_CORES: Mapping[str, int] = {"cv": 3, "nlp": 5, "speech": 5}
DEFAULT_CORES = 4
DISTRIBUTED_CORES = 2
LARGE_MODEL_PARAMETERS = 100_000_000
"""A model with more parameters than this is large."""


def start_cores(
    *,
    category: str | None,
    tuned: Mapping[str | None, int],
    given: int | None = None,
    pipelined: bool = False,
    model_parameters: int | None = None,
    heavy_between_iterations: bool = False,
) -> int:
    """N_start per GPU. `tuned`: the owner's largest tuned number per category of its past jobs (None = no category).

    `given`: the job's own number (`given_cores`); it is the start as it stands.
    """
    if given:
        return given
    large = model_parameters is not None and model_parameters > LARGE_MODEL_PARAMETERS
    start = _from_past(category, tuned) - pipelined - large + heavy_between_iterations
    return max(1, start)


def given_cores(*, own: int | None, asked: int | None, exactly: bool) -> int | None:
    """The number that the job itself brings: `own`, from the tuning of an earlier attempt, else its tenant's request.

    A request `exactly` stands before both. None = nothing.
    """
    return asked if exactly and asked else own or asked


def _from_past(category: str | None, tuned: Mapping[str | None, int]) -> int:
    if category is not None and (known := tuned.get(category) or CATEGORY_CORES.get(category)):
        return known
    return max(tuned.values(), default=DEFAULT_CORES)
