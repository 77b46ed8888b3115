"""The error of a simulation that cannot be run as described."""

from __future__ import annotations


class SimulationError(ValueError):
    """It names the fault of a job, a world or a policy, and the remedy."""
