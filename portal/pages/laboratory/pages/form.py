"""The laboratory's form <-> an order: its fields, their text, and the meaning."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from portal.foundation.checks import quoted
from portal.foundation.errors import BerthError
from portal.pages.laboratory.checking import SimulationOrder
from portal.pages.laboratory.orders import DESCRIBED, HERE, OWN, cluster_chosen, knobs_away
from portal.pages.laboratory.selectors import trace_get
from portal.pages.laboratory.services import history_add
from portal.pages.laboratory.sources.generators import GENERATORS
from portal.planning.rounds.settings.knobs import knobs_current
from scheduler.parameters import PARAMETERS
from scheduler.policies.registry import POLICIES
from scheduler.simulator.rivals import RIVALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from django.http import QueryDict

    from portal.pages.laboratory.models import Simulation
    from portal.people.tenants.models import Tenant, User

HISTORY = "history"
"""The source that is this cluster's last days."""
FOLDED = {"seed", "until_h", "knobs", *(each.name for each in PARAMETERS)}
"""The fields that the form shows when asked to, or when one of them is wrong."""


def order_of(post: QueryDict, *, user: User, tenant: Tenant) -> SimulationOrder:
    """Return the form's order. Raises BerthError naming the field that cannot be read.

    The cluster's last days are kept as a trace: call it in the transaction that makes the simulation.
    """
    source = post.get("source", "")
    kind, _, value = source.partition(":")
    trace = trace_get(user=user, number=whole(value, "source")) if kind == "trace" else None
    if kind == HISTORY:
        trace = history_add(user=user, tenant=tenant, days=number(post.get("days", ""), "days"), name="")
    cluster, cluster_name = cluster_chosen(
        choice=post.get("cluster", HERE), description=post.get("description", ""), user=user
    )
    return SimulationOrder(
        name=post.get("name", ""),
        policies=post.getlist("policies"),
        trace=trace,
        generator=value if kind == "generator" else "",
        generated_jobs=whole(post.get("jobs") or "", "jobs") if kind == "generator" else None,
        cluster=cluster,
        cluster_name=cluster_name,
        knobs=knobs_of(post),
        seed=whole(post.get("seed") or "1", "seed"),
        until_h=number(post["until_h"], "until_h") if post.get("until_h", "").strip() else None,
    )


def knobs_of(post: QueryDict) -> dict[str, Any]:
    """Return the typed knobs that differ from their defaults. The form shows the operator's present values."""
    found: dict[str, Any] = {}
    for parameter in PARAMETERS:
        text = post.get(f"knob_{parameter.name}", "").strip()
        if parameter.name == "policy" or not text:
            continue
        value: Any = text
        if not parameter.choices:
            value = number(text, parameter.name)
            value = int(value) if isinstance(parameter.default, int) and value == int(value) else value
        found[parameter.name] = value
    return knobs_away(found)


def typed_of(simulation: Simulation) -> dict[str, str]:
    """Return the form as it was filled in for that simulation, with its cluster described as it was then."""
    drawn = simulation.trace_id is None
    knobs = {each.name: simulation.knobs.get(each.name, each.default) for each in PARAMETERS if each.name != "policy"}
    return {
        "name": simulation.name,
        "tenant": simulation.tenant.name,
        "source": f"generator:{simulation.generator}" if drawn else f"trace:{simulation.trace_id}",
        "jobs": _show(simulation.generated_jobs),
        "cluster": DESCRIBED if simulation.cluster else OWN,
        **({"description": simulation.cluster} if simulation.cluster else {}),
        "seed": _show(simulation.seed),
        "until_h": _show(simulation.until_h),
        **{f"knob_{name}": _show(value) for name, value in knobs.items()},
    }


MOST_DIGITS = 40


def whole(text: str, field: str) -> int:
    try:
        return int(_short(text))
    except ValueError:
        raise BerthError("invalid", f"{quoted(text)} is not a whole number.", field=field) from None


def number(text: str, field: str) -> float:
    try:
        found = float(_short(text))
    except ValueError:
        raise BerthError("invalid", f"{quoted(text)} is not a number.", field=field) from None
    if not math.isfinite(found):
        raise BerthError("invalid", f"{quoted(text)} is not a finite number.", field=field)
    return found


def _short(text: str) -> str:
    """Return the typed digits. Raises ValueError when they are more than any number here has."""
    if len(text) > MOST_DIGITS:
        raise ValueError(text)
    return text


def policy_choices(chosen: Sequence[str]) -> list[dict[str, Any]]:
    every = [*POLICIES.values(), *RIVALS.values()]
    return [{"name": each.name, "meaning": each.meaning, "checked": each.name in chosen} for each in every]


def generator_choices() -> list[dict[str, Any]]:
    return [
        {"value": f"generator:{each.name}", "label": each.meaning, "jobs": each.default_jobs}
        for each in GENERATORS.values()
    ]


def knob_fields(typed: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the scheduler's knobs with the form's values, else with the value in force here."""
    now = knobs_current()
    return [
        {
            "name": f"knob_{each.name}",
            "label": each.name,
            "help": each.meaning,
            "unit": each.unit,
            "choices": each.choices,
            "value": typed.get(f"knob_{each.name}", _show(now[each.name])),
        }
        for each in PARAMETERS
        if each.name != "policy"
    ]


def _show(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
