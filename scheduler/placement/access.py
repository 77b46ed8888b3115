"""The part of the idle resources that a job may use, by arrays and reservations (section 4).

A node lies in a *zone*: its array and the reservations that keep it. A job's *access* names the arrays that it may use, the
reservations that bar it, and whether its cores are *limited* to those reserved for its array. The ledger knows how many of these
are left on each node. In another array a configuration has less value, by a factor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from scheduler.placement.objective import LINEAR, Gain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from scheduler.model import Configuration, Job, Ranked
    from scheduler.placement.free_capacity import Offer


class Zone(NamedTuple):
    """Where a node lies: its array ("" = not divided) and the numbers of the reservations that keep it."""

    array: str
    kept: tuple[int, ...]


class Access(NamedTuple):
    """The resources that a job may use, and the factor on a configuration that touches an array beside `home`."""

    home: str
    arrays: tuple[str, ...]
    limited: bool
    barred: frozenset[int]
    borrowed: float

    def admits(self, zone: Zone) -> bool:
        return zone.array in self.arrays and self.barred.isdisjoint(zone.kept)

    def factor(self, arrays: Iterable[str]) -> float:
        """The factor on the objective value of a configuration on nodes of these arrays."""
        return 1.0 if all(array == self.home for array in arrays) else self.borrowed


class Rules(Protocol):
    """The access rules of a planning: which job may use which resources, and the factor on its objective value."""

    @property
    def gain(self) -> Gain: ...

    def access(self, ranked: Ranked) -> Access: ...

    def zone(self, node: int) -> Zone: ...

    def factor(self, job: Job, configuration: Configuration) -> float: ...


class OfferingRules(Rules, Protocol):
    """Rules that also list each node's resources that a job may use."""

    def offers(self, ranked: Ranked) -> Sequence[Offer]: ...


OPEN = Zone("", ())
EVERYTHING = Access("", ("",), limited=False, barred=frozenset(), borrowed=1.0)


class NoRules:
    """The rules without arrays: every job may use everything, and no value is lessened."""

    gain = LINEAR

    def access(self, ranked: Ranked) -> Access:
        return EVERYTHING

    def zone(self, node: int) -> Zone:
        return OPEN

    def factor(self, job: Job, configuration: Configuration) -> float:
        return 1.0


NO_RULES = NoRules()
