"""Keeps the shim small: light stand-ins take the places of library modules, and what nearly no shim calls is loaded when called.

`pathlib`, `dataclasses`, `json`, `signal` and `contextlib` load regular expressions, enumerations, named tuples and parsers of
signatures, for what Berth's shim never asks of them. Together that is three MiB in a process that stands beside each job. What
a stand-in does not do itself the module does, which is then loaded. Nothing here decides what a job may reach: the process
that becomes the job takes all stand-ins away before it sets itself apart (`load_whole`).
"""

from __future__ import annotations

import _collections  # type: ignore[import-not-found]  # where `collections` has its deque from
import _signal  # type: ignore[import-not-found]  # what `signal` makes enumerations of
import os
import sys

from workers.lean.classes import dataclass, field
from workers.lean.contexts import suppress
from workers.lean.library import Later
from workers.lean.paths import Path
from workers.lean.texts import dumps, loads

_LIBRARY = os.path.dirname(os.__file__)  # noqa: PTH120 - `pathlib` is what this is about
_THERE: dict[str, dict[str, object]] = {
    "collections": {"deque": _collections.deque, "__path__": [f"{_LIBRARY}/collections"]},
    "contextlib": {"suppress": suppress},
    "dataclasses": {"dataclass": dataclass, "field": field},
    "json": {"dumps": dumps, "loads": loads, "__path__": [f"{_LIBRARY}/json"]},
    "math": {},
    "pathlib": {"Path": Path},
    "pwd": {},
    "signal": {name: value for name, value in vars(_signal).items() if not name.startswith("__")},
    "typing": {"TYPE_CHECKING": False, "Any": object, "ClassVar": object()},
}
"""What is there at once of each; all else is the module's own, which is loaded for it. Packages tell where their modules lie."""


def load_little() -> None:
    """Put something light in the place of modules that nobody has loaded yet."""
    for name, there in _THERE.items():
        if name not in sys.modules:
            later = sys.modules[name] = Later(name)
            later.__dict__.update(there)


def load_whole() -> None:
    """Take all stand-ins away: what is imported from now on has the library's own modules."""
    for name in [name for name, module in sys.modules.items() if isinstance(module, Later)]:
        del sys.modules[name]
