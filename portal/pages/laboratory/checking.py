"""Whether a simulation is possible as it is asked for, and its inputs. Every refusal names its field."""

from __future__ import annotations

import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from portal.foundation.errors import BerthError
from portal.foundation.strict_yaml import text_represent
from portal.pages.laboratory.errors import SimulationError as LabError
from portal.pages.laboratory.limits import asked_check
from portal.pages.laboratory.models import LabTrace
from portal.pages.laboratory.sources.clusters import ClusterFile, cluster_parse
from portal.pages.laboratory.sources.generators import GENERATORS, tenant_names
from portal.pages.laboratory.sources.traces import TraceFile
from portal.planning.rounds.settings.knobs import knobs_current
from scheduler.parameters import PARAMETERS
from scheduler.simulator.traces.registry import FORMATS
from scheduler.simulator.traces.source import TraceError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from portal.pages.laboratory.models import Simulation
    from portal.people.tenants.models import User
    from scheduler.simulator.world.truth import TracedJob, World


LONE_FORMATS = {name: form for name, form in FORMATS.items() if not form.companions}
"""Formats that read no other file beside the trace."""
MOST_DESCRIPTION_KIB = 256
"""2000 nodes described one by one take half of it; reading it takes 0.2 s of the portal's time."""


@dataclass(frozen=True, slots=True)
class SimulationOrder:
    """A user's request: a trace, or a generator and its number of jobs; a cluster's description ("": the generator's)."""

    name: str
    policies: Sequence[str]
    trace: LabTrace | None = None
    generator: str = ""
    generated_jobs: int | None = None
    cluster: str = ""
    cluster_name: str = ""
    knobs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 1
    until_h: float | None = None


@dataclass(frozen=True, slots=True)
class Inputs:
    """The simulator's input, and the tenants' names by number."""

    jobs: Sequence[TracedJob]
    world: World
    names: Mapping[int, str]


def trace_measure(*, form: str, content: bytes, most: int) -> tuple[int, float]:
    """Read a whole trace; return its jobs and the seconds from the first arrival to the last."""
    if form not in FORMATS:
        raise BerthError(
            "invalid", f"There is no trace format {form!r}; there are {', '.join(LONE_FORMATS)}.", field="format"
        )
    if form not in LONE_FORMATS:
        detail = (
            f"A {form} trace is read beside other files ({FORMATS[form].companions}), which the laboratory does not take; "
            "use ./berth simulate --profiles."
        )
        raise BerthError("invalid", detail, field="format")
    try:
        with _as_file(content, form, most) as file:
            return file.measured()
    except (TraceError, LabError) as error:
        detail = str(error).replace(FILE_NAME, "the file")
        raise BerthError("invalid", detail, field="file") from error


FILE_NAME = "trace"
NOWHERE = cluster_parse("nodes: [{cores: 1, memory_gib: 1}]")
"""A cluster, where one is asked for and none matters."""


@contextmanager
def _as_file(content: bytes, form: str, most: int | None) -> Iterator[TraceFile]:
    """Make an uploaded trace a file while it is read, because readers open files."""
    with tempfile.TemporaryDirectory(prefix="berth-laboratory-") as folder:
        path = Path(folder) / FILE_NAME
        path.write_bytes(content)
        yield TraceFile(path, form, most_jobs=most)


def cluster_checked(text: str) -> ClusterFile:
    """Return the described cluster. Raises BerthError that says what is wrong with the description."""
    description_check(len(text))
    try:
        return cluster_parse(text, name="the description")
    except LabError as error:
        raise BerthError("invalid", str(error), field="cluster") from error


def description_check(chars: int) -> None:
    """Refuse a description that would keep the portal busy. Raises BerthError."""
    if chars > MOST_DESCRIPTION_KIB * 1024:
        detail = (
            f"The description is longer than {MOST_DESCRIPTION_KIB} KiB; describe alike nodes as one group (`count`)."
        )
        raise BerthError("too_large", detail, field="cluster", status=413)


def order_check(*, user: User, order: SimulationOrder) -> None:
    """Raise BerthError when the order cannot be simulated; `user` must be allowed to see the trace."""
    knobs = knobs_current()
    _check_asked(order)
    if order.trace is not None:
        if order.generator or not LabTrace.objects.visible_to(user).filter(pk=order.trace.pk).exists():
            raise BerthError("invalid", "Choose one of your traces, or a generator.", field="trace")
        if order.generated_jobs is not None:
            raise BerthError("invalid", "A trace has its own jobs; leave `jobs` out.", field="jobs")
        if not order.cluster:
            raise BerthError("blank", "A trace needs a cluster: describe one, or take this one.", field="cluster")
    else:
        _check_generator(order, knobs["laboratory_jobs"])
    if order.cluster:
        nodes = cluster_checked(order.cluster).world.nodes_counted
        if nodes > knobs["laboratory_nodes"]:
            detail = f"The cluster has {nodes} nodes; the laboratory takes at most {knobs['laboratory_nodes']}."
            raise BerthError("too_large", detail, field="cluster")


def _check_generator(order: SimulationOrder, most: int) -> None:
    if order.generator not in GENERATORS:
        names = ", ".join(GENERATORS)
        raise BerthError("invalid", f"Choose a trace, or a generator: {names}.", field="generator")
    if order.generated_jobs is None or not 1 <= order.generated_jobs <= most:
        raise BerthError("invalid", f"`jobs` must be a whole number from 1 to {most}.", field="jobs")


def _check_asked(order: SimulationOrder) -> None:
    known = {parameter.name for parameter in PARAMETERS}
    for name in order.knobs:
        if name == "policy" or name not in known:
            raise BerthError("unknown_field", f"No knob {name!r}; there are {', '.join(sorted(known))}.", field="knobs")
    try:
        asked_check(policies=order.policies, seed=order.seed, until_h=order.until_h, knobs=order.knobs)
    except LabError as error:
        raise BerthError("invalid", error.detail, field=error.field) from (error.__cause__ or error)


def inputs_of(simulation: Simulation) -> Inputs:
    """Return the input of a stored simulation. The same row, the same input. Raises LabError."""
    cluster = cluster_checked(simulation.cluster) if simulation.cluster else None
    if simulation.trace is None:
        generator, seed = GENERATORS[simulation.generator], simulation.seed
        world = generator.make(seed, 1)[1] if cluster is None else cluster.world
        jobs = generator.jobs_in(world, seed, simulation.generated_jobs)
        return Inputs(jobs, world, tenant_names(jobs, cluster))
    trace = simulation.trace
    try:
        content = zlib.decompress(bytes(trace.content))
    except zlib.error as error:
        raise LabError("trace", "what is stored of it is damaged; upload it again") from error
    with _as_file(content, trace.format, None) as file:
        jobs, names = file.read(cluster or NOWHERE)
    return Inputs(jobs, (cluster or NOWHERE).world, names)


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes what `yaml_strict` reads back."""


_Dumper.add_representer(str, text_represent)


def description_of(cluster: Mapping[str, Any]) -> str:
    """Return a cluster's description as text."""
    return yaml.dump(dict(cluster), Dumper=_Dumper, sort_keys=False, default_flow_style=None)
