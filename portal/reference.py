"""Every setting in one place: policy knobs, environment variables, the agent's settings. docs/settings.md is made here.

Each group keeps its own definition (`portal.rounds.settings.knobs`, `portal.environment`, `workers.agent.settings`); this module
only brings them into one shape. The agent's are handed in: the portal imports nothing of `workers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.environment import VARIABLES
from portal.rounds.settings.knobs import KNOBS
from portal.rounds.settings.words import range_shown, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

INTERNAL = {
    "BERTH_PYTHON_TRIED": "`./berth` tells the Python it hands over to, so that it does not hand over for ever.",
    "BERTH_SUPERVISED": "The supervisor marks its children with it, to know them again after it was killed.",
    "BERTH_READY_DESCRIPTOR": "`up --detach` gives it to the supervisor, which says there when all is well.",
    "BERTH_MARK": "The shim marks a job's processes with a random word, to find those that left their process group.",
    "BERTH_GIT_SECRET": "The shim gives it to the stage that fetches a job's code, and to nothing else: the repository's secret.",
    "BERTH_ALIVE_DESCRIPTOR": "The pipe into which what `./berth up` or `./berth node` starts signs that it lives.",
}
"""Variables that Berth sets for its own processes; nobody else needs to."""

HEAD = """# Settings

<!-- Made by `./berth manage settings_reference` from the code; do not edit. -->

A policy knob is set in the operator's console (`/admin/rounds/operatorsetting/`), is in force from the next planning,
and every change is in the audit trail. An environment variable is read when a process starts. An agent's setting is a
flag of `./berth node` or an environment variable on the node; the flag wins.
"""


@dataclass(frozen=True)
class Entry:
    """One setting as the reference shows it; every text but `unit` is non-empty."""

    name: str
    meaning: str
    unit: str
    default: str
    range: str


def knob_entries() -> list[Entry]:
    return [
        Entry(k.name, k.meaning, k.unit, shown(k.default), range_shown(k.low, k.high, k.choices, optional=k.optional))
        for k in KNOBS
    ]


def variable_entries() -> list[Entry]:
    return [Entry(v.name, v.meaning, v.unit, shown(v.default), v.range) for v in VARIABLES]


def agent_entries(settings: Iterable[Any]) -> list[Entry]:
    """From `workers.agent.settings.SETTINGS`: flag and variable together. `url` is `--join` on `./berth node`."""
    return [
        Entry(
            f"{'--join' if s.name == 'url' else s.flag}, {s.env}",
            s.meaning,
            s.unit,
            shown(s.default),
            _agent_range(s),
        )
        for s in settings
    ]


def _agent_range(setting: Any) -> str:
    if setting.kind is bool:
        return "given or not"
    if setting.choices:
        return ", ".join(setting.choices)
    if setting.minimum is None:
        return "a path" if setting.kind.__name__ == "Path" else "text"
    return range_shown(setting.minimum, setting.maximum)


def _table(entries: Iterable[Entry]) -> list[str]:
    rows = [
        f"| `{entry.name}` | {entry.meaning} | {entry.unit or '-'} | {entry.default} | {entry.range} |".replace(
            "\n", " "
        )
        for entry in entries
    ]
    return ["| setting | meaning | unit | default | range |", "|---|---|---|---|---|", *rows, ""]


AGENT_HEAD = (
    "As flags of the agent, or as variables. The nodes that `./berth up` starts take the variables from its own environment; "
    "their address, name and directory it sets itself."
)


def document(agent_settings: Iterable[Any]) -> str:
    """The whole of docs/settings.md."""
    lines = [HEAD, "## Policy knobs", "", *_table(knob_entries())]
    lines += ["## Environment of the portal and of `./berth`", "", *_table(variable_entries())]
    lines += ["## A node's agent", "", AGENT_HEAD, "", *_table(agent_entries(agent_settings))]
    lines += ["## Set by Berth for its own processes", "", "| variable | what for |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in INTERNAL.items()]
    return "\n".join(lines) + "\n"
