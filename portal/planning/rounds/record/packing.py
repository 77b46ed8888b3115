"""Decisions written: columns of numbers and a head, packed as one value."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from scheduler.model import Decision, Plan, Reason, Result, Side

COLUMNS = {
    "job": np.int64,
    "rank": np.int32,
    "turn": np.int32,
    "latency_ratio": np.float32,
    "age_s": np.float64,
    "binding": np.uint32,
    "result": np.uint8,
    "reason": np.uint8,
    "array": np.uint8,
    "side": np.uint8,
    "eligible": np.uint8,
    "source": np.uint8,
    "detail": np.uint32,
}


RESULTS = [str(result) for result in Result]


REASONS = ["", *(str(reason) for reason in Reason)]


SIDES = ["", *(str(side) for side in Side)]


def binding_node(decision: Decision) -> str:
    """Return the node whose resource binds the best rejected candidate; empty when none does."""
    binding = decision.figures.get("binding")
    return str(binding.get("node") or "") if isinstance(binding, dict) else ""


def _pack_text(texts: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    known: dict[str, int] = {}
    codes = [known.setdefault(text, len(known)) for text in texts]
    return np.array(codes, dtype=np.uint8), list(known)


class Columns(NamedTuple):
    """A plan's decisions as columns (`detail` not among them), with the words behind `array` and `source`."""

    values: dict[str, np.ndarray]
    arrays: list[str]
    sources: list[str]


def columns_of(decisions: Sequence[Decision]) -> Columns:
    """Return a plan's decisions as columns."""
    standings = [each.standing for each in decisions]
    arrays, array_words = _pack_text([each.array if each else "" for each in standings])
    sources, source_words = _pack_text([each.age_source for each in decisions])
    sides = {word: code for code, word in enumerate(SIDES)}
    values = {
        **_numbers(decisions),
        **_codes(decisions),
        "turn": _column("turn", ((each.turn or 0) if each else 0 for each in standings), len(decisions)),
        "side": _column("side", (sides[each.side] if each else 0 for each in standings), len(decisions)),
        "array": arrays,
        "source": sources,
    }
    return Columns(values, array_words, source_words)


def _numbers(decisions: Sequence[Decision]) -> dict[str, np.ndarray]:
    count, nan = len(decisions), float("nan")
    ratios = (nan if each.latency_ratio is None else each.latency_ratio for each in decisions)
    waits_s = (nan if each.latency_ratio is None else each.wait_s for each in decisions)
    return {
        "job": _column("job", (each.job for each in decisions), count),
        "rank": _column("rank", (each.rank or 0 for each in decisions), count),
        "latency_ratio": _column("latency_ratio", ratios, count),
        "age_s": _column("age_s", (nan if each.age_s is None else each.age_s for each in decisions), count),
        "wait_s": np.fromiter(waits_s, np.float64, count),
    }


def _codes(decisions: Sequence[Decision]) -> dict[str, np.ndarray]:
    count = len(decisions)
    results, reasons = ({word: code for code, word in enumerate(each)} for each in (RESULTS, REASONS))
    return {
        "binding": _column("binding", (zlib.crc32(binding_node(each).encode()) for each in decisions), count),
        "result": _column("result", (results[each.result] for each in decisions), count),
        "reason": _column("reason", (reasons[each.reason or ""] for each in decisions), count),
        "eligible": _column("eligible", (each.eligible for each in decisions), count),
    }


def _column(name: str, values: Iterable[Any], count: int) -> np.ndarray:
    return np.fromiter(values, dtype=COLUMNS[name], count=count)


def head_of(made: Plan, arrays: list[str], sources: list[str]) -> dict[str, Any]:
    return {
        "count": len(made.decisions),
        "arrays": arrays,
        "sources": sources,
        "windows": [asdict(each) for each in made.windows],
        "shares": [asdict(each) for each in made.shares],
        "reservations": [asdict(each) for each in made.reservations],
        "blocking": [[each.job, each.tenant] for each in made.blocking],
        "placements": {
            str(d.job): [
                {"node": each.node, "gpus": list(each.gpus), "cores": len(each.cores), "memory_mib": each.memory_mib}
                for each in d.placement.pieces
            ]
            for d in made.decisions
            if d.placement is not None
        },
    }
