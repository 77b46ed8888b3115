"""Contexts of the laboratory's pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.http import QueryDict
from django.urls import reverse

from portal.foundation.errors import BerthError, NotFound
from portal.pages.dashboard.parts.formatting import duration, number
from portal.pages.laboratory.checking import LONE_FORMATS
from portal.pages.laboratory.live import MOST_FOLLOWED, stream_of
from portal.pages.laboratory.models import LabTrace, SharedWith, Simulation
from portal.pages.laboratory.orders import HERE
from portal.pages.laboratory.pages import form
from portal.pages.laboratory.pages.answers import answer_context
from portal.pages.laboratory.run.answer import Size, size_of
from portal.pages.laboratory.selectors import (
    SHOWN,
    cluster_described,
    simulations_ahead,
    simulations_chosen,
    simulations_for,
    simulations_listed,
    traces_listed,
)
from portal.pages.laboratory.services import OPEN
from portal.people.tenants.selectors import tenants_of
from portal.planning.rounds.settings.knobs import knobs_current
from scheduler.errors import InvalidParameter
from scheduler.parameters import PARAMETERS

if TYPE_CHECKING:
    from portal.people.tenants.models import User


def jobs_words(simulation: Simulation) -> str:
    if simulation.trace is not None:
        return f"{simulation.trace.name}, {simulation.trace.jobs} jobs"
    return f"{simulation.generator}, {simulation.generated_jobs} jobs drawn"


def cluster_words(cluster: Mapping[str, Any]) -> str:
    """3 nodes, 24 GPUs."""
    groups = cluster.get("nodes") or []
    counts = [(each.get("count", 1), _gpus(each.get("gpus", 0))) for each in groups]
    size = Size(sum(count for count, _ in counts), sum(count * gpus for count, gpus in counts))
    return size_words(size) if groups else "no node yet"


def _gpus(told: int | dict[str, int]) -> int:
    return sum(told.values()) if isinstance(told, dict) else told


def span_words(span_s: float) -> str:
    """2.5 h, or 12 min."""
    return f"{number(span_s / 3600, 1)} h" if span_s >= 3600 else f"{number(span_s / 60, 0)} min"


def size_words(size: Size) -> str:
    nodes, gpus = size
    return f"{nodes} node{'s' if nodes != 1 else ''}, {gpus} GPU{'s' if gpus != 1 else ''}"


MOST_COMPARED = 6
STATES = {"QUEUED": ("PENDING", "Queued")}
"""Shown as a job's states are; a waiting one is queued."""


def list_context(user: User) -> dict[str, Any]:
    rows = [row_of(each, user) for each in simulations_listed(user)]
    return {"rows": rows, "most_compared": MOST_COMPARED, "cut_at": SHOWN if len(rows) == SHOWN else None}


def streams_listed(user: User) -> list[str]:
    """Return the streams that the list follows: of simulations that have not ended, the next ones first."""
    open_ = simulations_for(user=user).filter(state__in=OPEN).order_by("pk").values_list("pk", flat=True)
    return [stream_of(number) for number in open_[:MOST_FOLLOWED]]


def row_of(simulation: Simulation, user: User) -> dict[str, Any]:
    fractions = [simulation.progress.get(name, 0.0) for name in simulation.policies]
    return {
        "number": simulation.pk,
        "name": simulation.name,
        "url": reverse("laboratory-detail", args=[simulation.pk]),
        "state": simulation.state,
        "shown": STATES.get(simulation.state, (simulation.state, None)),
        "open": simulation.is_open,
        "percent": round(100 * sum(fractions) / max(1, len(fractions))),
        "what": jobs_words(simulation),
        "cluster": simulation.cluster_name,
        "policies": ", ".join(simulation.policies),
        "tenant": simulation.tenant.name,
        "owner": simulation.owner.username,
        "own": simulation.owner_id == user.pk,
        "shared": simulation.get_shared_with_display() if simulation.shared_with != SharedWith.OWNER else None,
        "at": simulation.created_at.isoformat(),
        "comparable": simulation.state == Simulation.State.COMPLETED,
    }


def new_context(
    user: User,
    post: QueryDict | None = None,
    error: BerthError | None = None,
    *,
    again: Simulation | None = None,
    trace: LabTrace | None = None,
    asked: QueryDict | None = None,
) -> dict[str, Any]:
    """Return the form: empty, as typed with the `error` after a refusal, as asked before (`again`), or for a `trace`.

    `asked`: filled in by a link, such as the console's *Try on last week*.
    """
    typed = _fill(post or asked, again, trace)
    knobs = knobs_current()
    return {
        "typed": BLANK | typed,
        "traces": [
            {"value": f"trace:{each.pk}", "label": f"{each.name}: {each.jobs} jobs in {span_words(each.span_s)}"}
            for each in traces_listed(user)
        ],
        "generators": form.generator_choices(),
        "policies": form.policy_choices(_policies(post or asked, again)),
        "knobs": form.knob_fields(typed),
        "tenants": [each.name for each in tenants_of(user)],
        "here": cluster_words(cluster_described(user=user)),
        "limits": {
            name.removeprefix("laboratory_"): value for name, value in knobs.items() if name.startswith("laboratory_")
        },
        "error": error,
        "error_field": _field_of(error),
        "knobs_open": (error is not None and error.field in form.FOLDED) or (asked is not None and error is None),
    }


def _fill(post: QueryDict | None, again: Simulation | None, trace: LabTrace | None) -> dict[str, str]:
    """Return the texts of the form's fields that are not blank: as posted, else of a trace, else as asked before."""
    if post is not None:
        return dict(post.dict())
    if trace is not None:
        return {"name": trace.name, "source": f"trace:{trace.pk}", "tenant": trace.tenant.name}
    return dict(form.typed_of(again)) if again else {}


def _policies(post: QueryDict | None, again: Simulation | None) -> Sequence[str]:
    """Return the policies that are ticked."""
    if post is not None:
        return list(post.getlist("policies"))
    return list(again.policies) if again else ["berth", "hops", "drf", "fifo"]


def _field_of(error: BerthError | None) -> str | None:
    """Return the name of the form's field that is wrong; for a knob, the field of that knob."""
    if error is not None and isinstance(error.__cause__, InvalidParameter):
        return f"knob_{error.__cause__.key}"
    field = None if error is None else error.field
    return f"knob_{field}" if field in {each.name for each in PARAMETERS} else field


EXAMPLE = """nodes:
  - {count: 8, gpu_type: A100, gpus: 8, cores: 64, memory_gib: 512}
  - {count: 4, cores: 64, memory_gib: 256}
gpu_types:
  A100: {speed: 1.0}
"""
BLANK = {"name": "", "days": "7", "jobs": "", "seed": "1", "until_h": "", "cluster": HERE, "description": EXAMPLE}
"""The values of a new form's fields."""


def detail_context(simulation: Simulation, user: User) -> dict[str, Any]:
    return {
        "simulation": simulation,
        "row": row_of(simulation, user),
        "sharing": [{"value": value, "label": label} for value, label in SharedWith.choices],
        "facts": _facts(simulation),
        **progress_context(simulation),
        "jobs": simulation.trace.jobs if simulation.trace else simulation.generated_jobs,
        "took": duration((simulation.ended_at - simulation.started_at).total_seconds())
        if simulation.ended_at and simulation.started_at
        else None,
        **(answer_context([simulation]) if simulation.state == Simulation.State.COMPLETED else {}),
    }


def progress_context(simulation: Simulation) -> dict[str, Any]:
    """Return how far each policy is, and how many simulations are before one that waits."""
    return {
        "simulation": simulation,
        "bars": [
            {"policy": name, "percent": round(100 * simulation.progress.get(name, 0.0))} for name in simulation.policies
        ],
        "ahead": simulations_ahead(simulation) if simulation.state == Simulation.State.QUEUED else 0,
    }


def _facts(simulation: Simulation) -> list[dict[str, Any]]:
    knobs = ", ".join(f"{name} = {value}" for name, value in sorted(simulation.knobs.items())) or "all at their default"
    cut = f"after {simulation.until_h:g} h" if simulation.until_h else "when all jobs have ended"
    return [
        {"label": "Jobs", "value": jobs_words(simulation)},
        {
            "label": "Cluster",
            "value": simulation.cluster_name,
            "note": size_words(size_of(simulation)),
        },
        {"label": "Knobs", "value": knobs},
        {"label": "Seed", "value": str(simulation.seed)},
        {"label": "Ends", "value": cut},
        {
            "label": "Asked by",
            "value": f"{simulation.owner.username} of {simulation.tenant.name}",
            "at": simulation.created_at.isoformat(),
        },
    ]


def chosen_of(user: User, numbers: Sequence[int]) -> list[Simulation]:
    """Return the simulations to compare. Raises BerthError for too many or too few, NotFound when one is hidden."""
    if not 2 <= len(set(numbers)) <= MOST_COMPARED:
        raise BerthError("invalid", f"Choose 2 to {MOST_COMPARED} simulations that have completed.", field="run")
    chosen = simulations_chosen(user, numbers)
    if len(chosen) != len(set(numbers)):
        raise NotFound("simulation")
    return chosen


def compare_context(user: User, numbers: Sequence[int]) -> dict[str, Any]:
    """Return several simulations side by side."""
    chosen = chosen_of(user, numbers)
    return {
        "chosen": [{"row": row_of(each, user), "facts": _facts(each)} for each in chosen],
        **answer_context(chosen),
    }


def traces_context(
    user: User, typed: Mapping[str, str] | None = None, error: BerthError | None = None
) -> dict[str, Any]:
    return {
        "traces": [(each, span_words(each.span_s)) for each in traces_listed(user)],
        "formats": [
            {
                "name": each.name,
                "words": each.meaning.partition(":")[0].rstrip("."),
                "meaning": each.meaning.replace("`", ""),
                "columns": [(column.name, column.unit, column.meaning.replace("`", "")) for column in each.columns],
                "chosen": (typed or {}).get("format") == each.name,
            }
            for each in LONE_FORMATS.values()
        ],
        "tenants": [each.name for each in tenants_of(user)],
        "sharing": [{"value": value, "label": label} for value, label in SharedWith.choices],
        "typed": {"name": "", "format": "", "days": "7", **(typed or {})},
        "limits": knobs_current(),
        "error": error,
    }
