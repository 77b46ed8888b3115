"""Sentences of the page Sharing: decisions on a job, and the result of a comparison."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from portal.pages.dashboard.parts.formatting import GIB_MIB, number

SAID = {
    "alone": "nobody is there",
    "fits": "what it asks for is left",
    "learned": "the learned policy would start it now",
    "uncorrelated": "uses do not rise together",
    "forecast": "the forecast leaves room",
    "measured": "measured together before",
    "memory": "too little memory is left",
    "compute": "too little compute is left",
    "apart": "kept apart after a memory failure",
    "slowed": "measured to slow each other",
    "crowded": "expected to slow each other",
    "correlated": "uses rise together",
    "unknown": "never seen to run",
    "no trend": "nothing can be forecast",
    "declined": "the learned policy would wait",
    "exceeds": "more than the GPU has",
    "little": "too little would be gained",
    "peak": "the forecast leaves too little",
    "barred": "its type, node or software",
    "node": "too few cores or memory on the node",
    "nothing": "no shared GPU takes jobs",
}
"""Each rule in a few words; the job's page has the sentence."""


def decision_row(told: dict[str, Any]) -> dict[str, Any]:
    """Return a decision's row of the table."""
    return {
        **told,
        "at": told["at"].isoformat(),
        "url": reverse("job-detail", args=[told["job"]]),
        "need": f"{told['compute'] / 10:g} %, {number(told['memory_mib'] / GIB_MIB, 1)} GiB",
        "acting": _side(told["acting"]),
        "shadow": _side(told["shadow"]),
        "measured": None if told["measured"] is None else f"{told['measured']:.2f}",
    }


def _side(side: dict[str, Any]) -> dict[str, Any]:
    figure = side["figure"]
    shown = "" if figure is None else f"{figure:.2f}" if side["rule"] == "uncorrelated" else f"{number(figure)} MiB"
    closed = ", ".join(
        f"{SAID.get(rule, rule)}: {count} GPU{'s' if count > 1 else ''}" for rule, count in side["closed"].items()
    )
    return {
        **side,
        "said": SAID.get(side["rule"], side["rule"]),
        "shown": shown,
        "closed_words": closed,
        "slowdown": None if side["slowdown"] is None else f"{side['slowdown']:.2f}",
    }


def verdict(told: dict[str, Any], limit: float | None) -> str:
    """One paragraph: how the shadow would decide, and when a change is worth a thought. Nothing changes by itself."""
    acting, shadow = told["policies"]
    if not told["asked"]:
        return "Both were asked about no job in this time."
    words = [
        (
            f"Both admit {told['both_admit']} and both refuse {told['both_refuse']} of {told['asked']}; "
            f"{acting['policy']} alone admits {told['acting_alone']}, {shadow['policy']} alone {told['shadow_alone']}."
        )
    ]
    if acting["use"] is not None and shadow["use"] is not None:
        points = shadow["use"] - acting["use"]
        more = f"{abs(points):.1f} points {'more' if points > 0 else 'less'}" if abs(points) >= 0.05 else "as much"
        words.append(f"{shadow['policy']} would use {more} of the GPUs with jobs.")
    if limit is not None and shadow["worst"] is not None and shadow["worst"] > 1 + limit:
        words.append(f"Its worst foretold slowdown, {shadow['worst']:.2f}, is above the limit of {1 + limit:.2f}.")
    if told["failed"]:
        words.append(f"It gave no answer in {told['failed']} of {told['plannings']} plannings.")
    words.append("Nothing changes by itself: sharing_policy is an operator's knob.")
    return " ".join(words)
