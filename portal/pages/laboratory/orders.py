"""The parts of an order that the form and REST have in common, and an order as JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from portal.foundation import checks
from portal.foundation.errors import BerthError
from portal.pages.laboratory.checking import SimulationOrder, description_check, description_of
from portal.pages.laboratory.selectors import cluster_described, traces_for
from scheduler.parameters import PARAMETERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.pages.laboratory.models import LabTrace
    from portal.people.tenants.models import Tenant, User

HERE, OWN, DESCRIBED = "here", "own", "described"
"""This cluster as it is; the generator's own; one that is described."""

FIELDS = tuple(
    """
        name tenant trace generator jobs cluster description policies knobs seed until_h
    """.split()
)
MOST_CHARS = 100
"""Most characters of the name of a policy, a knob or a generator; an error repeats it."""


def cluster_chosen(*, choice: str, description: str, user: User, tenant: Tenant | None = None) -> tuple[str, str]:
    """Return the cluster's description ("": the generator's own) and its name. `tenant`: a restricted token's."""
    if choice == OWN:
        return "", "the workload's own"
    if choice == HERE:
        found = cluster_described(user=user, tenant=tenant)
        if not found:
            raise BerthError("invalid", "This cluster has no node yet; describe one.", field="cluster")
        return description_of(found), "this cluster"
    if choice != DESCRIBED:
        raise BerthError("invalid", f"Choose {HERE}, {OWN} or {DESCRIBED}.", field="cluster")
    return description or " ", "as described"


def knobs_away(knobs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the knobs that differ from their defaults. An unknown knob stays among them, to be refused later."""
    defaults = {each.name: each.default for each in PARAMETERS}
    return {
        name: value
        for name, value in knobs.items()
        if isinstance(value, bool) or name not in defaults or value != defaults[name]
    }


def order_parse(body: Mapping[str, Any], *, user: User, tenant: Tenant | None = None) -> SimulationOrder:
    """Return the order that a JSON body asks for. `tenant`: the one that the token is restricted to, or None.

    Raises BerthError naming the field that is not of its kind; `order_check` says whether it can be simulated.
    """
    for name in body:
        if name not in FIELDS:
            shown = checks.quoted(name)
            detail = f"A simulation has no field {shown}; it knows {', '.join(FIELDS)}."
            raise BerthError("unknown_field", detail, field=shown.strip("'"))
    given = {name: value for name, value in body.items() if value is not None}
    description = _description(given.get("description", ""))
    choice = given.get("cluster", DESCRIBED if description else HERE)
    if description and choice != DESCRIBED:
        raise BerthError("invalid", f"A description goes with `cluster` {DESCRIBED!r}.", field="description")
    cluster, cluster_name = cluster_chosen(
        choice=_text(choice, "cluster"), description=description, user=user, tenant=tenant
    )
    return SimulationOrder(
        name=_text(given.get("name", ""), "name"),
        policies=[_text(each, "policies", MOST_CHARS) for each in _list(given.get("policies", []), "policies")],
        trace=_trace(given["trace"], user=user, tenant=tenant) if "trace" in given else None,
        generator=_text(given.get("generator", ""), "generator", MOST_CHARS),
        generated_jobs=_whole(given["jobs"], "jobs") if "jobs" in given else None,
        cluster=cluster,
        cluster_name=cluster_name,
        knobs=_knobs(given.get("knobs", {})),
        seed=_whole(given.get("seed", 1), "seed"),
        until_h=_number(given["until_h"], "until_h") if "until_h" in given else None,
    )


def _trace(value: Any, *, user: User, tenant: Tenant | None) -> LabTrace:
    """Return the trace with this number. A foreign and a missing one get the same answer."""
    number = checks.whole(value, "trace", 1, 2**63 - 1)
    found = traces_for(user=user, tenant=tenant).filter(pk=number).first()
    if found is None:
        detail = "No such trace, or you may not see it; `/api/v1/simulations/traces` lists yours."
        raise BerthError("unknown_trace", detail, field="trace")
    return found


def _description(value: Any) -> str:
    """Return YAML as it is, and an object as YAML."""
    if not isinstance(value, dict):
        return _text(value, "description")
    description_check(len(json.dumps(value)))
    return description_of(value)


def _knobs(value: Any) -> dict[str, Any]:
    found: dict[str, str | float] = {}
    for name, each in checks.mapping(value, "knobs", max_items=len(PARAMETERS)).items():
        _text(name, "knobs", MOST_CHARS)
        if isinstance(each, str):
            found[name] = _text(each, "knobs", MOST_CHARS)
        elif each is not None:
            found[name] = each if isinstance(each, int) and abs(each) < 2**53 else _number(each, "knobs")
    return knobs_away(found)


def _list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise checks.wrong_type(value, field, "a list")
    return value


def _text(value: Any, field: str, max_chars: int | None = None) -> str:
    if not isinstance(value, str):
        raise checks.wrong_type(value, field, "text")
    return value if max_chars is None else checks.text(value, field, max_chars=max_chars, blank=True)


def _whole(value: Any, field: str) -> int:
    return checks.whole(value, field, -(2**63), 2**63 - 1)


def _number(value: Any, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise checks.wrong_type(value, field, "a number")
    if abs(value) > 2**53 or not math.isfinite(value):
        raise BerthError("out_of_range", f"`{field}` holds a number that is too large.", field=field)
    return float(value)
