"""Every knob an operator may turn, with meaning, unit, default and range: the scheduler's own and the portal's few.

The admin console, the settings reference and the tests read `KNOBS`; values away from their default are rows.
"""

from __future__ import annotations

from typing import Any

from portal.errors import BerthError
from portal.rounds.models import OperatorSetting
from scheduler.errors import InvalidParameter
from scheduler.parameters import PARAMETERS, Parameter, Parameters

PORTAL_KNOBS = (
    Parameter("planning_keep_days", "How long plannings and their decisions are kept.", "days", 7, 1, 3650),
    Parameter("round_keep_days", "How long rounds and their figures are kept.", "days", 90, 1, 3650),
    Parameter(
        "array_history_days",
        "How far back the arrays are divided by: tuned cores and the peak of large jobs; in force from the next round.",
        "days",
        7,
        1,
        90,
    ),
    Parameter("laboratory_minutes", "How long a simulation of the laboratory may run.", "min", 30, 1, 1440),
    Parameter(
        "laboratory_queue", "How many simulations of a tenant may wait or run at one time.", "simulations", 5, 1, 1000
    ),
    Parameter(
        "laboratory_jobs",
        "How many jobs a trace or a drawn workload of the laboratory may have.",
        "jobs",
        20000,
        1,
        1000000,
    ),
    Parameter("laboratory_nodes", "How many nodes a simulated cluster may have.", "nodes", 2000, 1, 100000),
    Parameter("laboratory_trace_mib", "How long an uploaded trace may be.", "MiB", 8, 1, 256),
    Parameter("laboratory_traces", "How many traces a tenant may keep.", "traces", 50, 1, 10000),
    Parameter("laboratory_keep_days", "How long simulations are kept after their end.", "days", 90, 1, 3650),
    Parameter(
        "shared_gpus",
        "How many of each type's GPUs jobs may share, as a part of them. Those that nobody holds change from one kind to the "
        "other until it is so, the last of the last nodes first; GPUs whose kind an operator set stay as they are, and count. "
        "0 = those alone.",
        "of the GPUs",
        0.0,
        0,
        1,
    ),
    Parameter(
        "sharing_retrain_days",
        "So often the learned sharing policy is trained again from what jobs used here, on the laboratory's worker, and proposed "
        "on the page Sharing; nothing is switched. 0 = only when an operator asks.",
        "days",
        0,
        0,
        365,
    ),
    Parameter(
        "slo_ms",
        "A server's answer that takes longer is late. It counts for jobs of `latency_class` latency that tell of their queries.",
        "ms",
        150.0,
        1,
        60000,
    ),
    Parameter("r_num", "A range of GPU counts is cut into at most so many.", "counts", 8, 2, 64),
    Parameter(
        "grace_most_s",
        "The longest time that a job may ask for (`grace_s`) from SIGTERM, when it is to stop, to SIGKILL. What it held is not "
        "free before.",
        "s",
        600,
        30,
        86400,
    ),
    Parameter(
        "time_limit_extend",
        "By how much members may make a running job's time limit longer, as a share of the limit that it was submitted with: "
        "1 = up to twice as long. 0 = only operators may. A longer limit delays who waits for its GPUs.",
        "of the limit",
        1.0,
        0,
        100,
    ),
)
KNOBS: tuple[Parameter, ...] = (*PARAMETERS, *PORTAL_KNOBS)
_BY_NAME = {knob.name: knob for knob in KNOBS}
_PORTAL_NAMES = {knob.name for knob in PORTAL_KNOBS}

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("Who is next, and where", ("policy", "priority", "placement", "lambda", "gain", "sigma")),
    (
        "Arrays and tenants' shares",
        tuple(
            """
                arrays fair_shares borrowing reserved_cores_per_gpu large_array_share array_history_days reserve_lr
                reserve_jobs sweep
            """.split()
        ),
    ),
    ("Window and solver", ("window_size", "sensitivity_adjustment", "gap", "time_limit_s", "tick_s")),
    ("Rounds and re-plans", ("replan_s", "replan_early_s", "preemption", "restart_cost_s")),
    ("Profiles", ("profile_share", "profile_limit_s", "profile_again_s")),
    (
        "Shared GPUs",
        ("sharing_policy", "sharing_shadow", "sharing_slowdown", "shared_gpus", "sharing_retrain_days", "slo_ms"),
    ),
    ("Core tuning", ("tune_cores", "tune_step_s", "tune_band", "tune_faster")),
    (
        "Memory bandwidth",
        ("relieve_memory", "relieve_threshold", "relieve_release", "relieve_band", "relieve_period_s"),
    ),
    ("Job descriptions", ("r_num", "grace_most_s", "time_limit_extend", "large_model_parameters")),
    (
        "Laboratory",
        (
            "laboratory_minutes",
            "laboratory_queue",
            "laboratory_jobs",
            "laboratory_nodes",
            "laboratory_trace_mib",
            "laboratory_traces",
            "laboratory_keep_days",
        ),
    ),
    ("Figures and what is kept", ("raqlr_hours", "planning_keep_days", "round_keep_days")),
)
"""How the console and the operator's guide present the knobs: each stands in one group."""


def knob_check(*, name: str, value: Any) -> Any:
    """Return the value in its knob's kind. Raises BerthError naming the knob and its range."""
    knob = _BY_NAME.get(name)
    if knob is None:
        raise BerthError("unknown_field", f"No setting {name!r}; there are {', '.join(_BY_NAME)}.", field=name)
    try:
        return knob.check(value)
    except InvalidParameter as error:
        raise BerthError("invalid", str(error), field=name) from error


def knobs_current() -> dict[str, Any]:
    """Return all values in force by name, in one query."""
    rows = dict(OperatorSetting.objects.values_list("name", "value"))
    return {knob.name: rows.get(knob.name, knob.default) for knob in KNOBS}


def scheduler_parameters(values: dict[str, Any]) -> Parameters:
    return Parameters.from_mapping({name: value for name, value in values.items() if name not in _PORTAL_NAMES})
