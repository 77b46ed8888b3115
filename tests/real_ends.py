"""A real part's report of its end. `tests/workers/controls/test_ends.py` compares it with real shims; tests of the portal and
of the client send nothing else (`Cluster.end`).
"""

from typing import Any

from tests.real_messages import REPORT_FIELDS

SIGNALS = {"stopped": 15, "time_limit": 15, "out_of_memory": 9, "gpu_memory_limit": 9, "disk_limit": 9, "lease": 15}
"""By which signal a command ends that does not listen to what is asked of it."""
UNSEEN = frozenset({"lost", "tenant_not_trusted"})
"""Nobody saw these end: there was no command, or no shim any more. Of `start_failed` there may be the code of a build."""
BASE = {name: value for name, value in REPORT_FIELDS.items() if name != "at"}
"""The fields of an end's report beside its time."""


def real_end(reason: str = "exit", *, exit_code: int | None = None, signal: int | None = None) -> dict[str, Any]:
    """Return what a part says: never both, an exit code and a signal. Without either, what mostly comes with the reason."""
    assert exit_code is None or signal is None, "a signal ends what then has no exit code"
    if reason in UNSEEN:
        return BASE | {"reason": reason}
    if exit_code is None and signal is None and reason != "start_failed":
        exit_code, signal = (0, None) if reason == "exit" else (None, SIGNALS[reason])
    return BASE | {"reason": reason, "exit_code": exit_code, "signal": signal}
