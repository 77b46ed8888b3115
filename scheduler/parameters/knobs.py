"""The list of knobs. It is data; what uses a knob says so with its section."""

from __future__ import annotations

from scheduler.parameters.choices import POLICIES, PRIORITIES
from scheduler.parameters.parameter import Parameter

SIGMA = 1.4
"""Above this placement sensitivity a job is not spread over nodes."""

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "policy",
        "Who is placed next, where and how large: "
        + "; ".join(f"{name} = {meaning}" for name, meaning in POLICIES.items())
        + ".",
        "",
        "berth",
        choices=tuple(POLICIES),
    ),
    Parameter(
        "priority",
        "Who goes first under hops in the queue, under berth among a tenant's jobs: lrf = longest wait for its "
        "expected run time; fifo = longest in the queue; sjf = shortest expected run time; srtf = shortest rest of it; "
        "las = fewest GPU-seconds so far; ftf = latest against its time on an equal part of the cluster.",
        "",
        "lrf",
        choices=PRIORITIES,
    ),
    Parameter(
        "placement",
        "How hops and berth place the window: ilp = jointly, by priority-weighted throughput; greedy = strict queue order, each "
        "job in turn takes its best configuration (the limit of an endless lambda).",
        "",
        "ilp",
        choices=("ilp", "greedy"),
    ),
    Parameter(
        "lambda",
        "How strongly the queue's priority weighs against throughput in the ILP: 0 = throughput alone, more = fairer.",
        "",
        1.0,
        0,
        4,
    ),
    Parameter(
        "gain",
        "What berth counts more GPUs of one job for: linear = as much as they speed it up; efficient = for less where each of "
        "them then works less well, so that they go to who waits. hops is always linear, as its paper is.",
        "",
        "efficient",
        choices=("linear", "efficient"),
    ),
    Parameter(
        "sigma",
        "Placement sensitivity (speed per GPU on one node over that on two) up to which a job may be spread over nodes.",
        "times",
        SIGMA,
        1,
        10,
    ),
    Parameter(
        "arrays",
        "Whether berth divides the cluster into the arrays cpu, gpu-small and gpu-large; off = one array, no core "
        "reserved.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "fair_shares",
        "Whether under berth the tenant with the smallest share is next; off = the queue's order alone.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "borrowing",
        "Whether under berth jobs may use what is idle of another array, and give it back when it is called for.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "reserved_cores_per_gpu",
        "Cores of a GPU node reserved for GPU jobs, per GPU; empty = the 95th percentile of the tuned ones of the "
        "last days (array_history_days), 3 without any.",
        "cores",
        None,
        0,
        64,
        optional=True,
    ),
    Parameter(
        "large_array_share",
        "Part of the nodes with 4 GPUs or more that is gpu-large; empty = for the most GPUs that large jobs asked for "
        "at one time in the last days (array_history_days), at most 0.8; 0.5 without any.",
        "",
        None,
        0,
        1,
        optional=True,
    ),
    Parameter(
        "reserve_lr",
        "From which latency ratio on berth keeps nodes for the first job of an array that does not fit; empty = never.",
        "",
        1.0,
        0,
        100,
        optional=True,
    ),
    Parameter(
        "reserve_jobs",
        "For how many jobs of an array at once berth keeps nodes: the first job, and others behind it whose latency ratio has "
        "reached reserve_lr too.",
        "",
        1,
        1,
        16,
    ),
    Parameter(
        "sweep",
        "Whether under berth what a planning would leave idle is offered to every waiting job, beyond the windows and across the "
        "arrays; off = it waits for the next planning's windows.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "window_size",
        "How far the service window reaches down the queue, as a multiple of the GPUs on nodes that are up.",
        "times the GPUs",
        1.0,
        0.1,
        10,
    ),
    Parameter(
        "gap",
        "Relative gap at which the solver may stop; empty = 0 below 100 GPUs, 0.0005 up to 1 000, 0.01 above.",
        "",
        None,
        0,
        0.5,
        optional=True,
    ),
    Parameter("tick_s", "Time from one planning to the next; no job's age is below it.", "s", 30.0, 1, 3600),
    Parameter(
        "time_limit_s",
        "Longest time a planning may take, reading the queue and applying the plan included, before it takes the best plan it "
        "has; 0 = half a tick, else at least 0.5: in less there is hardly time to read the queue. What a submission or an "
        "end asks for between two ticks only fills what is idle and takes a second at most.",
        "s",
        0.0,
        0,
        1800,
        zero_or_from=0.5,
    ),
    Parameter(
        "restart_cost_s",
        "What stopping a job and starting it anew costs, where it has not been measured for the job; what is given back "
        "for a job is kept for it for ten times as long, and a job keeps its configuration for ten times as long (under "
        "berth with gain efficient twice as long, and at least a minute: each change must pay by itself).",
        "s",
        60.0,
        1,
        3600,
    ),
    Parameter(
        "replan_s",
        "Time from one re-plan to the next: the length of a round. In a re-plan under hops or berth (with placement ilp) "
        "running elastic jobs that may be stopped can be resized or moved; a configuration is kept at least so long "
        "(under berth with gain efficient see restart_cost_s).",
        "s",
        360.0,
        5,
        86400,
    ),
    Parameter(
        "replan_early_s",
        "Under berth a round ends early, this long after its re-plan at the soonest, when a job's latency ratio has reached "
        "reserve_lr and doubled since, or one GPU in a hundred stands idle scattered; empty = never early.",
        "s",
        60.0,
        5,
        86400,
        optional=True,
    ),
    Parameter(
        "preemption",
        "Whether a re-plan may also stop a running elastic job without giving it another configuration, for jobs that "
        "weigh more; it then waits again.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "sensitivity_adjustment",
        "Whether between re-plans jobs beyond the window that do not mind being spread may fill what is idle, while the "
        "window's jobs mind it more than the queue's.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "profile_share",
        "Under hops and berth: the part of the idle GPUs on which instrumented elastic jobs may be profiled before they are "
        "placed, rounded down, but one where two are idle; 0 = no job is profiled.",
        "",
        0.1,
        0,
        1,
    ),
    Parameter(
        "profile_limit_s",
        "Longest time for which a job is profiled, and waits for it, over all GPU types together.",
        "s",
        60.0,
        5,
        60,
    ),
    Parameter(
        "profile_again_s",
        "How long a GPU type on which a job's profile was tried and told nothing is left alone before another try.",
        "s",
        3600.0,
        60,
        604_800,
    ),
    Parameter(
        "tune_cores",
        "Whether the CPU cores of running training jobs on one node are tuned by how well they keep their GPUs busy; a node and "
        "a job can be left out of it.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "tune_step_s",
        "How long each number of cores is held and measured before the next is tried.",
        "s",
        90.0,
        5,
        3600,
    ),
    Parameter(
        "tune_band",
        "Noise band of core tuning: differences of GPU utilisation (or of throughput, against the largest) up to this are none.",
        "of full scale",
        0.01,
        0.001,
        0.2,
    ),
    Parameter(
        "tune_faster",
        "Search for the best number of cores by doubling, then halving, instead of one core a step: for starts that are far off.",
        "",
        "off",
        choices=("on", "off"),
    ),
    Parameter("raqlr_hours", "The h of RAQLR: how far back ended jobs count.", "h", 6.0, 0.1, 720),
    Parameter(
        "large_model_parameters",
        "A model with more parameters than this is large: it starts with one core per GPU fewer.",
        "parameters",
        100_000_000,
        1,
        10**15,
    ),
)
