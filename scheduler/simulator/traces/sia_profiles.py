"""Sia's profiles (SOSP '23, public artefact): measured times and trainings of seven applications, one folder each.

- `placements-<gpu>.csv`: `placement` (one digit a node: its GPUs), `local_bsz` (samples a GPU and step), `step_time` and
  `sync_time` (s);
- `scalability-<gpu>.csv`: the same by `num_nodes` and `num_replicas` (GPUs in all), for more nodes;
- `validation-<batch size>.csv`: a whole training with that batch size, a row an epoch: `progress` (iterations at the
  smallest batch size that would have come as far) and `iteration` (the number of iterations made).

The constants below are facts of the artefact's simulator. `gpt_pmp` is not read: its sizes are whole pipelines,
of another length on each GPU type, which a requirement set cannot say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from scheduler.simulator.traces.csvrows import Row, rows
from scheduler.simulator.traces.source import Source, TraceError, shown
from scheduler.simulator.world.profiled import Application, Curve, Shape, Speeds, Training, canonical

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
