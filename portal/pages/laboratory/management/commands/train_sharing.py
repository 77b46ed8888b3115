"""`./berth train-sharing`: learn which jobs may share a GPU (DqnGPU), and write the policy with its training record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from portal.pages.laboratory.command import INTERRUPTED, LabCommand, Refused, database_check, outputs_check
from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.output.tables import Table
from portal.pages.laboratory.run.bars import progress_bars
from portal.pages.laboratory.sources.training_data import GENERATORS, generator_data, pair_data, telemetry_data
from scheduler.sharing.learned.record import PolicyFileError, Stored, packed, unpacked
from scheduler.simulator.sharing.training_runs import training_begin

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from scheduler.sharing.learned.training import Training
    from scheduler.simulator.sharing.training_runs import TrainingData

KEEP_EVERY = 20
"""Updates after which what is learnt so far is written."""
ROWS = 10


class Command(LabCommand):
    help = "Learn who may share a GPU with whom, and write the policy: a file with its network and its training record."

    def add_arguments(self, parser: ArgumentParser) -> None:
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--telemetry", action="store_true", help="learn from what this cluster's own jobs used")
        source.add_argument(
            "--pairs", type=Path, metavar="FILE", help="learn from a table of measured pairs, as Gavel's (CSV)"
        )
        source.add_argument("--generator", metavar="NAME", help=f"learn from drawn workloads: {', '.join(GENERATORS)}")
        parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same file (default 1)")
        parser.add_argument("--updates", type=int, help="how many times to learn (default: what takes a few minutes)")
        parser.add_argument("--gpu-type", default="v100", help="for --pairs: of which GPU (default v100)")
        parser.add_argument("--gpu-memory-mib", type=int, default=16384, help="for --telemetry: of the GPUs to share")
        parser.add_argument("--half", action="store_true", help="for --pairs: leave half of them out, to judge on")
        parser.add_argument(
            "--out", type=Path, required=True, metavar="FILE", help="the policy's file; unfinished, it is gone on with"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        outputs_check({"--out": options["out"]})
        for name in ("updates", "gpu_memory_mib"):
            if options[name] is not None and options[name] < 1:
                raise Refused(f"--{name.replace('_', '-')} must be at least 1.")
        if options["seed"] < 0:
            raise Refused("--seed must be 0 or more.")
        try:
            data = data_of(options)
        except SimulationError as error:
            raise Refused(error) from error
        training, earlier = self.begun(data, options)
        if training.over and earlier:
            self.stderr.write(f"{options['out']} is finished: {training.made} updates. Nothing was done.")
            return
        self.train(training, data, options["out"])
        self.stdout.write(curve_table(training).text())
        self.stderr.write(f"wrote {options['out']}")

    def begun(self, data: TrainingData, options: dict[str, Any]) -> tuple[Training, bool]:
        """Return the training, at its beginning or where the file is, and whether there was a file."""
        fresh = training_begin(data, options["seed"], options["updates"])
        out: Path = options["out"]
        if not out.exists() or out.stat().st_size == 0:
            return fresh, False
        stored = stored_read(out)
        same = (stored.frame, stored.limits, stored.recipe, stored.seed, dict(stored.about))
        if same != (data.observation.frame, data.observation.limits, fresh.recipe, fresh.seed, data.about()):
            raise Refused(
                f"--out: {out} holds another training (another source, seed or --updates); name another file."
            )
        self.stderr.write(f"going on with {out} after {len(stored.curve)} updates")
        return stored.resumed(data), True

    def train(self, training: Training, data: TrainingData, out: Path) -> None:
        """Train to the end; the network is written from time to time, and at a stop."""
        try:
            with progress_bars() as watch:
                show = watch(["training"])
                while not training.over:
                    training.update()
                    show([training.made / training.recipe.updates])
                    if training.made % KEEP_EVERY == 0 or training.over:
                        written(training, data, out)
        except KeyboardInterrupt:
            written(training, data, out)
            told = f"stopped after {training.made} updates; the same command goes on from there"
            raise CommandError(told, returncode=INTERRUPTED) from None


def data_of(options: dict[str, Any]) -> TrainingData:
    """Return the source that the options name. Raises SimulationError."""
    if options["generator"] is not None:
        return generator_data(options["generator"])
    if options["pairs"] is not None:
        return pair_data(options["pairs"], options["gpu_type"], half=options["seed"] if options["half"] else None)
    database_check("telemetry")
    return telemetry_data(options["gpu_memory_mib"])


def stored_read(path: Path) -> Stored:
    """Return a policy's file. Raises Refused, with the reason and the remedy."""
    try:
        return unpacked(path.read_bytes())
    except (OSError, PolicyFileError) as error:
        raise Refused(f"--out: {path} cannot be gone on with: {error}. Remove it, or name another file.") from error


def written(training: Training, data: TrainingData, out: Path) -> None:
    """Write what is learnt so far beside the file, then put it in its place. Raises CommandError when it cannot be written."""
    beside = out.with_name(out.name + ".part")
    try:
        beside.write_bytes(packed(training, data.observation.limits, data.about()))
        beside.replace(out)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise CommandError(f"{out} cannot be written: {error.strerror}.") from error


def curve_table(training: Training) -> Table:
    """Return the learning curve: the mean cost of an episode, over tenths of the training."""
    curve, rows = training.curve, []
    size = max(1, -(-len(curve) // ROWS))
    lowest = min(curve)
    for first in range(0, len(curve), size):
        mean = sum(curve[first : first + size]) / len(curve[first : first + size])
        rows.append((f"{first + 1} - {min(first + size, len(curve))}", mean, "#" * round(40 * mean / lowest)))
    return Table("Learning curve", ("updates", "mean reward", "cost"), rows, "The less an episode costs, the better.")
