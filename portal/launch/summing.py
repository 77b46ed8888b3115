"""What `./berth test` says at its end, of all runs side by side: their tests counted together, and the costliest files."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

COSTLIEST = 10
_COUNT = re.compile(r"(\d+) (failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?)")


def counts_of(output: str) -> Counter[str]:
    """Return the counts of pytest's last line, without the deselected tests: the other run counts those."""
    last = next((line for line in reversed(output.splitlines()) if _COUNT.search(line)), "")
    found = Counter({word.removesuffix("s"): int(count) for count, word in _COUNT.findall(last)})
    del found["deselected"]
    return found


def summary_of(outputs: list[str], took_s: float, *, flaky: int = 0) -> str:
    """Return one line for all runs, in pytest's form. `flaky` tests of the last one failed, and passed when run again."""
    counts = [counts_of(output) for output in outputs]
    if flaky:
        counts[-1] |= {"flaky": flaky}
        del counts[-1]["failed"], counts[-1]["error"]
    total: Counter[str] = sum(counts, Counter())
    order = ("failed", "error", "flaky", "passed", "skipped", "xfailed", "xpassed", "warning")
    plural = {"error", "warning"}
    words = [
        f"{total[name]} {name}{'s' if name in plural and total[name] != 1 else ''}" for name in order if total[name]
    ]
    return f"===== {', '.join(words) or 'no tests ran'} in {took_s:.0f} s ====="


def costs_of(folder: Path) -> list[str]:
    """Return the lines that tell which files took the most processor time, that of the processes they started included."""
    costs: Counter[str] = Counter()
    for told in folder.glob("*.json"):
        costs.update(json.loads(told.read_text(encoding="utf-8")))
    if not costs:
        return []
    most = [f"{spent_s:7.1f} s  {file}" for file, spent_s in costs.most_common(COSTLIEST)]
    return [f"processor time of the tests: {sum(costs.values()):.0f} s, most of it in", *most]
