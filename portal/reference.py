"""docs/settings.md, made from the lists of settings: knobs, environment variables, and an agent's settings.

The agent's are handed in: the portal imports nothing of `workers`.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from portal.foundation.environment.variables import VARIABLES
from portal.planning.rounds.settings.knobs import KNOBS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scheduler.setting import Setting

INTERNAL = {
    "BERTH_PYTHON_TRIED": "`./berth` tells the Python it hands over to, so that it does not hand over for ever.",
    "BERTH_SUPERVISED": "The supervisor marks its children with it, to know them again after it was killed.",
    "BERTH_READY_DESCRIPTOR": "`up --detach` gives it to the supervisor, which says there when all is well.",
    "BERTH_MARK": "The shim marks a job's processes with a random word, to find those that left their process group.",
    "BERTH_GIT_SECRET": "The shim gives it to the stage that fetches a job's code, and to nothing else: the repository's secret.",
    "BERTH_BRIDGE_TOKEN": "A join token for `./berth bridge`, where other users of the machine can read command lines.",
    "BERTH_ALIVE_DESCRIPTOR": "The pipe into which what `./berth up` or `./berth node` starts signs that it lives.",
}
"""Variables that Berth sets for its own processes; nobody else needs to."""

HEAD = """# Settings

<!-- Made by `./berth manage settings_reference` from the code; do not edit. -->

A policy knob is set in the operator's console (`/admin/rounds/operatorsetting/`), is in force from the next planning,
and every change is in the audit trail. An environment variable is read when a process starts. An agent's setting is a
flag of `./berth node` or an environment variable on the node; the flag wins.
"""
AGENT_HEAD = (
    "As flags of the agent, or as variables. The nodes that `./berth up` starts take the variables from its own environment; "
    "their address, name and directory it sets itself."
)


def _table(settings: Iterable[tuple[str, Setting]]) -> list[str]:
    """`settings`: each with the name under which it is set."""
    rows = [
        f"| `{name}` | {each.meaning} | {each.unit or '-'} | {each.default_words} | {each.range_words} | {each.turn_when} |"
        for name, each in settings
    ]
    return ["| setting | meaning | unit | default | range | turn it when |", "|---|---|---|---|---|---|", *rows, ""]


BRIDGE_HEAD = "Flags of `./berth bridge slurm`, which attaches a partition of a Slurm cluster."


def document(agent_settings: Iterable[tuple[str, Setting]], bridge_settings: Iterable[tuple[str, Setting]]) -> str:
    """The whole of docs/settings.md. `agent_settings`: each with its flag and its variable; `bridge_settings`: its flag."""
    lines = [HEAD, "## Policy knobs", ""]
    for group, knobs in groupby(KNOBS, key=lambda knob: knob.group):
        lines += [f"### {group}", "", *_table((knob.name, knob) for knob in knobs)]
    variables = ((variable.name, variable) for variable in VARIABLES)
    lines += ["## Environment of the portal and of `./berth`", "", *_table(variables)]
    lines += ["## A node's agent", "", AGENT_HEAD, "", *_table(agent_settings)]
    lines += ["## A bridge to another scheduler", "", BRIDGE_HEAD, "", *_table(bridge_settings)]
    lines += ["## Set by Berth for its own processes", "", "| variable | what for |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in INTERNAL.items()]
    return "\n".join(lines) + "\n"
