"""Proposed policies, as the page Sharing shows them: the material that they learned from, and the judgement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.urls import reverse

from portal.foundation.errors import NotFound
from portal.pages.dashboard.parts import lines
from portal.pages.dashboard.parts.formatting import number
from portal.planning.sharing.models import Proposal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.pages.dashboard.parts.lines import Drawing

S = Proposal.State
SHOWN = 5
COLUMNS = (
    ("total_s", "Time in all", 0),
    ("slowdown", "Mean slowdown", 2),
    ("unknown_slowdown", "Beside new neighbours", 2),
    ("worst_slowdown", "Worst slowdown", 2),
    ("not_slowed", "Not slowed, of 30", 1),
    ("oom", "Out of memory", 0),
)


def proposals_context() -> dict[str, Any]:
    """Return the last proposals; the one that waits for a decision with its curve."""
    rows = list(Proposal.objects.defer("content").order_by("-pk")[:SHOWN])
    busy = any(row.state in (S.WAITING, S.TRAINING) for row in rows)
    return {
        "proposals": [_row(row) for row in rows],
        "proposal_columns": [label for _, label, _ in COLUMNS],
        "can_train": not busy,
    }


def _row(row: Proposal) -> dict[str, Any]:
    return {
        "number": row.pk,
        "state": row.state,
        "word": row.get_state_display(),
        "at": row.created_at.isoformat(),
        "who": row.asked_by_name or "it was due",
        "decided": f"by {row.decided_by_name}" if row.decided_by_name else "",
        "error": row.error,
        "record": _record(row.about),
        "judged": [
            {
                "name": name,
                "cells": [
                    number(told[name], digits) if told.get(name) is not None else "\u2013"
                    for name, _, digits in COLUMNS
                ],
            }
            for name, told in row.judged.items()
        ],
        "ready": row.state == S.READY,
        "curve": {
            "title": "Learning curve",
            "note": "mean reward of an episode, by update",
            "url": reverse("sharing-curve", args=[row.pk]),
            "topics": "never",
            "height_px": 160,
        }
        if row.curve
        else None,
    }


def _record(about: Mapping[str, Any]) -> str:
    if not about:
        return ""
    return (
        f"learned in {about['updates']} updates from {about['signatures']} kinds of jobs and {about['pairs_known']} of "
        f"{about['pairs_measured']} measured pairs; the others are for judging"
    )


def curve_figure(number_of: int) -> Drawing:
    """Return the learning curve: the mean reward of an episode by update. Raises NotFound."""
    curve = Proposal.objects.filter(pk=number_of).values_list("curve", flat=True).first()
    if not curve:
        raise NotFound("proposal")
    line = lines.line("mean reward", "plot-1", [*range(1, len(curve) + 1)], curve, end=True)
    return {"x": {"kind": "update"}, "y": {}, "lines": [line]}
