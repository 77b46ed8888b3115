"""The learning rate of a job at the size that it runs with."""

import math
from typing import Any


def learning_rate_at(description: Any, gpus: int) -> float | None:
    """Return the learning rate for `gpus` GPUs, None when none was given; also takes a Job (algorithms, section 1)."""
    rate = description.learning_rate
    if not rate:
        return None
    if "value" not in rate:
        value = rate.get(str(gpus))
        return None if value is None else float(value)
    scale = gpus / rate["at"]
    return float(rate["value"] * {"linear": scale, "sqrt": math.sqrt(scale), "none": 1.0}[rate["rule"]])
