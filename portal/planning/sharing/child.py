"""The process in which a shadow decides, started by its path: Python, numpy and the core, without Django.

It reads questions from its parent and answers one after the other; a hang or a crash in it is its own. Each message is its
length in eight bytes, then the content: pickled by the parent, as JSON back.
"""

from __future__ import annotations

import json
import os
import pickle
import resource
import sys
import time
import traceback
from pathlib import Path
from typing import Any

MOST_BYTES = 2 * 2**30
"""The limit of its memory."""
LATER = 10
"""Its niceness above the planner's."""
TOLD = 400
"""The most letters of an error that are passed on."""


def main() -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    os.nice(LATER)
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    given, answers = sys.stdin.buffer, sys.stdout.buffer
    while len(head := given.read(8)) == 8:
        content = json.dumps(answer(given.read(int.from_bytes(head, "big")))).encode()
        answers.write(len(content).to_bytes(8, "big") + content)
        answers.flush()


def answer(content: bytes) -> dict[str, Any]:
    """Return the comparison, with the processor time; or `error`."""
    from scheduler.planning.shadowing import compared

    began_s = time.process_time()
    try:
        sharing = pickle.loads(content)  # noqa: S301 - it comes from the process that started this one
        found = compared(sharing.asked, sharing)
    except Exception as error:  # noqa: BLE001 - passed on, and shown to the operator
        traceback.print_exc()
        found = {"error": f"{type(error).__name__}: {error}"[:TOLD]}
    return found | {"cpu_ms": 1000 * (time.process_time() - began_s)}


if __name__ == "__main__":
    main()
