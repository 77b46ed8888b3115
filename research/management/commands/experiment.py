"""`./berth experiment NAME`: regenerate a paper's figures and set them beside the paper's."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError

from portal.pages.laboratory.command import INTERRUPTED, LabCommand, Refused, file_write, outputs_check
from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.output.told import page_html
from portal.pages.laboratory.run.bars import progress_bars
from research.experiments.base import ExperimentError, Options
from research.experiments.registry import MODULES, experiment_named
from scheduler.simulator.traces.source import TraceError
from scheduler.simulator.world.truth import SimulationError as EngineError

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from research.experiments.base import Experiment, Result


class Command(LabCommand):
    help = "Regenerate a paper's tables and figures with the simulator, beside the paper's figures."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", nargs="?", help=f"one of {', '.join(MODULES)}; none: list them")
        parser.add_argument(
            "--seeds", type=int, default=1, help="how many seeds, 1 upwards; medians are shown (default 1)"
        )
        parser.add_argument(
            "--processes",
            type=int,
            default=os.cpu_count() or 1,
            help="how many simulations run at once (default: one for each core)",
        )
        parser.add_argument("--data", type=Path, metavar="DIR", help="the folder with public traces (sia/, openb/ ...)")
        parser.add_argument(
            "--keep",
            type=Path,
            metavar="DIR",
            help="a folder in which finished simulations are kept, so that none is made twice",
        )
        parser.add_argument(
            "--list",
            type=Path,
            metavar="F",
            dest="lists",
            action="append",
            default=[],
            help="for openb: a list of pods in place of those in the folder; may be given again",
        )
        parser.add_argument("--trace", type=Path, metavar="F", help="for sia and sia-rounds: a workload of one's own")
        parser.add_argument("--quick", action="store_true", help="a smaller instance, to see that it works")
        parser.add_argument("--calibrate", action="store_true", help="show how its workload was fixed on the rival")
        parser.add_argument("--html", type=Path, metavar="OUT", help="write a page with the tables, too")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["name"] is None:
            self.list_all()
            return
        outputs_check({"--html": options["html"]})
        result = self.run_one(options)
        if options["html"]:
            facts = [
                ("Seeds", str(options["seeds"])),
                ("Size", "a smaller instance" if options["quick"] else "as the paper's"),
            ]
            page = page_html(title=f"Experiment {result.name}", facts=facts, tables=result.tables)
            file_write(options["html"], page)
        if options["json"]:
            self.stdout.write(json.dumps(result.json, sort_keys=True, indent=1, allow_nan=False))
        else:
            self.stdout.write("\n".join(table.text() for table in result.tables))

    def list_all(self) -> None:
        for name in MODULES:
            self.stdout.write(f"{name:14} {experiment_named(name).meaning}")

    def run_one(self, options: dict[str, Any]) -> Result:
        name = options["name"]
        if name not in MODULES:
            raise Refused(f"There is no experiment {name!r}; there are {', '.join(MODULES)}.")
        if options["seeds"] < 1:
            raise Refused("--seeds must be at least 1.")
        if options["processes"] < 1:
            raise Refused("--processes must be at least 1.")
        if options["data"] is not None and not options["data"].is_dir():
            raise Refused(f"--data: {options['data']} is no folder.")
        experiment = experiment_named(name)
        files_check(experiment, options)
        run = experiment.calibrate if options["calibrate"] else experiment.run
        if run is None:
            raise Refused(f"{name} has no calibration: its workload is as published. Leave --calibrate out.")
        chosen = Options(
            **{each: options[each] for each in ("seeds", "processes", "data", "quick", "keep", "lists", "trace")},
            say=self.stderr.write,
        )
        try:
            with progress_bars() as watch:
                return run(replace(chosen, watch=watch))
        except (ExperimentError, SimulationError, EngineError, TraceError) as error:
            raise Refused(error) from error
        except KeyboardInterrupt:
            kept = f"what is finished is kept in {options['keep']}" if options["keep"] else "nothing is kept"
            raise CommandError(f"stopped; {kept}", returncode=INTERRUPTED) from None


def files_check(experiment: Experiment, options: dict[str, Any]) -> None:
    """Refuse a file that the experiment would not read, or that is not there."""
    for key, option in (("lists", "--list"), ("trace", "--trace")):
        given = options[key]
        if not given:
            continue
        if key not in experiment.takes:
            raise Refused(f"{experiment.name} takes no such file: leave {option} out.")
        for file in given if isinstance(given, list) else [given]:
            if not file.is_file():
                raise Refused(f"{option}: {file} is no file.")
