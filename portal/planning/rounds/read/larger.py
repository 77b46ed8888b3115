"""Why a placed job did not get more GPUs, in words: what `scheduler.explaining.larger` found."""

from __future__ import annotations

from typing import Any

from portal.work.jobs.models import Job


def larger_sentence(chosen: dict[str, Any] | None) -> str | None:
    """4 GPUs rather than 8: the other 4 would add 40 % speed while job 71 waits. None: nobody waits for them."""
    larger = (chosen or {}).get("larger")
    if chosen is None or not larger:
        return None
    who = f"job {_number(larger['job'])} waits" if larger["job"] is not None else "a job of another tenant waits"
    more = larger["gpus"] - chosen["gpus"]
    return (
        f"{chosen['gpus']} GPU{'s' if chosen['gpus'] > 1 else ''} rather than {larger['gpus']}: the other {more} would "
        f"add {100 * larger['adds']:.0f} % speed while {who}."
    )


def _number(job: int) -> str:
    """What people call it: 1044_6 for an array's task. One that is gone keeps its id."""
    found = Job.objects.filter(pk=job).only("pk", "array_id", "array_index").first()
    return found.number if found else str(job)
