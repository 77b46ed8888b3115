"""The laboratory's errors."""

from __future__ import annotations

from portal.foundation.errors import BerthError


class SimulationError(Exception):
    """Something that cannot be simulated as asked: which field, and a sentence with the remedy."""

    def __init__(self, field: str, detail: str) -> None:
        self.field, self.detail = field, detail
        super().__init__(f"{field}: {detail}")

    def __reduce__(self) -> tuple[type[SimulationError], tuple[str, str]]:
        return SimulationError, (self.field, self.detail)  # it crosses from one process to another


class CurvesError(BerthError):
    """The stored curves of a simulation cannot be read. Code curves_unreadable."""

    def __init__(self, number: int) -> None:
        detail = (
            f"The curves of simulation {number} cannot be read any more: what is stored of them is damaged. Its figures "
            "are kept. Ask for the same simulation again to have both: the same input gives the same answer."
        )
        super().__init__("curves_unreadable", detail, status=410)
