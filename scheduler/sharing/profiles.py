"""Profiles of many signatures at once: a thousand of them one by one take as long as all that is decided by them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from scheduler.sharing.model import MEASURES, Profile, percentile_place
from scheduler.sharing.series import LEAST_SAMPLES, Floats

Uses = Mapping[str, Mapping[str, Sequence[float]]]

AT_ONCE = 128
"""This number of signatures is read together: more no longer fit into a processor's cache."""


def profiles_of(uses: Uses) -> dict[str, Profile]:
    """Return by signature what it used; without those of which nothing, or nothing that could be compared, was recorded."""
    by_length: dict[int, list[str]] = defaultdict(list)
    for name, use in uses.items():
        lengths = {len(use.get(measure, ())) for measure in MEASURES}
        if len(lengths) == 1 and (length := lengths.pop()) >= LEAST_SAMPLES:
            by_length[length].append(name)
    blocks = (names[at : at + AT_ONCE] for names in by_length.values() for at in range(0, len(names), AT_ONCE))
    return {name: profile for names in blocks for name, profile in _of_one_length(names, uses)}


def _of_one_length(names: Sequence[str], uses: Uses) -> Iterable[tuple[str, Profile]]:
    try:
        rows = [uses[name][measure] for name in names for measure in MEASURES]
        block = np.fromiter(chain.from_iterable(rows), np.float64).reshape(len(names), len(MEASURES), -1)
    except (TypeError, ValueError):  # one of them holds what is no number: only that one is left out
        return [each for name in names if len(names) > 1 for each in _of_one_length([name], uses)]
    sound = (block.min(axis=(1, 2)) >= 0) & (block.max(axis=(1, 2)) < np.inf)  # neither for NaN
    high, busy = _high(block[:, 0]), block[:, 1].mean(axis=1).tolist()
    return [
        (name, Profile.of_rows(rows, next(iter(uses[name].get("seconds", ())), None), mib, part))
        for name, rows, mib, part, is_sound in zip(names, block, high, busy, sound.tolist(), strict=True)
        if is_sound
    ]


def _high(memory: Floats) -> list[int]:
    """Return each row's percentile that a batch job is provisioned with, as `Profile.harvested_mib` does."""
    values = np.sort(memory, axis=1)
    low, part = percentile_place(values.shape[1])
    below, above = values[:, low], values[:, min(low + 1, values.shape[1] - 1)]
    with np.errstate(invalid="ignore"):
        found = np.ceil(below + (above - below) * part)
    return [int(each) if np.isfinite(each) else 0 for each in found.tolist()]
