"""What one setting of a process is: its name, kind, default, unit and range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. A `default` of None means that there is none, or that the agent finds the value, as `meaning` says."""

    name: str
    kind: Callable[[str], Any]
    default: Any
    unit: str
    meaning: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def env(self) -> str:
        return "BERTH_TRUST_TENANTS" if self.name == "trust_tenants" else "BERTH_AGENT_" + self.name.upper()
