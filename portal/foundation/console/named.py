"""Names of the trail's targets: `node:2` is shown as `node:2 (rtx-01)`. Each room's `admin.py` adds its own kinds."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import Model

NAMES: dict[str, tuple[type[Model], str]] = {}
"""Kind of a target -> the model whose row it numbers, and the field that names it."""


def targets_named(targets: Iterable[str]) -> dict[str, str]:
    """Return each `kind:number` with the name that it has now, where it has one. One query a kind."""
    numbers = defaultdict[str, set[int]](set)
    for target in targets:
        kind, _, number = target.partition(":")
        if kind in NAMES and number.isdecimal():
            numbers[kind].add(int(number))
    found: dict[str, str] = {}
    for kind, wanted in numbers.items():
        model, field = NAMES[kind]
        rows = model._default_manager.filter(pk__in=wanted).values_list("pk", field)  # noqa: SLF001 - Django's own API
        found |= {f"{kind}:{pk}": f"{kind}:{pk} ({name})" for pk, name in rows}
    return found
