"""The error of a simulation that cannot be run as described."""

from __future__ import annotations


class SimulationError(ValueError):
    """What is wrong with a job, a world or a policy, and what would be right."""
