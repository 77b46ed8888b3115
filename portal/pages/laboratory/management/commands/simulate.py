"""`./berth simulate`: replay a trace under several policies and compare them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError
from django.utils import timezone

from portal.pages.laboratory.command import INTERRUPTED, LabCommand, Refused, database_check, file_write, outputs_check
from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.output import told
from portal.pages.laboratory.run.bars import progress_bars
from portal.pages.laboratory.run.simulating import Request, knobs_parse, simulation_run
from portal.pages.laboratory.sources.clusters import cluster_read
from portal.pages.laboratory.sources.generators import GENERATORS, GeneratedJobs
from portal.pages.laboratory.sources.history import cluster_registered, history_rows, knobs_in_force
from portal.pages.laboratory.sources.traces import TraceFile
from scheduler.policies.registry import POLICIES
from scheduler.simulator.rivals import RIVALS
from scheduler.simulator.traces.registry import FORMATS
from scheduler.simulator.traces.source import TraceError

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from portal.pages.laboratory.sources.clusters import ClusterFile

EVERY = ", ".join([*POLICIES, *RIVALS])


OPTIONS = {"policies": "policy", "until_h": "until", "knobs": "knob"}
"""How the command names what form and REST name otherwise."""


class Command(LabCommand):
    help = "Replay a trace on a described cluster under several policies, with the service's own scheduler."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--trace", type=Path, metavar="F", help="the file with the trace; formats are in docs/traces.md"
        )
        parser.add_argument("--format", metavar="NAME", help=f"its format: {', '.join(FORMATS)}")
        parser.add_argument(
            "--history",
            type=float,
            metavar="DAYS",
            help="replay what this Berth was asked to do in the last so many days, in place of a trace, with its knobs in force",
        )
        parser.add_argument("--generator", metavar="NAME", help=f"in place of a trace: {', '.join(GENERATORS)}")
        parser.add_argument(
            "--profiles", type=Path, metavar="DIR", help="the folder that the format reads beside the trace"
        )
        parser.add_argument(
            "--option", action="append", default=[], metavar="N=V", help="an option of the format or generator"
        )
        parser.add_argument(
            "--cluster",
            type=Path,
            metavar="C.yaml",
            help="the cluster file; see examples/clusters/ (default with --history: this Berth's own cluster)",
        )
        parser.add_argument("--policy", metavar="A,B,C", help=f"of {EVERY} (default: the one in force, else berth)")
        parser.add_argument(
            "--knob",
            action="append",
            default=[],
            metavar="N=V",
            help="a knob of the scheduler; they are in docs/settings.md; may be given again",
        )
        parser.add_argument("--seed", type=int, default=1, help="the seed of noise and solver (default 1)")
        parser.add_argument("--until", type=float, metavar="H", help="end the simulation after so many virtual hours")
        parser.add_argument(
            "--processes",
            type=int,
            default=os.cpu_count() or 1,
            help="how many policies are simulated at once (default: one for each core)",
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--csv", type=Path, metavar="OUT", help="write the figures as CSV, too")
        parser.add_argument("--html", type=Path, metavar="OUT", help="write a page with plots, too")

    def handle(self, *args: Any, **options: Any) -> None:
        outputs_check({"--csv": options["csv"], "--html": options["html"]})
        try:
            answer = self.simulated(options)
        except TraceError as error:
            raise Refused(error) from error
        except SimulationError as error:
            raise Refused(f"{OPTIONS.get(error.field, error.field)}: {error.detail}") from error
        except KeyboardInterrupt:
            raise CommandError("stopped; nothing is kept", returncode=INTERRUPTED) from None
        if options["csv"]:
            file_write(options["csv"], told.as_csv(answer))
        if options["html"]:
            file_write(options["html"], told.as_html(answer))
        if options["json"]:
            self.stdout.write(told.as_json(answer))
        else:
            self.stdout.write("\n".join(table.text() for table in told.as_tables(answer)))

    def simulated(self, options: dict[str, Any]) -> dict[str, Any]:
        given = [name for name in ("trace", "history", "generator") if options[name] is not None]
        if len(given) != 1:
            raise SimulationError("trace", "give one of --trace (with --format), --history and --generator")
        for name in ("format", "profiles"):
            if options[name] is not None and given != ["trace"]:
                raise SimulationError(name, f"--{name} goes with --trace alone")
        with TemporaryDirectory(prefix="berth-h-") as folder:
            if given == ["history"]:
                request = self.past(options, Path(folder))
            else:
                request = self.replayed(options) if given == ["trace"] else self.generated(options)
            request.check()
            with progress_bars() as watch:
                return simulation_run(request=request, processes=options["processes"], watch=watch(request.policies))

    def replayed(self, options: dict[str, Any]) -> Request:
        """Return a request for the user's trace, with the defaults of the knobs."""
        for name in ("format", "cluster"):
            if options[name] is None:
                raise SimulationError(name, f"a trace needs --{name}")
        trace = TraceFile(options["trace"], options["format"], options["profiles"], self.pairs(options))
        return self.request(options, trace, cluster_read(options["cluster"]), "berth", {})

    def past(self, options: dict[str, Any], folder: Path) -> Request:
        """Return a request for this Berth's history; a knob that is not given has its value in force."""
        database_check("history")
        rows = history_rows(days=options["history"], now=timezone.now())
        path = folder / f"last-{options['history']:g}-days.jsonl"
        with path.open("w") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)
        cluster = cluster_registered() if options["cluster"] is None else cluster_read(options["cluster"])
        trace = TraceFile(path, "berth-jsonl", None, self.pairs(options))
        return self.request(options, trace, cluster, *knobs_in_force())

    def generated(self, options: dict[str, Any]) -> Request:
        """Return a request for a generator's jobs, on its own cluster unless another is given."""
        jobs = GeneratedJobs.of(options["generator"], options["seed"], self.pairs(options))
        cluster = jobs.cluster() if options["cluster"] is None else cluster_read(options["cluster"])
        return self.request(options, jobs, cluster, "berth", {})

    def request(
        self,
        options: dict[str, Any],
        jobs: TraceFile | GeneratedJobs,
        cluster: ClusterFile,
        policy: str,
        knobs: dict[str, Any],
    ) -> Request:
        names = policy if options["policy"] is None else options["policy"]
        return Request(
            jobs,
            cluster,
            tuple(filter(None, (name.strip() for name in names.split(",")))),
            options["seed"],
            knobs | knobs_parse(given=options["knob"]),
            options["until"],
        )

    def pairs(self, options: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for text in options["option"]:
            key, equals, value = text.partition("=")
            if not equals or not key:
                raise SimulationError("option", f"{text!r} is not name=value")
            found[key] = value
        return found
