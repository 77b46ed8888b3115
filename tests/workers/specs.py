"""The specification of a part as the portal sends it to a node."""

from __future__ import annotations

from typing import Any

from tests.real_messages import SPEC


def spec_make(**changes: Any) -> dict[str, Any]:
    """What the portal tells a node about a part: one that does nothing, with these changes."""
    spec = SPEC | changes
    return {**spec, "world": {**SPEC["world"], "gpus_total": len(spec["gpus"])}, **changes}
