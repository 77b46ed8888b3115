"""Which paths below a folder match one of several patterns, asked name by name on the way down.

A folder's state holds how far each pattern has come, so each name is compared once for each such place, however the pattern is
written: nothing is tried again. A walk asks no more than a set number of times.
"""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Places = frozenset[tuple[int, int]]

MOST_COMPARED = 4_000_000
"""Most comparisons of names with patterns in one walk: thirty patterns, and all names of a walk."""
ANY = "**"


class Patterns:
    """Patterns such as `out/*.pt`; `**` stands for any number of folders. `compared`: how often they were asked so far."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [pattern.split("/") for pattern in patterns]
        self._compiled: dict[str, Callable[[str], object]] = {}
        self.compared = 0
        self.begin = self._close((number, 0) for number in range(len(self._patterns)))

    @property
    def is_tired(self) -> bool:
        return self.compared > MOST_COMPARED

    def into(self, places: Places, name: str) -> Places:
        """Return where the patterns stand below `name`, from where they stood in the folder that has it."""
        found = []
        for number, place in places:
            pattern = self._patterns[number]
            if place == len(pattern):
                continue
            if pattern[place] == ANY:
                found.append((number, place))
                continue
            self.compared += 1
            if (compiled := self._compiled.get(pattern[place])) is None:
                compiled = self._compiled[pattern[place]] = re.compile(translate(pattern[place])).match
            if compiled(name) is not None:
                found.append((number, place + 1))
        return self._close(found)

    def is_match(self, places: Places) -> bool:
        return any(place == len(self._patterns[number]) for number, place in places)

    def may_lead(self, places: Places) -> bool:
        return any(place < len(self._patterns[number]) for number, place in places)

    def _close(self, places: Iterable[tuple[int, int]]) -> Places:
        """`**` stands for no folder as well."""
        found = set()
        for number, place in places:
            pattern, at = self._patterns[number], place
            found.add((number, at))
            while at < len(pattern) and pattern[at] == ANY:
                at += 1
                found.add((number, at))
        return frozenset(found)
