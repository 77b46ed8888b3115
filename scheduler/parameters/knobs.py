"""The scheduler's knobs. Each is one field of `Parameters`: its default, meaning and range stand there, and nowhere else.

It is data: the code that uses a knob names the section of algorithms.md that describes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from scheduler.errors import InvalidParameter
from scheduler.parameters.choices import POLICIES, PRIORITIES, SHARING
from scheduler.setting import ON_OFF, declare, settings_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SIGMA = 1.4
"""Above this placement sensitivity a job is not spread over nodes."""
OWN_SPEEDS = 16
"""The most groups of nodes that are kept apart by speeds that jobs were measured to have there."""

_order = partial(declare, group="Who is next, and where")
_shares = partial(declare, group="Arrays and tenants' shares")
_solver = partial(declare, group="Window and solver")
_rounds = partial(declare, group="Rounds and re-plans")
_profiles = partial(declare, group="Profiles")
_sharing = partial(declare, group="Shared GPUs")
_tuning = partial(declare, group="Core tuning")
_memory = partial(declare, group="Memory bandwidth")
_figures = partial(declare, group="Figures and what is kept")


def _listed(names: Mapping[str, str]) -> str:
    return "; ".join(f"{name} = {meaning}" for name, meaning in names.items())


@dataclass(frozen=True, slots=True)
class Parameters:
    """The knobs' values for one planning, checked. A field is named as its knob (`lambda` is `lambda_`)."""

    policy: str = _order(
        "berth",
        f"The rule by which jobs are placed: who is next, where, and on how many GPUs. {_listed(POLICIES)}.",
        "You want to see what a rule costs or brings on your own queue. Under coda, drf and fifo jobs get their smallest "
        "size, and nothing is resized.",
        choices=tuple(POLICIES),
    )
    priority: str = _order(
        "lrf",
        "Which job goes first, under hops in the whole queue, under berth among the jobs of one tenant: lrf = the longest "
        "wait relative to its expected run time; fifo = submitted first; sjf = the shortest expected run time; srtf = the "
        "shortest run time left; las = the fewest GPU-seconds so far; ftf = furthest behind the time that it would take "
        "on an equal part of the cluster.",
        "Your users judge fairness by another measure. Under sjf and srtf the mean wait is the shortest, and long jobs "
        "starve.",
        choices=PRIORITIES,
    )
    placement: str = _order(
        "ilp",
        "How hops and berth place the jobs of the window: ilp = all together, by throughput weighted by priority; greedy = "
        "strictly in the queue's order, where each job takes its best configuration (as if lambda were infinite).",
        "greedy: a job at the head must never be passed in its window. It trades no place for speed.",
        choices=("ilp", "greedy"),
    )
    lambda_: float = _order(
        1.0,
        "How strongly the queue's priority weighs against throughput in the ILP: 0 = throughput alone, larger = fairer.",
        "Up: live LR is high beside a high active rate. Down: the active rate is low while jobs wait. At 0 a job that is "
        "slow everywhere may wait.",
        "",
        (0, 4),
    )
    gain: str = _order(
        "efficient",
        "How berth values more GPUs for one job: linear = as much as they speed it up; efficient = less where each "
        "further GPU adds little speed, so that GPUs go to waiting jobs instead. hops is always linear, as in its paper.",
        "linear: jobs scale evenly, and you want the large sizes.",
        choices=("linear", "efficient"),
    )
    sigma: float = _order(
        SIGMA,
        "A job with at most this placement sensitivity may be spread over nodes. The sensitivity is the job's speed per "
        "GPU on one node, divided by its speed per GPU on two.",
        "Up: fragments are mostly `scattered`. Down: spread jobs run far below their prediction; at 1 no job is spread that "
        "loses by it.",
        "times",
        (1, 10),
    )
    arrays: str = _shares(
        "on",
        "Whether berth divides the cluster into the arrays cpu, gpu-small and gpu-large; off = one array, and no cores are "
        "reserved for GPU jobs. Small and large jobs share all GPUs while most of them have no declared length.",
        "off: the cluster has a few nodes. Then small jobs may break up the nodes of large ones.",
        choices=ON_OFF,
    )
    fair_shares: str = _shares(
        "on",
        "Whether berth serves the tenant with the smallest share next; off = the queue's order alone.",
        "off: there is one tenant, or tenants do not compete. A tenant with many old jobs may then take all.",
        choices=ON_OFF,
    )
    borrowing: str = _shares(
        "on",
        "Whether jobs under berth may use what is idle in another array. They give it back when jobs of that array need it.",
        "off: restarts hurt more than idle GPUs.",
        choices=ON_OFF,
    )
    reserved_cores_per_gpu: float | None = _shares(
        None,
        "Cores per GPU that a GPU node reserves for GPU jobs; empty = the 95th percentile of the cores per GPU that jobs "
        "were tuned to in the last days (array_history_days), or 3 if none was tuned.",
        "Up: fragments are mostly `no cores`. Down: CPU jobs queue while cores idle.",
        "cores",
        (0, 64),
        kind=float,
        optional=True,
    )
    large_array_share: float | None = _shares(
        None,
        "The part of the nodes with 4 GPUs or more that forms gpu-large; empty = enough for the most GPUs that large jobs "
        "asked for at one time in the last days (array_history_days), at most 0.8, or 0.5 if there were no GPU jobs at all.",
        "Up: large jobs' LR is above the small ones'. Down: it is below.",
        "",
        (0, 1),
        kind=float,
        optional=True,
    )
    reserve_lr: float | None = _shares(
        1.0,
        "From this latency ratio on, berth keeps nodes for the first job of an array if it does not fit and has a declared "
        "length; empty = never.",
        "Down: large jobs starve behind a stream of small ones. GPUs idle meanwhile.",
        "",
        (0, 100),
        optional=True,
    )
    sweep: str = _shares(
        "on",
        "Whether berth offers what a planning would leave idle to every waiting job, beyond the windows and across the "
        "arrays; off = it stays idle until the next planning fills its windows.",
        "off: you want to see what it is worth, or the windows of Hops or CODA by the book.",
        choices=ON_OFF,
    )
    window_size: float = _solver(
        1.0,
        "How far the service window reaches down the queue, as a multiple of the GPUs on nodes that are up.",
        "Up: plans are worse than they could be while `sweep` starts many jobs; under hops GPUs idle while jobs say "
        "`outside-window`. Down: the head of the queue must come first.",
        "times the GPUs",
        (0.1, 10),
    )
    own_speeds: int = _solver(
        OWN_SPEEDS,
        "Above 16 GPU nodes, how many groups of nodes are kept apart because a waiting or running job was measured to be "
        "more than 5 % faster or slower there than the GPU type and the node's factor say: the differences that weigh "
        "most first. The others count only when nodes of equal speed are handed out.",
        "Up: jobs run slower than the same model did on another node of the type. Down: plannings of a large cluster "
        "take too long.",
        "groups",
        (0, 1000),
    )
    time_limit_s: float = _solver(
        0.0,
        "The longest time that a planning may take, with reading the queue and applying the plan. Then it uses the best plan "
        "that it has found. 0 = half a tick; other values are at least 0.5, because reading the queue takes time. A planning "
        "between two ticks, after a submission or an end, only fills what is idle and takes at most a second.",
        "Up: jobs say `solver-limit`. Down: starts must come quicker.",
        "s",
        (0, 1800),
        zero_or_from=0.5,
    )
    tick_s: float = _solver(
        30.0,
        "Time from one planning to the next; no job's age (expected run time) is shorter.",
        "Up: the portal's machine is busy. Down is seldom of use: submissions and ends plan at once anyway.",
        "s",
        (1, 3600),
    )
    replan_s: float = _rounds(
        360.0,
        "Time from one re-plan to the next: the length of a round. In a re-plan under hops or berth (with placement ilp) "
        "running elastic jobs that may be stopped can be resized or moved. A job keeps a configuration for at least one "
        "round (under berth with gain efficient: see restart_cost_s).",
        "Up: restarts an hour are too many. Down: elastic jobs keep small sizes on an empty cluster.",
        "s",
        (5, 86400),
    )
    replan_early_s: float | None = _rounds(
        60.0,
        "Under berth a round may end early, but not sooner than this after its re-plan. It does when a job's latency "
        "ratio has reached reserve_lr and has doubled since the re-plan, or when one GPU in a hundred is idle where no "
        "waiting job can use it, or where a running elastic job would go faster with it, or when a running job would make "
        "room for the first to wait since the re-plan; empty = never early.",
        "Down: the largest LRs are those of jobs of a few minutes. It costs more solves and restarts.",
        "s",
        (5, 86400),
        optional=True,
    )
    preemption: str = _rounds(
        "on",
        "Whether a re-plan may also stop a running elastic job and give it no other configuration, for jobs that weigh more. "
        "The stopped job waits again.",
        "off: owners trust no checkpoint.",
        choices=ON_OFF,
    )
    restart_cost_s: float = _rounds(
        60.0,
        "The time that a job loses when it is stopped and started again, if that was not measured for the job. GPUs that "
        "others give back for a job are kept for it for ten times as long. A job keeps its configuration for ten times as "
        "long; under berth with gain efficient for twice as long, and at least a minute, because there each change must "
        "pay for itself.",
        "Jobs report another time (`restart_s`). Up: fewer resizes and moves.",
        "s",
        (1, 3600),
    )
    profile_share: float = _profiles(
        0.1,
        "Under hops and berth: the part of the idle GPUs on which instrumented elastic jobs may be profiled before they are "
        "placed. It is rounded down, but to no less than one GPU if two are idle; 0 = no job is profiled.",
        "Up: many new models arrive at once on an idle cluster.",
        "",
        (0, 1),
    )
    profile_limit_s: float = _profiles(
        60.0,
        "The longest time for which a job is profiled, and waits for its profiles, on all GPU types together.",
        "Down: a minute is too long for short jobs. Slow iterations are not measured then.",
        "s",
        (5, 60),
    )
    sharing_policy: str = _sharing(
        "res-ag",
        f"Who joins whom on GPUs that may be shared. {_listed(SHARING)}.",
        "cbp or cbp-pp: jobs on shared GPUs slow each other, and jobs with a `model` label were seen to run before.",
        choices=tuple(SHARING),
    )
    sharing_shadow: str = _sharing(
        "off",
        "Another policy of sharing_policy's, or off. It decides on the same input, is recorded beside the one that acts, and "
        "starts nothing: the page Sharing compares both.",
        "You think of another policy: try it here first.",
        choices=tuple(SHARING),
    )
    sharing_slowdown: float | None = _sharing(
        0.2,
        "By how much jobs may slow each other on a GPU. A job that would be slowed more is not put there, under any "
        "policy: as measured beside those there, or as expected of their earlier use. A job that was never seen to run "
        "gets an idle GPU first. 0.2 = a fifth longer than alone. Empty = neither.",
        "Down: jobs on shared GPUs are slowed too much. GPUs stay emptier.",
        "of the time alone",
        (0, 10),
        optional=True,
    )
    tune_cores: str = _tuning(
        "on",
        "Whether the CPU cores of running training jobs on one node are tuned by how well they keep their GPUs busy; a "
        "node and a job can be left out of it. Off: jobs begin with the cores that they ask for, and keep them.",
        "off: you measure something else. One node: *Core tuning* on its console page. One job: `cores_exactly`. A search "
        "that is under way ends, and its job goes back to the best number found so far.",
        choices=ON_OFF,
    )
    tune_step_s: float = _tuning(
        90.0,
        "How long each number of cores is held and measured before the next is tried.",
        "Up: the jobs' load comes in waves of minutes. Down: jobs are short.",
        "s",
        (5, 3600),
    )
    tune_faster: str = _tuning(
        "off",
        "Search for the best number of cores by doubling, then halving, instead of one core a step: for starts that are "
        "far off.",
        "on: jobs start more than three cores off their best. Up to twice the cores are held for a step meanwhile.",
        choices=ON_OFF,
    )
    noise_band: float = _tuning(
        0.01,
        "Differences of GPU utilisation (or of throughput, against the largest) up to this are noise: they move no cores, "
        "and no job counts as slowed by its node's memory.",
        "Up: the steps on job pages go on and on, or CPU jobs are slowed while no training job suffers. Small losses are "
        "taken then.",
        "of full scale",
        (0.001, 0.2),
    )
    relieve_memory: str = _memory(
        "on",
        "Whether CPU jobs are slowed that take a node's memory bandwidth while a training job beside them falls back.",
        "off: you measure something else. Jobs that are slowed get all back at once.",
        choices=ON_OFF,
    )
    relieve_threshold: float = _memory(
        0.75,
        "A node's memory counts as pressed from this traffic on. A slowed job is let go when the traffic without the "
        "throttle would stay a fifth below it for three periods.",
        "Down: training jobs suffer before a node counts as pressed. Up: slowed jobs help no other job.",
        "of its bandwidth",
        (0.1, 1),
    )
    relieve_period_s: float = _memory(
        30.0,
        "How long a pressed node is measured before one more step is taken there.",
        "Up: training's speed comes in waves of minutes. Down: help must come sooner.",
        "s",
        (5, 600),
    )
    raqlr_hours: float = _figures(
        6.0,
        "For how many hours back RAQLR counts jobs that ended (its h).",
        "Up: RAQLR on overview and plannings jumps. The page of figures and `/metrics` have 1, 6 and 24 hours in any case.",
        "h",
        (0.1, 720),
    )
    gap: float | None = None
    """The relative gap at which the solver may stop, for benchmarks; None = by the cluster's size. No operator's knob."""
    off: tuple[str, ...] = ()
    """Rules of `scheduler.rules` that are left out, to measure what they are worth; no operator's knob."""

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Parameters:
        """Parameters from `{name: value}`; absent ones take their default. InvalidParameter names the one at fault."""
        if unknown := sorted(set(values) - set(_BY_NAME)):
            raise InvalidParameter(unknown[0], f"there is no such parameter; the parameters are {', '.join(_BY_NAME)}")
        checked: dict[str, Any] = {}
        for name, value in values.items():
            try:
                checked["lambda_" if name == "lambda" else name] = _BY_NAME[name].check(value)
            except ValueError as error:
                raise InvalidParameter(name, str(error)) from error
        return cls(**checked)

    @property
    def limit_s(self) -> float:
        """The time limit in force: the operator's, or half a tick."""
        return self.time_limit_s or self.tick_s / 2

    def gap_for(self, gpus: int) -> float:
        """The relative gap in force on a cluster of that many GPUs (section 6)."""
        if self.gap is not None:
            return self.gap
        if gpus < 100:
            return 0.0
        return 0.0005 if gpus <= 1000 else 0.01


PARAMETERS = settings_of(Parameters)
_BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}
