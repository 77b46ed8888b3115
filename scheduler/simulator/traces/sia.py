"""Sia's workloads (SOSP '23, public artefact): one job a line, with the profiles of the applications that they run.

A job's work is a whole training of its application, in samples at the smallest batch size, and its speed the goodput of its
GPUs (see `scheduler.simulator.world.profiled`). `jobs=adaptive`: as Sia and Pollux take them, the batch size adapted to the GPUs,
and any of Sia's sizes accepted: powers of two within a node, whole nodes beyond (Sia 3.3), up to `most_gpus`.
`jobs=rigid`: as tuned by hand for schedulers without that, on `num_replicas` GPUs with `batch_size` (4.2, "TunedJobs").
`jobs=scale-gpus`: the batch size stays `batch_size`, the GPUs may be fewer: powers of two up to `num_replicas`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduler.model import Job
from scheduler.simulator.traces.choices import Choices
from scheduler.simulator.traces.csvrows import Row, rows
from scheduler.simulator.traces.sia_profiles import APPLICATIONS, GPU_TYPES, read_application
from scheduler.simulator.traces.source import MOST_GPUS, Column, Format, Source, TraceError, shown
from scheduler.simulator.world.profiled import Application, Goodput
from scheduler.simulator.world.truth import TracedJob

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
