"""Every knob an operator may turn, with meaning, unit, default and range: the scheduler's own and the portal's few.

The admin console, the settings reference and the tests read `KNOBS`; values away from their default are rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from portal.foundation.errors import BerthError
from portal.planning.rounds.models import OperatorSetting
from portal.work.jobs.description import GRACE_MOST_S, R_NUM
from scheduler.parameters import PARAMETERS, Parameters
from scheduler.setting import ON_OFF, Setting

_shares = partial(Setting, group="Arrays and tenants' shares")
_sharing = partial(Setting, group="Shared GPUs")
_figures = partial(Setting, group="Figures and what is kept")
_jobs = partial(Setting, group="Job descriptions")
_laboratory = partial(Setting, group="Laboratory")

PORTAL_KNOBS = (
    _shares(
        "array_history_days",
        7,
        "How far back the arrays are divided by: tuned cores and the peak of large jobs; in force from the next round.",
        "Down: the load changes from week to week.",
        "days",
        (1, 90),
    ),
    _sharing(
        "shared_gpus",
        0.0,
        "How many of each type's GPUs jobs may share, as a part of them. Those that nobody holds change from one kind to "
        "the other until it is so, the last of the last nodes first; GPUs whose kind an operator set stay as they are, "
        "and count. 0 = those alone.",
        "Up: small jobs hold whole GPUs that they hardly use.",
        "of the GPUs",
        (0, 1),
    ),
    _sharing(
        "sharing_retrain_days",
        0,
        "How often the learned sharing policy is trained again from the use of jobs here, on the laboratory's worker, and "
        "proposed on the page Sharing; nothing is switched. 0 = only when an operator asks.",
        "7: jobs here change from month to month. It takes some minutes of the laboratory's worker.",
        "days",
        (0, 365),
    ),
    _sharing(
        "slo_ms",
        150.0,
        "A server's answer that takes longer is late. It counts for jobs of `latency_class` latency that tell of their "
        "queries.",
        "Down: people complain of answers of servers that count as well.",
        "ms",
        (1, 60000),
    ),
    _figures(
        "planning_keep_days",
        7,
        "How long plannings and their decisions are kept.",
        "Up: you need longer proof of every decision. Plannings of 5 s keep about 17 000 rows a day.",
        "days",
        (1, 3650),
    ),
    _figures(
        "round_keep_days",
        90,
        "How long rounds and their figures are kept.",
        "Up: figures over time must reach further back. A round is one short row.",
        "days",
        (1, 3650),
    ),
    _figures(
        "figures_shown",
        "off",
        "Whether the menu of tenants has *Figures* as well: active rates, waits and fragments of the cluster.",
        "on: tenants ask how the cluster is used.",
        choices=ON_OFF,
    ),
    _jobs(
        "r_num",
        R_NUM,
        "The most counts into which a range of GPU counts is cut.",
        "Down: plannings are slow and ranges are wide. It holds for later submissions only.",
        "counts",
        (2, 64),
    ),
    _jobs(
        "grace_most_s",
        GRACE_MOST_S,
        "The longest time that a job may ask for (`grace_s`) from SIGTERM, when it is to stop, to SIGKILL. Its GPUs are not "
        "free before.",
        "Up: large models need more than ten minutes to save.",
        "s",
        (30, 86400),
    ),
    _jobs(
        "time_limit_extend",
        1.0,
        "By how much members may make a running job's time limit longer, as a share of the limit that it was submitted with: "
        "1 = up to twice as long. 0 = only operators may. A longer limit delays who waits for its GPUs.",
        "Up: tenants' jobs end just before they are done.",
        "of the limit",
        (0, 100),
    ),
    _laboratory(
        "laboratory_shown",
        "off",
        "Whether the menu of tenants has the laboratory as well. Its address opens for them in any case.",
        "on: tenants are to try other rules themselves.",
        choices=ON_OFF,
    ),
    _laboratory(
        "laboratory_minutes",
        30,
        "How long a simulation of the laboratory may run.",
        "Up: simulations end at their limit. The laboratory's one worker is busy for longer then.",
        "min",
        (1, 1440),
    ),
    _laboratory(
        "laboratory_queue",
        5,
        "How many simulations of a tenant may wait or run at one time.",
        "Down: one tenant fills the queue.",
        "simulations",
        (1, 1000),
    ),
    _laboratory(
        "laboratory_jobs",
        20000,
        "How many jobs a trace or a drawn workload of the laboratory may have.",
        "Up: a month of your cluster has more jobs.",
        "jobs",
        (1, 1000000),
    ),
    _laboratory(
        "laboratory_nodes",
        2000,
        "How many nodes a simulated cluster may have.",
        "Up: your cluster is larger.",
        "nodes",
        (1, 100000),
    ),
    _laboratory(
        "laboratory_trace_mib",
        8,
        "How long an uploaded trace may be.",
        "Up: uploads are refused. Traces are kept in the database.",
        "MiB",
        (1, 256),
    ),
    _laboratory(
        "laboratory_traces",
        50,
        "How many traces a tenant may keep.",
        "Up: uploads are refused. Traces are kept in the database.",
        "traces",
        (1, 10000),
    ),
    _laboratory(
        "laboratory_keep_days",
        90,
        "How long simulations are kept after their end.",
        "Down: the database must be smaller.",
        "days",
        (1, 3650),
    ),
)
_GROUPS = list(dict.fromkeys(knob.group for knob in (*PARAMETERS, *PORTAL_KNOBS)))
KNOBS: tuple[Setting, ...] = tuple(sorted((*PARAMETERS, *PORTAL_KNOBS), key=lambda knob: _GROUPS.index(knob.group)))
"""By group, as the console and docs/settings.md show them."""
_BY_NAME = {knob.name: knob for knob in KNOBS}
_PORTAL_NAMES = {knob.name for knob in PORTAL_KNOBS}


def knob_check(*, name: str, value: Any) -> Any:
    """Return the value in its knob's kind. Raises BerthError naming the knob and its range."""
    knob = _BY_NAME.get(name)
    if knob is None:
        raise BerthError("unknown_field", f"No setting {name!r}; there are {', '.join(_BY_NAME)}.", field=name)
    try:
        return knob.check(value)
    except ValueError as error:
        raise BerthError("invalid", f"parameter {name}: {error}", field=name) from error


def knobs_current() -> dict[str, Any]:
    """Return all values in force by name, in one query."""
    rows = dict(OperatorSetting.objects.values_list("name", "value"))
    return {knob.name: rows.get(knob.name, knob.default) for knob in KNOBS}


def scheduler_parameters(values: dict[str, Any]) -> Parameters:
    return Parameters.from_mapping({name: value for name, value in values.items() if name not in _PORTAL_NAMES})
