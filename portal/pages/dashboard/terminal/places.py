"""How many terminals and forwarded ports are open at this portal process: of each person, and in each part of a job."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from portal.foundation.environment import env

if TYPE_CHECKING:
    from portal.pages.dashboard.terminal.rights import Place


class Places:
    def __init__(self) -> None:
        self._of_people: Counter[int] = Counter()
        self._in_parts: Counter[tuple[str, int]] = Counter()

    def take(self, user_id: int, place: Place) -> str | None:
        """Count a new one; where there are the most allowed already, count none and return a sentence that says so."""
        if self._of_people[user_id] >= (most := env("BERTH_TERMINALS_PER_USER")):
            return f"You have {most} terminals and forwarded ports open, which is the most. Close one."
        if self._in_parts[_part(place)] >= (most := env("BERTH_TERMINALS_PER_PART")):
            return f"This part of the job has {most} terminals and forwarded ports open, which is the most. Close one."
        self._of_people[user_id] += 1
        self._in_parts[_part(place)] += 1
        return None

    def give(self, user_id: int, place: Place) -> None:
        self._of_people[user_id] -= 1
        self._in_parts[_part(place)] -= 1
        self._of_people += Counter()  # forgets what is zero
        self._in_parts += Counter()


def _part(place: Place) -> tuple[str, int]:
    return f"{place.asked['attempt']}-{place.asked['epoch']}", place.asked["rank"]


PLACES = Places()
