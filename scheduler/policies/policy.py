"""What a policy is: the order of a queue, and who of it is placed where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from scheduler.fairness.priorities import Priority
    from scheduler.parameters import Parameters
    from scheduler.placement.outcome import Outcome
    from scheduler.placement.work import Work


class Policy(Protocol):
    """The order of a queue, and which of its jobs are placed where. Everything else a planning does alike for all policies."""

    @property
    def name(self) -> str: ...

    @property
    def meaning(self) -> str: ...

    @property
    def replans(self) -> bool:
        """Whether running elastic jobs take part in its re-plans."""
        ...

    def priority(self, parameters: Parameters) -> Priority:
        """The queue's order; larger is sooner."""
        ...

    def place(self, work: Work) -> Outcome:
        """Decide who starts, stops or gets a promise; what is placed is taken from `work.ledger`. When time is up, return what
        there is; never raise for that.
        """
        ...
