"""What the plannings that were really made took: read from the database of a running Berth, nothing is started.

Each planning stores the seconds of its three parts; `total_s` is from load to apply. `./berth bench plannings` reads the
Berth of BERTH_DATA_DIR (the demo's plannings: at most 150 ms at the 95th percentile).
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from portal.planning.rounds.models import Planning
from research.bench.errors import BenchError
from research.bench.readiness import database_ready

TARGET_P95_S = 0.15
PARTS = ("load_s", "plan_s", "apply_s")


def plannings_measure(*, last: int) -> dict[str, Any]:
    """Return p50, p95 and maximum of the `last` applied plannings, in seconds, by part and in all."""
    if last < 1:
        raise BenchError("--last must be at least 1.")
    database_ready()
    applied = Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number")
    rows = list(applied.values_list(*PARTS, "queue_length", "placed", "replan")[:last])
    if not rows:
        raise BenchError("There is no applied planning yet; let Berth run, for example with ./berth up --demo.")
    taken = {name: [row[place] for row in rows] for place, name in enumerate(PARTS)}
    taken["total_s"] = [sum(row[: len(PARTS)]) for row in rows]
    return {
        "plannings": len(rows),
        "replans": sum(row[-1] for row in rows),
        "placed": sum(row[-2] for row in rows),
        "queue_length_max": max(row[-3] for row in rows),
        **{name: _spread(values) for name, values in taken.items()},
        "target_p95_s": TARGET_P95_S,
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {
        "p50": round(float(np.percentile(values, 50)), 4),
        "p95": round(float(np.percentile(values, 95)), 4),
        "max": round(max(values), 4),
    }


def plannings_report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    head = f"{figures['plannings']} plannings ({figures['replans']} re-plans), {figures['placed']} jobs placed, "
    rows = [head + f"at most {figures['queue_length_max']} in the queue"]
    for name in (*PARTS, "total_s"):
        own = {key: f"{1000 * value:.0f}" for key, value in figures[name].items()}
        rows.append(f"{name.removesuffix('_s'):6} p50 {own['p50']} ms, p95 {own['p95']} ms, max {own['max']} ms")
    return "\n".join([*rows, f"target: p95 of the total at most {1000 * TARGET_P95_S:.0f} ms"])
