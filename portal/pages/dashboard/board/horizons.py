"""The horizon h: how many hours the pages about the whole cluster look back."""

from __future__ import annotations

from portal.foundation.errors import BerthError

HORIZONS_H = (1, 6, 24)


def horizon(text: str | None) -> int:
    """Return h of `?h=`. Raises BerthError for anything but the choices that the page offers."""
    if not text:
        return HORIZONS_H[0]
    if text not in {str(hours) for hours in HORIZONS_H}:
        raise BerthError("invalid", f"`h` must be {' or '.join(map(str, HORIZONS_H))}, in hours.", field="h")
    return int(text)
