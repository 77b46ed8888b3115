"""Why a placed job did not get more GPUs, in words: what `scheduler.explaining.larger` found."""

from __future__ import annotations

from typing import Any

from portal.jobs.models import Job


def chosen_told(chosen: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return it with who waits for the GPUs as people call it: 1044_6 of an array's task. One query at most."""
    larger = (chosen or {}).get("larger")
    if chosen is None or not larger or larger["job"] is None:
        return chosen
    waits = Job.objects.filter(pk=larger["job"]).first()  # None: it was deleted since
    return {**chosen, "larger": {**larger, "job": waits.number if waits else str(larger["job"])}}


def larger_words(chosen: dict[str, Any] | None) -> str:
    """4 GPUs rather than 8: the other 4 would add 40 % speed while job 71 waits."""
    larger = (chosen or {}).get("larger")
    if chosen is None or not larger:
        return ""
    who = f"job {larger['job']} waits" if larger["job"] is not None else "a job of another tenant waits"
    more = larger["gpus"] - chosen["gpus"]
    return (
        f"{chosen['gpus']} GPU{'s' if chosen['gpus'] > 1 else ''} rather than {larger['gpus']}: the other {more} would "
        f"add {100 * larger['adds']:.0f} % speed while {who}."
    )
