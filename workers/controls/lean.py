"""Keeps the shim small: of the standard library, what nearly no shim calls is loaded when it is called.

`dataclasses` and `pathlib` load modules for what Berth never asks of them (signatures, Windows' paths, URLs), and each of
ours `typing` for names that only type checkers read. Together that is two MiB in a process that stands beside each job.
"""

from __future__ import annotations

import sys
from types import ModuleType

_THERE: dict[str, dict[str, object]] = {
    "copy": {},
    "fnmatch": {},
    "inspect": {"get_annotations": lambda kind: dict(vars(kind).get("__annotations__", {}))},
    "ipaddress": {},
    "math": {},
    "ntpath": {},
    "pwd": {},
    "typing": {"TYPE_CHECKING": False, "Any": object, "ClassVar": object(), "_GenericAlias": object()},
    "urllib.parse": {
        "quote_from_bytes": lambda *given, **more: _loaded("urllib.parse").quote_from_bytes(*given, **more)
    },
}
"""What is there at once of each; all else is the module's own, which is loaded for it."""


class _Later(ModuleType):
    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # the import system's own questions
            raise AttributeError(name)
        return getattr(_loaded(self.__name__), name)


def _loaded(name: str) -> ModuleType:
    if isinstance(sys.modules.get(name), _Later):
        del sys.modules[name]
    __import__(name)
    return sys.modules[name]


def load_little() -> None:
    """Put something light in the place of modules that nobody has loaded yet."""
    for name, there in _THERE.items():
        if name not in sys.modules:
            later = sys.modules[name] = _Later(name)
            later.__dict__.update(there)
