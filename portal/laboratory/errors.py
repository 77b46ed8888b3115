"""The laboratory's one error."""

from __future__ import annotations


class SimulationError(Exception):
    """Something that cannot be simulated as asked: which field, and a sentence with the remedy."""

    def __init__(self, field: str, detail: str) -> None:
        self.field, self.detail = field, detail
        super().__init__(f"{field}: {detail}")

    def __reduce__(self) -> tuple[type[SimulationError], tuple[str, str]]:
        return SimulationError, (self.field, self.detail)  # it crosses from one process to another
