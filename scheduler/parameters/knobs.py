"""The list of knobs. It is data: the code that uses a knob names the section of algorithms.md that describes it."""

from __future__ import annotations

from scheduler.parameters.choices import POLICIES, PRIORITIES, SHARING
from scheduler.parameters.parameter import Parameter

SIGMA = 1.4
"""Above this placement sensitivity a job is not spread over nodes."""

PARAMETERS: tuple[Parameter, ...] = (
    Parameter(
        "policy",
        "The rule by which jobs are placed: who is next, where, and on how many GPUs. "
        + "; ".join(f"{name} = {meaning}" for name, meaning in POLICIES.items())
        + ".",
        "",
        "berth",
        choices=tuple(POLICIES),
    ),
    Parameter(
        "priority",
        "Which job goes first, under hops in the whole queue, under berth among the jobs of one tenant: lrf = the longest wait "
        "relative to its expected run time; fifo = submitted first; sjf = the shortest expected run time; srtf = the shortest "
        "run time left; las = the fewest GPU-seconds so far; ftf = furthest behind the time that it would take on an equal part "
        "of the cluster.",
        "",
        "lrf",
        choices=PRIORITIES,
    ),
    Parameter(
        "placement",
        "How hops and berth place the jobs of the window: ilp = all together, by throughput weighted by priority; greedy = "
        "strictly in the queue's order, where each job takes its best configuration (as if lambda were infinite).",
        "",
        "ilp",
        choices=("ilp", "greedy"),
    ),
    Parameter(
        "lambda",
        "How strongly the queue's priority weighs against throughput in the ILP: 0 = throughput alone, larger = fairer.",
        "",
        1.0,
        0,
        4,
    ),
    Parameter(
        "gain",
        "How berth values more GPUs for one job: linear = as much as they speed it up; efficient = less where each further GPU "
        "adds little speed, so that GPUs go to waiting jobs instead. hops is always linear, as in its paper.",
        "",
        "efficient",
        choices=("linear", "efficient"),
    ),
    Parameter(
        "sigma",
        "A job with at most this placement sensitivity may be spread over nodes. The sensitivity is the job's speed per GPU on "
        "one node, divided by its speed per GPU on two.",
        "times",
        SIGMA,
        1,
        10,
    ),
    Parameter(
        "arrays",
        "Whether berth divides the cluster into the arrays cpu, gpu-small and gpu-large; off = one array, and no cores are "
        "reserved for GPU jobs.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "fair_shares",
        "Whether berth serves the tenant with the smallest share next; off = the queue's order alone.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "borrowing",
        "Whether jobs under berth may use what is idle in another array. They give it back when jobs of that array need it.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "reserved_cores_per_gpu",
        "Cores per GPU that a GPU node reserves for GPU jobs; empty = the 95th percentile of the cores per GPU that jobs were "
        "tuned to in the last days (array_history_days), or 3 if none was tuned.",
        "cores",
        None,
        0,
        64,
        optional=True,
    ),
    Parameter(
        "large_array_share",
        "The part of the nodes with 4 GPUs or more that forms gpu-large; empty = enough for the most GPUs that large jobs "
        "asked for at one time in the last days (array_history_days), at most 0.8, or 0.5 if there were no GPU jobs at all.",
        "",
        None,
        0,
        1,
        optional=True,
    ),
    Parameter(
        "reserve_lr",
        "From this latency ratio on, berth keeps nodes for the first job of an array if it does not fit; empty = never.",
        "",
        1.0,
        0,
        100,
        optional=True,
    ),
    Parameter(
        "reserve_jobs",
        "For how many jobs of an array berth keeps nodes at the same time: the first job, and jobs behind it whose latency "
        "ratio has also reached reserve_lr.",
        "",
        1,
        1,
        16,
    ),
    Parameter(
        "sweep",
        "Whether berth offers what a planning would leave idle to every waiting job, beyond the windows and across the arrays; "
        "off = it stays idle until the next planning fills its windows.",
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
        "The solver may stop when its plan is proven to be this close to the best one, relatively; empty = 0 below 100 GPUs, "
        "0.0005 up to 1 000, 0.01 above.",
        "",
        None,
        0,
        0.5,
        optional=True,
    ),
    Parameter(
        "tick_s", "Time from one planning to the next; no job's age (expected run time) is shorter.", "s", 30.0, 1, 3600
    ),
    Parameter(
        "time_limit_s",
        "The longest time that a planning may take, with reading the queue and applying the plan. Then it uses the best plan "
        "that it has found. 0 = half a tick; other values are at least 0.5, because reading the queue takes time. A planning "
        "between two ticks, after a submission or an end, only fills what is idle and takes at most a second.",
        "s",
        0.0,
        0,
        1800,
        zero_or_from=0.5,
    ),
    Parameter(
        "restart_cost_s",
        "What it costs to stop a job and start it again, if that was not measured for the job. What others give back for a job "
        "is kept for it for ten times as long. A job keeps its configuration for ten times as long; under berth with gain "
        "efficient for twice as long, and at least a minute, because there each change must pay for itself.",
        "s",
        60.0,
        1,
        3600,
    ),
    Parameter(
        "replan_s",
        "Time from one re-plan to the next: the length of a round. In a re-plan under hops or berth (with placement ilp) "
        "running elastic jobs that may be stopped can be resized or moved. A job keeps a configuration for at least one round "
        "(under berth with gain efficient: see restart_cost_s).",
        "s",
        360.0,
        5,
        86400,
    ),
    Parameter(
        "replan_early_s",
        "Under berth a round may end early, but not sooner than this after its re-plan. It does when a job's latency ratio has "
        "reached reserve_lr and has doubled since the re-plan, or when one GPU in a hundred is idle where no waiting job can use "
        "it, or where a running elastic job would go faster with it, or when a running job would make room for the first to wait "
        "since the re-plan; empty = never early.",
        "s",
        60.0,
        5,
        86400,
        optional=True,
    ),
    Parameter(
        "preemption",
        "Whether a re-plan may also stop a running elastic job and give it no other configuration, for jobs that weigh more. "
        "The stopped job waits again.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "sensitivity_adjustment",
        "Under hops: whether jobs beyond the window that lose little by being spread over nodes may fill what is idle between "
        "re-plans. They may while the window's jobs lose more by it than the jobs of the whole queue. Under berth the sweep "
        "offers what is idle to all of them.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "profile_share",
        "Under hops and berth: the part of the idle GPUs on which instrumented elastic jobs may be profiled before they are "
        "placed. It is rounded down, but to no less than one GPU if two are idle; 0 = no job is profiled.",
        "",
        0.1,
        0,
        1,
    ),
    Parameter(
        "profile_limit_s",
        "The longest time for which a job is profiled, and waits for its profiles, on all GPU types together.",
        "s",
        60.0,
        5,
        60,
    ),
    Parameter(
        "profile_again_s",
        "If a job's profile on a GPU type told nothing, the job is not profiled there again for this long.",
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
    Parameter(
        "relieve_memory",
        "Whether CPU jobs are slowed that take a node's memory bandwidth while a training job beside them falls back.",
        "",
        "on",
        choices=("on", "off"),
    ),
    Parameter(
        "relieve_threshold",
        "A node's memory counts as pressed from this traffic on.",
        "of its bandwidth",
        0.75,
        0.1,
        1,
    ),
    Parameter(
        "relieve_release",
        "A slowed job is let go when the traffic without the throttle would stay below this for three periods.",
        "of its bandwidth",
        0.60,
        0.05,
        1,
    ),
    Parameter(
        "relieve_band",
        "Noise band: a training job whose GPU utilisation fell by no more than this did not fall back.",
        "of full scale",
        0.01,
        0.001,
        0.5,
    ),
    Parameter(
        "relieve_period_s",
        "How long a pressed node is measured before one more step is taken there.",
        "s",
        30.0,
        5,
        600,
    ),
    Parameter(
        "sharing_policy",
        "Who joins whom on GPUs that may be shared. "
        + "; ".join(f"{name} = {meaning}" for name, meaning in SHARING.items())
        + ".",
        "",
        "res-ag",
        choices=tuple(SHARING),
    ),
    Parameter(
        "sharing_shadow",
        "Another policy of sharing_policy's, or off. It decides on the same input, is recorded beside the one that acts, and "
        "starts nothing: the page Sharing compares both.",
        "",
        "off",
        choices=tuple(SHARING),
    ),
    Parameter(
        "sharing_slowdown",
        "By how much jobs may slow each other on a GPU: who would be slowed more, as measured beside those there or as "
        "expected of what they used before, is not put there, whatever the policy; who was never seen to run gets an idle GPU "
        "first. 0.2 = a fifth longer than alone. Empty = neither.",
        "of the time alone",
        0.2,
        0,
        10,
        optional=True,
    ),
    Parameter(
        "raqlr_hours",
        "For how many hours back RAQLR counts jobs that ended (its h).",
        "h",
        6.0,
        0.1,
        720,
    ),
    Parameter(
        "large_model_parameters",
        "A model with more parameters than this counts as large: its jobs start with one core fewer per GPU.",
        "parameters",
        100_000_000,
        1,
        10**15,
    ),
)
