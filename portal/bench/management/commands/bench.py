"""`./berth bench NAME`: run a benchmark and print its figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from portal.bench import (
    anytime,
    databases,
    forecasting,
    latency,
    never_late,
    pages,
    planning,
    plannings,
    sharing,
    simulation,
    telemetry,
)
from portal.bench import round as rounds
from portal.bench.errors import BenchError

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

REFUSED = 2


class Command(BaseCommand):
    help = (
        "Run a benchmark. Names: latency (from submit to running), planning (placing one window), round (a whole planning, "
        "with the database), plannings (times of past plannings), pages (all pages of a large cluster), never-late (does a "
        "planning take longer than its limit?), anytime (how good is a plan when its time ends early?), simulate (the "
        "simulator's speed), forecast (how good start ranges are), telemetry (what a node's measuring costs), sharing (placing "
        "jobs on shared GPUs)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        names = parser.add_subparsers(dest="name", required=True)
        self.add_latency(names.add_parser("latency", help="submit to running on an idle virtual GPU"))
        self.add_planning(names.add_parser("planning", help="placing one window of a seeded queue on a seeded cluster"))
        self.add_round(
            names.add_parser("round", help="whole plannings, from the database and back, on a seeded cluster")
        )
        self.add_plannings(names.add_parser("plannings", help="what the last plannings of this Berth took"))
        self.add_pages(names.add_parser("pages", help="every page, fragment and REST list, at size"))
        help_late = "plannings of random and adversarial instances under short limits"
        self.add_never_late(names.add_parser("never-late", help=help_late))
        self.add_anytime(names.add_parser("anytime", help="placing one window within shares of the time limit"))
        self.add_simulate(names.add_parser("simulate", help="the simulator: events a second, for n jobs and for 10 n"))
        self.add_forecast(names.add_parser("forecast", help="start ranges, replayed: how many held, and how wide"))
        self.add_telemetry(names.add_parser("telemetry", help="what each heartbeat of a node costs, in CPU and bytes"))

        self.add_sharing(names.add_parser("sharing", help="giving jobs places on shared GPUs, by each policy"))

    def add_sharing(self, parser: ArgumentParser) -> None:
        parser.add_argument("--gpus", type=int, default=200, help="GPUs that jobs may share (default 200)")
        parser.add_argument("--jobs", type=int, default=1000, help="waiting jobs that share (default 1000)")
        parser.add_argument("--seed", type=int, default=1, help="seed of jobs and GPUs (default 1)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def sharing(self, options: dict[str, Any]) -> str:
        if options["gpus"] < 1 or options["jobs"] < 1:
            raise CommandError("--gpus and --jobs must be at least 1.", returncode=REFUSED)
        figures = sharing.sharing_measure(gpus=options["gpus"], jobs=options["jobs"], seed=options["seed"])
        return json.dumps(figures) if options["json"] else sharing.sharing_text(figures)

    def add_telemetry(self, parser: ArgumentParser) -> None:
        help_beat = "seconds between two readings, 0.001 to 10; may be given again (default 0.001, 0.01, 0.1, 1 and 10)"
        parser.add_argument("--heartbeat", type=float, action="append", metavar="S", help=help_beat)
        parser.add_argument(
            "--seconds",
            type=float,
            default=15.0,
            help="how long each heartbeat is measured, in seconds; at least three heartbeats (default 15)",
        )
        parser.add_argument(
            "--gpus", type=int, default=8, help="virtual GPUs, where the machine has no real ones (default 8)"
        )
        parser.add_argument("--jobs", type=int, default=16, help="how many jobs run meanwhile (default 16)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def telemetry(self, options: dict[str, Any]) -> str:
        sizes = {name: options[name] for name in ("seconds", "gpus", "jobs")}
        try:
            rows = telemetry.telemetry_measure(heartbeats_s=options["heartbeat"] or telemetry.HEARTBEATS_S, **sizes)
        except BenchError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        return json.dumps({"heartbeats": rows}) if options["json"] else telemetry.telemetry_words(rows)

    def add_latency(self, parser: ArgumentParser) -> None:
        parser.add_argument("--submissions", type=int, default=100, help="how many jobs (default 100)")
        parser.add_argument("--url", help="measure this Berth instead of starting one; needs --token")
        parser.add_argument("--token", help="an API token with the scopes jobs:read and jobs:write")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def add_planning(self, parser: ArgumentParser) -> None:
        parser.add_argument("--gpus", type=int, default=512, help="GPUs in nodes of 8 (default 512)")
        parser.add_argument("--jobs", type=int, default=500, help="queued jobs (default 500)")
        parser.add_argument("--seed", type=int, default=1, help="seed of cluster, queue and solver (default 1)")
        parser.add_argument("--formulation", choices=(*planning.FORMULATIONS, planning.BOTH), default=planning.BOTH)
        parser.add_argument("--workload", choices=planning.WORKLOADS, default="gpu-only")
        parser.add_argument("--gap", type=float, help="gap allowed to the aggregated one (default: by size)")
        parser.add_argument(
            "--located-gap",
            type=float,
            default=planning.LOCATED_GAP,
            help="gap allowed to the located one (default 0.01)",
        )
        parser.add_argument("--limit-s", type=float, default=60.0, help="time limit of each, in seconds (default 60)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def add_round(self, parser: ArgumentParser) -> None:
        parser.add_argument("--gpus", type=int, default=8000, help="GPUs in nodes of 8 (default 8000)")
        parser.add_argument("--jobs", type=int, default=100_000, help="queued jobs (default 100000)")
        parser.add_argument("--seed", type=int, default=1, help="seed of cluster and queue (default 1)")
        parser.add_argument("--policy", choices=rounds.POLICIES, action="append", help="this one only (default both)")
        parser.add_argument(
            "--repeat", type=int, default=3, help="plannings measured a policy, after two that are not (default 3)"
        )
        self.add_database(parser)

    def add_plannings(self, parser: ArgumentParser) -> None:
        parser.add_argument("--last", type=int, default=200, help="how many (default 200)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def add_never_late(self, parser: ArgumentParser) -> None:
        parser.add_argument("--instances", type=int, default=200, help="how many (default 200)")
        parser.add_argument("--seed", type=int, default=1, help="seed of the instances (default 1)")
        parser.add_argument("--long", type=int, default=0, help="queues of 100000 jobs, planned besides (default 0)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def add_anytime(self, parser: ArgumentParser) -> None:
        parser.add_argument("--gpus", type=int, action="append", help="size of a cluster (default 512 and 10000)")
        parser.add_argument(
            "--workload", choices=anytime.WORKLOADS, action="append", help="by default gpu-only and mixed"
        )
        parser.add_argument("--seed", type=int, default=1, help="seed of cluster, queue and solver (default 1)")
        parser.add_argument(
            "--limit-s", type=float, default=anytime.LIMIT_S, help="the time limit in seconds (default 15)"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def add_simulate(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--jobs", type=int, default=2000, help="how many jobs; then ten times as many (default 2000)"
        )
        parser.add_argument("--gpus", type=int, default=512, help="GPUs in nodes of 8 (default 512)")
        parser.add_argument("--load", type=float, default=0.7, help="share of the GPUs that jobs need (default 0.7)")
        parser.add_argument("--policy", default="fifo", help="any policy or rival (default fifo)")
        parser.add_argument("--seed", type=int, default=1, help="seed of the jobs and the simulation (default 1)")
        parser.add_argument("--trace", type=Path, help="replay this file instead; needs --format and --cluster")
        parser.add_argument("--format", help="the trace's format (docs/traces.md)")
        parser.add_argument("--cluster", type=Path, help="a cluster file")
        parser.add_argument("--until-days", type=float, help="cut the trace off after so many days")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def add_forecast(self, parser: ArgumentParser) -> None:
        parser.add_argument("--workload", choices=forecasting.WORKLOADS, default="demo")
        parser.add_argument("--data", type=Path, help="for philly: the folder of traces that holds philly/")
        parser.add_argument(
            "--hours", type=float, help="virtual hours in which ranges are given (default 3; philly 192)"
        )
        parser.add_argument("--seed", type=int, default=1, help="seed of workload and draws (default 1)")
        parser.add_argument("--unlearned", action="store_true", help="predict without what the past taught")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def add_pages(self, parser: ArgumentParser) -> None:
        parser.add_argument("--nodes", type=int, default=1000, help="how many nodes of 8 GPUs (default 1000)")
        parser.add_argument(
            "--jobs", type=int, default=100_000, help="queued jobs; half as many have ended (default 100000)"
        )
        parser.add_argument("--seed", type=int, default=1, help="seed of cluster and queue (default 1)")
        parser.add_argument(
            "--requests", type=int, default=20, help="how often each reader asks for a page (default 20)"
        )
        parser.add_argument("--only", default="*", help="pages whose names match, for example 'overview*'")
        parser.add_argument("--filled", action="store_true", help="with --here: an earlier run has filled the database")
        self.add_database(parser)

    def add_database(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--database",
            choices=databases.KINDS,
            default="postgres",
            help="default postgres: a server of our own, or a new database on the one that DATABASE_URL names",
        )
        parser.add_argument(
            "--sqlite", dest="database", action="store_const", const="sqlite", help="the same as --database sqlite"
        )
        parser.add_argument(
            "--here", action="store_true", help="fill and measure Berth's own database, which must be empty"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def forecast(self, options: dict[str, Any]) -> str:
        names = ("workload", "data", "seed", "hours")
        try:
            figures = forecasting.forecast_measure(
                **{name: options[name] for name in names}, learns=not options["unlearned"]
            )
        except BenchError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        return forecasting.forecast_report(figures, as_json=options["json"])

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(getattr(self, options["name"].replace("-", "_"))(options))

    def planning(self, options: dict[str, Any]) -> str:
        names = ("gpus", "jobs", "seed", "formulation", "workload", "gap", "located_gap", "limit_s")
        try:
            figures = planning.planning_measure(**{name: options[name] for name in names})
        except (planning.PlanningBenchError, ValueError) as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        return planning.planning_report(figures, as_json=options["json"])

    def round(self, options: dict[str, Any]) -> str:
        def measure() -> dict[str, Any]:
            values = {name: options[name] for name in ("gpus", "jobs", "seed", "repeat")}
            return rounds.round_measure(**values, policies=options["policy"] or rounds.POLICIES)

        figures = self.measured(options, ("gpus", "jobs", "seed", "repeat", "policy"), measure)
        return rounds.round_report(figures, as_json=options["json"])

    def plannings(self, options: dict[str, Any]) -> str:
        try:
            figures = plannings.plannings_measure(last=options["last"])
        except BenchError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        return plannings.plannings_report(figures, as_json=options["json"])

    def pages(self, options: dict[str, Any]) -> str:
        names = ("nodes", "jobs", "seed", "requests", "only")
        if options["filled"] and not options["here"]:
            raise CommandError("Give --filled with --here: a private database is always a new one.", returncode=REFUSED)

        def measure() -> dict[str, Any]:
            return pages.pages_measure(**{name: options[name] for name in names}, filled=options["filled"])

        figures = self.measured(options, names, measure)
        return pages.pages_report(figures, as_json=options["json"])

    def measured(
        self, options: dict[str, Any], names: tuple[str, ...], measure: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Measure here, or by a process of its own on a private database that passes the options on."""
        try:
            if options["here"]:
                return measure()
            arguments = [options["name"]]
            for name in names:
                given = options[name] if isinstance(options[name], list) else [options[name]]
                arguments += [f"--{name}={value}" for value in given if value is not None]
            return databases.measure_apart(arguments=arguments, kind=options["database"])
        except BenchError as error:
            raise CommandError(str(error), returncode=REFUSED) from error

    def never_late(self, options: dict[str, Any]) -> str:
        if options["instances"] < 1:
            raise CommandError("--instances must be at least 1.", returncode=REFUSED)
        figures = never_late.never_late_measure(
            instances=options["instances"], seed=options["seed"], long=options["long"]
        )
        return never_late.never_late_report(figures, as_json=options["json"])

    def anytime(self, options: dict[str, Any]) -> str:
        try:
            figures = anytime.anytime_measure(
                sizes=options["gpus"] or anytime.SIZES,
                kinds=options["workload"] or anytime.KINDS,
                seed=options["seed"],
                limit_s=options["limit_s"],
            )
        except BenchError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        return anytime.anytime_report(figures, as_json=options["json"])

    def simulate(self, options: dict[str, Any]) -> str:
        try:
            return simulation.simulation_report(self.simulated(options), as_json=options["json"])
        except (BenchError, ValueError) as error:
            raise CommandError(str(error), returncode=REFUSED) from error

    def simulated(self, options: dict[str, Any]) -> dict[str, Any]:
        same = {"policy": options["policy"], "seed": options["seed"]}
        if options["trace"] is None:
            return simulation.simulation_measure(**{name: options[name] for name in ("jobs", "gpus", "load")}, **same)
        if not options["format"] or options["cluster"] is None:
            raise BenchError("Give --format and --cluster with --trace.")
        more = {"cluster": options["cluster"], "until_days": options["until_days"]}
        return simulation.trace_measure(trace=options["trace"], form=options["format"], **more, **same)

    def latency(self, options: dict[str, Any]) -> str:
        if options["submissions"] < 1:
            raise CommandError("--submissions must be at least 1.", returncode=REFUSED)
        if bool(options["url"]) != bool(options["token"]):
            raise CommandError("Give --url and --token together, or neither.", returncode=REFUSED)
        try:
            if options["url"]:
                figures = self.measure(options["url"], options["token"], options["submissions"])
            else:
                with latency.berth_idle() as (url, token):
                    figures = self.measure(url, token, options["submissions"])
        except BenchError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        return latency.report(figures, as_json=options["json"])

    def measure(self, url: str, token: str, submissions: int) -> dict[str, Any]:
        return latency.latency_measure(url=url, token=token, submissions=submissions)
