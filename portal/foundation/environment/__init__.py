"""The environment variables that Berth reads. `variables` lists them; the settings reference is made from that list."""

from __future__ import annotations

import os
from typing import Any

from portal.foundation.environment.variables import VARIABLES

_BY_NAME = {variable.name: variable for variable in VARIABLES}


def env(name: str) -> Any:
    """Return a documented variable's value in its kind. Raises ValueError naming the variable and its fault."""
    variable, text = _BY_NAME[name], os.environ.get(name)
    if not text:
        return variable.default
    try:
        return variable.read(text)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
