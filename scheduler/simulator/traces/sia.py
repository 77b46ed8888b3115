"""Sia's workloads (SOSP '23, public artefact): one job a line, with the profiles of the applications that they run.

A job's work is a whole training of its application, in samples at the smallest batch size, and its speed the goodput of its
GPUs (see `scheduler.simulator.world.profiled`). `jobs=adaptive`: as Sia and Pollux take them, the batch size adapted to the GPUs,
and any of Sia's sizes accepted: powers of two within a node, whole nodes beyond (Sia 3.3), up to `most_gpus`.
`jobs=rigid`: as tuned by hand for schedulers without that, on `num_replicas` GPUs with `batch_size` (4.2, "TunedJobs").
`jobs=scale-gpus`: the batch size stays `batch_size`, the GPUs may be fewer: powers of two up to `num_replicas`.

The profiles are measured times and trainings of seven applications, one folder each:

- `placements-<gpu>.csv`: `placement` (one digit a node: its GPUs), `local_bsz` (samples a GPU and step), `step_time` and
  `sync_time` (s);
- `scalability-<gpu>.csv`: the same by `num_nodes` and `num_replicas` (GPUs in all), for more nodes;
- `validation-<batch size>.csv`: a whole training with that batch size, a row an epoch: `progress` (iterations at the
  smallest batch size that would have come as far) and `iteration` (the number of iterations made).

The constants below are facts of the artefact's simulator. `gpt_pmp` is not read: its sizes are whole pipelines,
of another length on each GPU type, which a requirement set cannot say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from statistics import fmean

from scheduler.model import Job
from scheduler.simulator.traces.source import MOST_GPUS, Choices, Column, Format, Row, Source, TraceError, rows, shown
from scheduler.simulator.world.profiled import Application, Curve, Goodput, Shape, Speeds, Training, canonical
from scheduler.simulator.world.truth import TracedJob

GPU_TYPES: Mapping[str, str] = {
    "aws": "t4",  # g4dn.12xlarge, 4 a node
    "azure": "v100",  # ND40rs_v2, 8 a node
    "dgx": "a100-small-batches",  # the same as dgx-ext, measured with fewer batch sizes
    "dgx-ext": "a100",  # DGX A100, 8 a node
    "quad": "quadro-rtx-6000",  # 4 a node
    "rtx": "rtx-2080ti",  # 8 a node
}
"""The profiles' names of GPU types -> ours, under which a cluster's nodes must list them."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The artefact simulator's knowledge of an application beside its files.

    `restart_s`: to save, stop and resume; `slowdown`: against the profile, as calibrated by its authors on a real cluster.
    """

    smallest_batch: int
    restart_s: float
    slowdown: float
    category: str
    rigid: bool = False  # runs on one GPU with its largest batch size


APPLICATIONS: Mapping[str, Facts] = {
    "bert": Facts(12, 120.0, 1.2, "nlp"),
    "cifar10": Facts(128, 50.0, 1.8, "cv"),
    "deepspeech2": Facts(20, 25.0, 1.2, "speech"),
    "imagenet": Facts(200, 250.0, 1.2, "cv"),
    "ncf": Facts(256, 15.0, 1.5, "other", rigid=True),
    "yolov3": Facts(8, 80.0, 1.2, "cv"),
}


def read_application(name: str, source: Source) -> Application:
    """The application of that name from the trace's companions. TraceError says what of it is missing or wrong."""
    speeds = {ours: speeds for theirs, ours in GPU_TYPES.items() if (speeds := _speeds(name, theirs, source))}
    if not speeds:
        wanted = f"{name}/placements-<gpu>.csv, <gpu> one of {', '.join(GPU_TYPES)}"
        raise TraceError(source.name, None, "application", f"the folder of profiles holds no {wanted}")
    return Application(name, _training(name, source), speeds, APPLICATIONS[name].slowdown)


_Samples = dict[float, list[tuple[float, float]]]

_SCALED = ("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
_SCALED_HEADER = (",".join(_SCALED),)  # the file of a GPU type that was measured only on few nodes may be absent


def _speeds(name: str, gpus: str, source: Source) -> Speeds | None:
    shapes: dict[Shape, _Samples] = {}
    counts: dict[tuple[int, int], _Samples] = {}
    file = f"{name}/placements-{gpus}.csv"
    if (lines := source.companion(file)) is None:
        return None
    for row in rows(file, lines, ("placement", "local_bsz", "step_time", "sync_time")):
        text = row.text("placement")
        if not (text.isdecimal() and text.isascii()) or "0" in text:
            raise row.wrong("placement", f"{shown(text)} is not one digit from 1 to 9 for each node")
        shape: Shape = tuple(map(int, text))
        _add(shapes.setdefault(canonical(shape), {}), row)
        _add(counts.setdefault((len(shape), sum(shape)), {}), row)
    if not shapes:
        raise TraceError(file, None, "placement", "no placement was measured")
    file = f"{name}/scalability-{gpus}.csv"
    for row in rows(file, source.companion(file) or _SCALED_HEADER, _SCALED):
        nodes, replicas = row.whole("num_nodes"), row.whole("num_replicas")
        if replicas < nodes:
            raise row.wrong("num_replicas", f"{replicas} GPUs cannot be on {nodes} nodes")
        _add(counts.setdefault((nodes, replicas), {}), row)
    return Speeds(
        {shape: _curve(samples) for shape, samples in shapes.items()},
        {count: _curve(samples) for count, samples in counts.items()},
    )


def _add(samples: _Samples, row: Row) -> None:
    step, sync = row.number("step_time", above=True), row.number("sync_time")
    if sync > step:
        raise row.wrong("sync_time", f"{sync:g} s is more than the whole step's {step:g} s")
    samples.setdefault(row.number("local_bsz", least=1), []).append((step, sync))


def _curve(samples: _Samples) -> Curve:
    """Repeated measurements count as their mean."""
    batches = sorted(samples)
    times = [[fmean(column) for column in zip(*samples[each], strict=True)] for each in batches]
    return Curve(tuple(batches), tuple(step for step, _ in times), tuple(sync for _, sync in times))


def _training(name: str, source: Source) -> Training:
    found: dict[int, list[tuple[float, float]]] = {}
    batch = APPLICATIONS[name].smallest_batch
    while (lines := source.companion(_validation(name, batch))) is not None:
        found[batch] = _epochs(_validation(name, batch), lines)
        batch *= 2
    if not found:
        raise TraceError(
            source.name, None, "application", f"the folder of profiles holds no {_validation(name, batch)}"
        )
    epochs = min(map(len, found.values()))
    ends = [found[each][epochs - 1] for each in sorted(found)]
    iterations = tuple(iteration for _, iteration in ends)
    return Training(tuple(map(float, sorted(found))), iterations, min(progress for progress, _ in ends))


def _validation(name: str, batch: int) -> str:
    return f"{name}/validation-{batch}.csv"


def _epochs(file: str, lines: Iterable[str]) -> list[tuple[float, float]]:
    found = [
        (row.number("progress", above=True), row.number("iteration", above=True))
        for row in rows(file, lines, ("progress", "iteration"))
    ]
    if not found:
        raise TraceError(file, 2, "progress", "no epoch was measured")
    return found


COLUMNS = (
    Column("name", "", "the job's name"),
    Column("time", "s", "arrival since the beginning of the trace"),
    Column("application", "", f"what it trains, a folder of the profiles: {', '.join(APPLICATIONS)}"),
    Column("num_replicas", "GPUs", "what a job tuned by hand asks for"),
    Column("batch_size", "samples", "of a job tuned by hand, over all its GPUs"),
)

OPTIONS = {
    "jobs": "adaptive (default): any of Sia's sizes, the batch size adapted to it; scale-gpus: powers of two up to "
    "num_replicas, with batch_size; rigid: num_replicas and batch_size",
    "most_gpus": "the largest size of an adaptive job; default 24",
    "tenants": "how many tenants the jobs are dealt out to, in turn; default 4",
    "gpu_types": "which of the profiled GPU types the jobs may use, with commas, where a cluster has others too; default any",
    "cores": "CPU cores that each job wants per GPU; default 1",
    "speeds": "known (default): the estimator has the profiles' goodput from the start; learned: only what jobs measure",
}


def read(source: Source, options: Mapping[str, str]) -> Iterator[TracedJob]:
    """The trace's jobs, numbered from 1 in the file's order; profiles are read when the first job needs them."""
    settings = _Settings(source, options)
    applications: dict[str, Application] = {}
    for number, row in enumerate(rows(source.name, source.lines, [each.name for each in COLUMNS]), start=1):
        name = row.text("application")
        if name not in APPLICATIONS:
            raise row.wrong("application", f"{shown(name)} is not one of {', '.join(APPLICATIONS)}")
        if name not in applications:
            applications[name] = read_application(name, source)
        yield settings.job(row, number, applications[name])


class _Settings:
    """The options, checked; they make a job of a row."""

    def __init__(self, source: Source, options: Mapping[str, str]) -> None:
        choices = Choices(source.name, options, OPTIONS)
        self._jobs = choices.word("jobs", "adaptive", "scale-gpus", "rigid")
        self._known = choices.word("speeds", "known", "learned") == "known"
        self._most, self._tenants = choices.whole("most_gpus", 24), choices.whole("tenants", 4)
        self._cores = choices.whole("cores", 1)
        self._types = frozenset(filter(None, options.get("gpu_types", "").split(",")))
        if unknown := sorted(self._types - set(GPU_TYPES.values())):
            detail = f"option gpu_types: {unknown[0]!r} is not one of {', '.join(GPU_TYPES.values())}"
            raise TraceError(source.name, None, None, detail)

    def job(self, row: Row, number: int, application: Application) -> TracedJob:
        facts = APPLICATIONS[application.name]
        size, batch = row.whole("num_replicas", most=MOST_GPUS), row.number("batch_size", least=1)
        _check_batch(row, application, size, batch)
        law, sizes = self._speed(application, size, batch, rigid=facts.rigid)
        job = Job(
            id=number,
            tenant=(number - 1) % self._tenants + 1,
            requirement=sizes,
            submitted_s=row.number("time"),
            gpu_types=self._types,
            cores=self._cores,
            category=facts.category,
            model_label=application.name if law.batch is None else f"{application.name} batch {law.batch:g}",
            total_samples=application.training.samples,
            movable=True,
        )
        return TracedJob(
            job,
            application.training.samples,
            law,
            name=row.text("name"),
            reports=True,
            restart_s=facts.restart_s,
            known=law.known(sizes) if self._known else {},
        )

    def _speed(
        self, application: Application, size: int, batch: float, *, rigid: bool
    ) -> tuple[Goodput, tuple[int, ...]]:
        """The job's speed and its sizes, as the option `jobs` has them."""
        if rigid:
            return Goodput(application, application.training.largest), (1,)
        if self._jobs == "adaptive":
            return Goodput(application), sia_sizes(application, self._most)
        powers_of_two = tuple(1 << k for k in range(size.bit_length()))
        return Goodput(application, batch), powers_of_two if self._jobs == "scale-gpus" else (size,)


def _check_batch(row: Row, application: Application, size: int, batch: float) -> None:
    training = application.training
    if not training.smallest <= batch <= training.largest:
        detail = f"{batch:g} is outside {training.smallest:g} to {training.largest:g}, which {application.name} was measured with"
        raise row.wrong("batch_size", detail)
    if batch < size:
        raise row.wrong("batch_size", f"{batch:g} samples cannot be shared by {size} GPUs")


def sia_sizes(application: Application, most: int) -> tuple[int, ...]:
    """Sia 3.3 over the application's GPU types: powers of two up to a node, then whole nodes."""
    found: set[int] = set()
    for speeds in application.speeds.values():
        node = speeds.node_gpus
        found |= {1 << k for k in range(node.bit_length())} | set(range(node, most + 1, node))
    return tuple(sorted(each for each in found if each <= most))


FORMAT = Format(
    "sia",
    "Sia's workloads: one training job a line, with the applications' measured profiles",
    COLUMNS,
    read,
    companions="the folder of profiles: for each application placements-<gpu>.csv, scalability-<gpu>.csv and "
    f"validation-<batch size>.csv; GPU types are named {', '.join(f'{a} = {b}' for a, b in GPU_TYPES.items())}",
    options=OPTIONS,
)
