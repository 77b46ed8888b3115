"""Neighbouring GPU cells that belong together, so that a job's name stands once under its cells."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from portal.pages.dashboard.parts.context import GpuCell, GpuGroup


class Holder(NamedTuple):
    """Who has a GPU, as this reader may see it; an idle GPU's caption says for how long."""

    caption: str
    job_id: int | str | None = None
    job_url: str | None = None
    note: str | None = None


def group_cells(cells: Iterable[tuple[GpuCell, Holder]]) -> list[GpuGroup]:
    """Fold cells, in order of GPU index, into groups of neighbours with an equal holder.

    A job on GPUs 0, 1 and 5 makes two groups: a caption stands under the cells it names.
    """
    groups: list[GpuGroup] = []
    for holder, members in groupby(cells, key=lambda pair: pair[1]):
        group: GpuGroup = {
            "cells": [cell for cell, _ in members],
            "caption": holder.caption,
            "job_id": holder.job_id,
            "job_url": holder.job_url,
            "note": holder.note,
        }
        groups.append(group)
    return groups
