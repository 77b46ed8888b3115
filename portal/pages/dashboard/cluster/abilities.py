"""The deeds of Berth in a partition of another scheduler: each line asks a capability, never the name of an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from portal.engines.models import Engine


class Line(NamedTuple):
    """`capability` "": every engine has it; None: no engine has it. `how` and `why` may name the scheduler as {it}."""

    says: str
    capability: str | None
    how: str = ""
    why: str = ""


LINES = (
    Line("Start and cancel jobs", "holds_gpus", "at once, on GPUs that Berth holds"),
    Line("Start and cancel jobs", "own_accounts", "each as a job of {it} of its own"),
    Line("Show the log, results and GPU use", "", "as on its own nodes"),
    Line("Terminal and notebook", "terminals", "as on its own nodes", "{it} lets nobody in"),
    Line("Grow and shrink", "moves", "by stopping at a checkpoint", "{it} fixes the size for the whole run"),
    Line("Tune cores", "tunes_cores", "among the cores that {it} gave", "{it} fixes them for the whole run"),
    Line("Share a GPU", "shares_gpus", "among Berth's jobs", "{it} fixes GPUs for the whole run"),
    Line("Keep users' accounts apart", "own_accounts", "by {it}", "all jobs run under the account of the bridge"),
    Line("Promise a start on more GPUs", None, why="{it} decides; Berth shows its estimate"),
    Line("See whose the other jobs are", None, why="only that they are {it}'s"),
)


def abilities_of(engine: Engine) -> list[dict[str, Any]]:
    """Return the lines that are true first. A deed that has several ways has the line of the one that it goes here."""
    can = engine.capabilities | {""}
    ways = {line.says for line in LINES if line.capability in can}
    rows = [
        _row(line, line.capability in can, engine) for line in LINES if line.capability in can or line.says not in ways
    ]
    return sorted(rows, key=lambda row: not row["can"])


def _row(line: Line, can: bool, engine: Engine) -> dict[str, Any]:
    return {"can": can, "says": line.says, "small": (line.how if can else line.why).format(it=engine.scheduler)}
