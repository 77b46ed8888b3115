"""Rules by number, as arrays hold them: by which an asker joins a GPU, or which keeps it away."""

from __future__ import annotations

import numpy as np

from scheduler.sharing.model import Rule
from scheduler.sharing.series import Flags, Numbers

NUMBERS: dict[Rule, int] = {rule: number for number, rule in enumerate(Rule)}
BY_NUMBER: tuple[Rule, ...] = tuple(Rule)
WORDS: tuple[str, ...] = tuple(map(str, Rule))
LAST_ADMITTING = NUMBERS[Rule.MEASURED]
"""Rules that let an asker in come first."""


def admitting(rules: Numbers) -> Flags:
    """Return where a rule lets the asker in. Shape as given."""
    found: Flags = rules <= LAST_ADMITTING
    return found


def closing(rules: Numbers) -> dict[str, int]:
    """Return how many GPUs each rule keeps the asker away from, the most first."""
    counts = np.bincount(rules).tolist()[LAST_ADMITTING + 1 :]
    found = [(WORDS[number], count) for number, count in enumerate(counts, LAST_ADMITTING + 1) if count]
    return dict(sorted(found, key=lambda item: (-item[1], item[0])))
