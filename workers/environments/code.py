"""A part's code: the plan of the repository's fetch, and the stage in which its shim runs it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from workers.environments import fetch
from workers.environments.plan import PlanError
from workers.system.files import write_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from workers.environments.offer import Offer


def fetch_stage(code: Mapping[str, Any], offer: Offer | None, *, room: Path, into: Path, python: str) -> dict[str, Any]:
    """Write the plan into the empty directory `room`; return the stage for `launch.json`. Raises PlanError, OSError."""
    if offer is None or offer.git is None:
        raise PlanError("this node has no git; ask its operator to install it")
    plan = {
        **code,
        "program": offer.git,
        "proxies": dict(offer.proxies),
        "into": str(into),
        "room": str(room),
        "why": str(room / "why"),
        "commit": str(room / "commit"),
    }
    write_json(room / "plan.json", plan, durable=False)
    return {
        "what": "its code",
        "argv": [python, "-I", "-S", str(Path(fetch.__file__).resolve()), str(room / "plan.json")],
        "limit_s": offer.limits.build_s,
        "disk_mib": offer.limits.one_gib * 1024,
        "entry": None,
        "why": plan["why"],
        "commit": plan["commit"],
    }
