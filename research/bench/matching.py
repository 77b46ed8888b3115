"""`./berth bench log-match`: what it costs to look through a log for the texts that its job names."""

from __future__ import annotations

import json
import time
from typing import Any

from portal.work.jobs.services.logs import CHUNK_BYTES
from portal.work.notifications.matches import Tail, lines_find

LINE = b"step 12345 epoch 3 loss 0.51234 lr 0.0001 tokens/s 12345.6 mem 10.2G\n"
TEN_GB = 10e9
CASES: dict[str, tuple[tuple[str, ...], bytes]] = {
    "three texts that no line has": (("out of memory", "nan loss", "Traceback"), LINE),
    "a text that each line has": (("loss",), LINE),
    "two pieces, the first in each line": (("loss * nan",), LINE),
    "hostile: three patterns, lines of two letters": (("aa*b", "aa*c", "aa*d"), b"aa\n"),
    "hostile: one line of one letter": (("a" * 199 + "b", "b" + "a" * 198, "a*a*a*a*b"), b"a"),
}
"""By name: the patterns, and what the log consists of."""


def matching_measure(*, repeat: int) -> dict[str, Any]:
    """Return processor time in ms of one piece of the largest size: the least of `repeat` runs, for each case."""
    rows = []
    for name, (patterns, line) in CASES.items():
        piece = (line * (CHUNK_BYTES // len(line) + 1))[:CHUNK_BYTES]
        least_s = min(_once(patterns, piece) for _ in range(repeat))
        rows.append(
            {"case": name, "piece_ms": round(1000 * least_s, 3), "ten_gb_s": round(TEN_GB / CHUNK_BYTES * least_s, 1)}
        )
    return {"piece_bytes": CHUNK_BYTES, "rows": rows}


def _once(patterns: tuple[str, ...], piece: bytes) -> float:
    began_s = time.process_time()
    lines_find(patterns, Tail(), piece)
    return time.process_time() - began_s


def matching_report(figures: dict[str, Any], *, as_json: bool) -> str:
    if as_json:
        return json.dumps(figures)
    head = f"{'processor time':48} {'ms a piece':>10} {'s for 10 GB':>12}"
    return "\n".join([head, *(f"{r['case']:48} {r['piece_ms']:10.3f} {r['ten_gb_s']:12.1f}" for r in figures["rows"])])
