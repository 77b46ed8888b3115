"""The cores with which jobs begin, in words: for the form, the import of scripts, and pages (algorithms, section 8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from portal.planning.rounds.planning.starts import Starts, starts_load
from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from portal.work.jobs.models import Job
from scheduler.estimator.cores import LARGE_MODEL_PARAMETERS, start_cores

if TYPE_CHECKING:
    from portal.people.tenants.models import User

CATEGORIES = ("cv", "nlp", "speech", "other", "")
"""As the submit form offers them for GPU jobs; the empty one: none is said."""


def starts_now(owner_ids: Iterable[int]) -> Starts:
    """Read the start rule's facts of these owners' jobs. Two queries beside the knobs'."""
    return starts_load(scheduler_parameters(knobs_current()), owner_ids=owner_ids)


def cores_effects(user: User) -> dict[str, str]:
    """Return the effect of each hint on the cores a GPU that a job of the user starts with (algorithms, section 8)."""
    starts = starts_now([user.pk])
    tuned = starts.tuned.get(user.pk, {})
    effects = {f"category:{name}": _start_words(name or None, tuned) for name in CATEGORIES}
    base, plain = start_cores(category=None, tuned=tuned), start_cores(category=None, tuned={})
    changes = {
        "pipelined": start_cores(category=None, tuned={}, pipelined=True) - plain,
        "heavy": start_cores(category=None, tuned={}, heavy_between_iterations=True) - plain,
    }
    effects |= {name: f"{change:+d} core".replace("-", "\u2212") for name, change in changes.items()}
    effects["parameters"] = f"Above {LARGE_MODEL_PARAMETERS / 1e6:g} M it starts with one core per GPU less."
    empty = f"Empty: by the hints, {base} without any."
    told = "Berth begins with its own number and tunes it, unless you say exactly." if starts.tuning else empty
    return effects | {"cores_per_gpu": told}


def _start_words(category: str | None, tuned: Mapping[str | None, int]) -> str:
    cores = start_cores(category=category, tuned=tuned)
    past = ", as your earlier jobs" if category in tuned or (category is None and tuned) else ""
    return f"{cores} core{'s' if cores != 1 else ''} a GPU{past}"


def cores_wanted_of(jobs: Iterable[Job]) -> dict[int, int]:
    """Return how many cores each job would get at its smallest size. Two queries beside the knobs'."""
    jobs = list(jobs)
    starts = starts_now({job.owner_id for job in jobs})
    return {job.pk: starts.cores(job) * max(1, job.gpus[0]) for job in jobs}


def begins_words(job: Job, starts: Starts) -> str | None:
    """Return with how many cores a GPU job begins, beside what it asked; None where nobody would change what it asked."""
    if list(job.gpus) == [0] or not starts.corrects(job):
        return None
    asked = f"asked {job.cores_per_gpu} a GPU; " if job.cores_per_gpu else ""
    return f"{asked}it begins with {starts.cores(job)}{'' if asked else ' a GPU'} and is tuned"


def import_starts(user: User) -> Callable[[Mapping[str, Any]], int]:
    """Return a function of a description of the user's: the cores a GPU with which its job would begin."""
    starts = starts_now([user.pk])

    def begins(description: Mapping[str, Any]) -> int:
        gpus, types = description["gpus"], list(description.get("gpu_types") or ())
        sizes = list(gpus) if isinstance(gpus, list) else [gpus]
        return starts.cores(
            Job(owner_id=user.pk, gpus=sizes, gpu_types=types, cores_per_gpu=description["cores_per_gpu"])
        )

    return begins
