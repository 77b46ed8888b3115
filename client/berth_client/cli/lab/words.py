"""One simulation as text."""

from __future__ import annotations

from typing import Any

from berth_client.cli.output import counted
from berth_client.cli.tables import table

OPEN = ("QUEUED", "RUNNING")


FIGURES = {
    "mean_jct_h": "mean JCT, h",
    "p99_jct_h": "99 %, h",
    "makespan_h": "makespan, h",
    "mean_wait_h": "mean wait, h",
    "mean_lr": "mean LR",
    "max_lr": "max LR",
    "max_ftf": "max FTF",
    "gpu_active_rate": "active",
    "jobs_unfinished": "unfinished",
}


def words_of(found: dict[str, Any]) -> str:
    """Return one simulation as text: its order, its state, its figures."""
    knobs = ", ".join(f"{name} = {value}" for name, value in found["knobs"].items()) or "all at their default"
    facts = [
        ("simulation", f"{found['id']}, {found['name']}"),
        ("state", f"{found['state']}" + (f", {percent(found)} done" if found["state"] in OPEN else "")),
        ("jobs", f"{found['jobs']} of {found['generator'] or 'trace ' + str(found['trace'])}, seed {found['seed']}"),
        ("cluster", f"{found['cluster']}: {counted(found['nodes'], 'node')}, {counted(found['gpus'], 'GPU')}"),
        ("knobs", knobs),
    ]
    if found["state"] == "QUEUED":
        facts.append(("ahead", str(found["ahead"])))
    if found["error"]:
        facts.append(("error", found["error"]))
    lines = [f"{name:<12}{words}" for name, words in facts]
    if not found["figures"]:
        return "\n".join(lines)
    rows = [[policy, *(own.get(name) for name in FIGURES)] for policy, own in found["figures"].items()]
    return "\n".join([*lines, "", table(("policy", *FIGURES.values()), rows)])


def percent(row: dict[str, Any]) -> str:
    return f"{100 * sum(row['progress'].values()) / max(1, len(row['policies'])):.0f} %"
