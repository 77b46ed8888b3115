"""A planning's decisions, packed into one value a planning and read back; foreign ones made anonymous."""

from __future__ import annotations

import json
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.rounds.models import Planning
    from scheduler.model import Decision, Plan


def decisions_pack(made: Plan) -> bytes:
    """Return zlib over a JSON list, one object a job, in queue order."""
    return zlib.compress(json.dumps([_as_dict(d) for d in made.decisions], separators=(",", ":")).encode())


def _as_dict(decision: Decision) -> dict[str, Any]:
    placement = None
    if decision.placement is not None:
        placement = [
            {"node": piece.node, "gpus": list(piece.gpus), "cores": len(piece.cores), "memory_mib": piece.memory_mib}
            for piece in decision.placement.pieces
        ]
    return {
        "job": decision.job,
        "result": str(decision.result),
        "reason": str(decision.reason) if decision.reason else None,
        "figures": dict(decision.figures),
        "rank": decision.rank,
        "latency_ratio": decision.latency_ratio,
        "wait_s": decision.wait_s,
        "age_s": decision.age_s,
        "age_source": decision.age_source,
        "inside_window": decision.inside_window,
        "eligible": decision.eligible,
        "placement": placement,
    }


def decisions_unpack(planning: Planning) -> list[dict[str, Any]]:
    packed = bytes(planning.decisions)
    return json.loads(zlib.decompress(packed)) if packed else []
