"""`replace` as `dataclasses` has it, in half of its time: the fields of a class are looked up once, not for each copy.

For plain dataclasses: their fields may all be given by position, but for those that are not given at all.
"""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import replace  # whose arguments mypy knows
else:
    from dataclasses import fields

    def replace(value: Any, /, **changes: Any) -> Any:
        """A copy with other values in these fields."""
        kind = type(value)
        places, read = _fields_of(kind)
        values = [*read(value)]
        for name, new in changes.items():
            values[places[name]] = new
        return kind(*values)

    @cache
    def _fields_of(kind: type) -> tuple[dict[str, int], Callable[[Any], tuple[Any, ...]]]:
        names = [each.name for each in fields(kind) if each.init]
        read = attrgetter(*names) if len(names) > 1 else lambda value: tuple(getattr(value, name) for name in names)
        return {name: place for place, name in enumerate(names)}, read


__all__ = ["replace"]
