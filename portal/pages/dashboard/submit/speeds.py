"""The submit form's picture of predicted throughput: a panel a GPU type, a column a size, one scale; and past tuning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.foundation.errors import BerthError
from portal.pages.dashboard.parts.formatting import DASH, count_of, duration, number
from portal.pages.dashboard.submit.reading import read_text
from portal.pages.dashboard.submit.speed_marks import Mark, picture
from portal.planning.rounds.asking.scaling import MEASURED, scaling
from portal.planning.rounds.read.cores import begins_words, starts_now
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.declaration.table import BY_NAME
from portal.work.jobs.description_parts import requirement_set
from portal.work.jobs.models import Job
from portal.work.jobs.services.cores import cores_past

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from portal.people.tenants.models import Tenant, User
    from portal.planning.rounds.asking.scaling import Scaling, SizeSpeed, TypeScaling

SOURCES = {
    MEASURED: "measured",
    "theory": "by theory",
    "theory-assumed": "by theory, over links whose speed is assumed",
    "nodes": "from other sizes",
    "sizes": "from other sizes",
    "assumed": "assumed",
}
FULL, LITTLE = 0.85, 0.5
"""The gain of each further GPU, in GPUs: from here on nearly a whole one, below there little."""


def speeds_context(tenant: Tenant | None, values: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the picture for the form's values; None for a CPU job, without a tenant, and where no GPU is."""
    if tenant is None or values.get("gpu_mode") == "cpu":
        return None
    label, accepted = str(values.get("model") or "").strip(), _find_accepted(values)
    types = [str(name) for name in values.get("gpu_types") or [] if name]
    found = scaling(tenant=tenant, label=label, accepted=accepted, gpu_types=types)
    if not found.types:
        return None
    samples = whole_of(values.get("samples"))
    panels = [_panel(each, found, accepted, samples) for each in found.types]
    return {
        "sentence": _sentence(tenant, label, found),
        "unit": "samples a second" if found.unit_type is None else f"1 is one {found.unit_type}",
        "runs": bool(samples) and found.unit_type is None,
        "errors": any(size.error is not None for each in found.types for size in each.sizes.values()),
        "panels": panels,
        "left_out": found.left_out,
    }


def tenant_chosen(tenants: Sequence[Tenant], values: Mapping[str, Any]) -> Tenant | None:
    """Return which of the reader's tenants the form names, or the only one; None for any other."""
    name = values.get("tenant")
    found = [tenant for tenant in tenants if not name or tenant.name == name]
    return found[0] if len(found) == 1 else None


def whole_of(value: object) -> int | None:
    """Return a whole number above 0 that a field holds; None for anything else."""
    text = str(value or "").replace(" ", "")
    return int(text) or None if text.isascii() and text.isdigit() and len(text) < 16 else None


def _find_accepted(values: Mapping[str, Any]) -> set[int]:
    if values.get("gpu_mode") != "range":
        return {int(size) for size in values.get("gpus") or [] if size}
    ends = {name: whole_of(values.get(f"gpus.{name}")) for name in ("min", "max")}
    try:
        return set(requirement_set(ends, r_num=knobs_current()["r_num"]))
    except BerthError:  # the field itself says what is wrong with it
        return set()


def _sentence(tenant: Tenant, label: str, found: Scaling) -> str:
    if found.unit_type is None:
        return f"What jobs of {tenant.name} with the label {label} measured, and what Berth expects from it."
    nothing = (
        f"No job of {tenant.name} with the label {label} has recorded its speed yet."
        if label
        else "Without a model label nothing is known of its speed before it runs."
    )
    return f"{nothing} Berth plans with these assumptions, the same for every such job."


def _panel(each: TypeScaling, found: Scaling, accepted: set[int], samples: int | None) -> dict[str, Any]:
    sizes = [each.sizes.get(gpus) for gpus in found.sizes]
    top = max(size.speed for every in found.types for size in every.sizes.values())
    marks = [
        None
        if size is None
        else Mark(size.speed, size.error or 0.0, measured=size.source == MEASURED, offered=size.offered)
        for size in sizes
    ]
    linear = [each.one * gpus for gpus in found.sizes]
    told = ", ".join(f"{count_of(size.gpus, 'GPU')} {_figure(size.speed, found)}" for size in each.sizes.values())
    tinted = [gpus in accepted for gpus in found.sizes]
    columns = [
        _column(gpus, size, each, found, accepted, samples) for gpus, size in zip(found.sizes, sizes, strict=True)
    ]
    return {
        "gpu_type": each.gpu_type,
        "total": each.total,
        "picture": picture(marks, linear, tinted, top, f"Predicted speed on {each.gpu_type}: {told}"),
        "columns": columns,
        "words": [*_gains(each, accepted), _known_from(each.sizes.values()), *_not_offered(each, found)],
    }


def _figure(speed: float, found: Scaling) -> str:
    return number(speed, 2 if found.unit_type else 1 if speed < 100 else 0)


def _column(
    gpus: int, size: SizeSpeed | None, each: TypeScaling, found: Scaling, accepted: set[int], samples: int | None
) -> dict[str, Any]:
    known = found.unit_type is None and size is not None
    return {
        "gpus": gpus,
        "accepted": gpus in accepted,
        "speed": DASH if size is None else _figure(size.speed, found),
        "times": DASH if size is None else f"{size.speed / each.one:.1f}",
        "run": duration(samples / size.speed) if known and samples and size else DASH,
        "error": DASH if size is None or size.error is None else f"\u00b1\u00a0{100 * size.error:.0f}\u00a0%",
    }


def _gains(each: TypeScaling, accepted: set[int]) -> list[str]:
    """Say how fast the largest accepted size (else the largest) is, and the gain of its last GPUs."""
    sizes = [size for gpus, size in each.sizes.items() if gpus in accepted] or list(each.sizes.values())
    last = sizes[-1]
    if last.gpus == 1:
        return []
    before = max((size for size in each.sizes.values() if size.gpus < last.gpus), key=lambda size: size.gpus)
    adds = (last.speed - before.speed) / (last.gpus - before.gpus) / each.one
    said = (
        "nearly a whole one" if adds >= FULL else "little" if 0 < adds < LITTLE else "nothing" if adds <= 0 else "part"
    )
    more = f"from {before.gpus} on, each further GPU adds "
    more += {"part": f"{adds:.1f} of one", "little": f"little, {adds:.1f} of one"}.get(said, said)
    return [f"{last.gpus} GPUs are {last.speed / each.one:.1f} times as fast as one: {more}."]


def _known_from(sizes: Iterable[SizeSpeed]) -> str:
    by_source: dict[str, list[str]] = {}
    for size in sizes:
        by_source.setdefault(SOURCES[size.source], []).append(str(size.gpus))
    told = "; ".join(f"{words}: {', '.join(counts)}" for words, counts in by_source.items())
    return f"{told[:1].upper()}{told[1:]}."


def _not_offered(each: TypeScaling, found: Scaling) -> list[str]:
    out = [str(size.gpus) for size in each.sizes.values() if not size.offered]
    if not out:
        return []
    detail = f"over several nodes it would lose more than the operator's limit of {found.sigma:g} allows"
    return [f"Not offered: {', '.join(out)}; {detail}."]


def cores_context(user: User, tenant: Tenant | None, values: Mapping[str, Any]) -> str | None:
    """Say what tuning found for the last similar jobs, and with how many cores this one begins; None for a CPU job."""
    if tenant is None or values.get("gpu_mode") == "cpu":
        return None
    label, category = (str(values.get(name) or "").strip() for name in ("model", "category"))
    past, by_label = cores_past(owner=user, tenant=tenant, category=category, label=label)
    begins = begins_words(_imagined(user, values, category), starts_now([user.pk]))
    words = [f"{begins[0].upper()}{begins[1:]}."] if begins else []
    if not past:
        return words[0] if words and whole_of(values.get("cores_per_gpu")) else None
    kind = f"jobs with the label {label}" if by_label else f"{category} jobs" if category else "jobs without a category"
    least, most = min(past), max(past)
    who = f"last {len(past)} {kind} kept their" if len(past) > 1 else f"last {kind.replace('jobs', 'job', 1)} kept its"
    cores = f"{least} to {most} cores" if least < most else f"{most} core{'s' if most > 1 else ''}"
    return " ".join([f"Your {who} GPUs busy with {cores} a GPU.", *words])


def _imagined(user: User, values: Mapping[str, Any], category: str) -> Job:
    """Return the form's job, as far as the start rule of cores looks at it."""
    return Job(
        owner_id=user.pk,
        gpus=sorted(_find_accepted(values)) or [1],
        gpu_types=[str(name) for name in values.get("gpu_types") or [] if name],
        category=category or None,
        cores_per_gpu=whole_of(values.get("cores_per_gpu")),
        cores_exactly=bool(values.get("cores_exactly")),
        pipelined=bool(values.get("pipelined")),
        parameters=_parameters(str(values.get("parameters") or "").strip()),
        heavy_between_iterations=bool(values.get("heavy_between_iterations")),
    )


def _parameters(text: str) -> int | None:
    try:
        return int(read_text(BY_NAME["parameters"], text)) if text else None
    except (BerthError, TypeError, ValueError):  # the field itself says what is wrong with it
        return None
