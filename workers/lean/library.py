"""Stand-ins of modules, and the modules themselves in their places."""

from __future__ import annotations

import os
import sys
from types import ModuleType

TYPE_CHECKING = False  # as `typing` has it, which is one of what is not loaded
if TYPE_CHECKING:
    from typing import Any


class Later(ModuleType):
    """Stands for a module. What it does not have itself is the module's own, which is loaded for it."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # the import system's own questions
            raise AttributeError(name)
        if any(os.path.exists(f"{folder}/{name}.py") for folder in vars(self).get("__path__", ())):  # noqa: PTH110
            return loaded(f"{self.__name__}.{name}")  # one of the package's modules, which may need the rest only later
        return getattr(loaded(self.__name__), name)


def loaded(name: str) -> Any:
    """Load the module itself, which takes its stand-in's place."""
    if isinstance(sys.modules.get(name), Later):
        del sys.modules[name]
    __import__(name)
    module = sys.modules[name]
    for inner in [inner for inner in sys.modules if inner.rpartition(".")[0] == name]:
        vars(module).setdefault(inner.rpartition(".")[2], sys.modules[inner])  # it was loaded below the stand-in
    return module
