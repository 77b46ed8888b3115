"""`./berth bench NAME`: run a benchmark and print its figures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from research.bench import (
    agent,
    anytime,
    databases,
    forecasting,
    latency,
    matching,
    never_late,
    pages,
    planning,
    plannings,
    sharing,
    simulation,
    telemetry,
)
from research.bench import round as rounds
from research.bench.errors import BenchError
from research.bench.flags import Flags

if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Callable

REFUSED = 2


class Command(Flags, BaseCommand):
    help = (
        "Run a benchmark. Names: latency (from submit to running), planning (placing one window), round (a whole planning, "
        "with the database), plannings (times of past plannings), pages (all pages of a large cluster), never-late (does a "
        "planning take longer than its limit?), anytime (how good is a plan when its time ends early?), simulate (the "
        "simulator's speed), forecast (how good start ranges are), telemetry (what a node's measuring costs), agent (a whole "
        "agent and its shims), sharing (placing jobs on shared GPUs), log-match (looking through logs for texts)."
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
        self.add_agent(
            names.add_parser("agent", help="a whole agent with its jobs, beside a real portal: CPU and memory")
        )
        self.add_log_match(names.add_parser("log-match", help="looking through logs for what their jobs name"))
        self.add_sharing(names.add_parser("sharing", help="giving jobs places on shared GPUs, by each policy"))

    def log_match(self, options: dict[str, Any]) -> str:
        if options["repeat"] < 1:
            raise CommandError("--repeat must be at least 1.", returncode=REFUSED)
        return matching.matching_report(matching.matching_measure(repeat=options["repeat"]), as_json=options["json"])

    def sharing(self, options: dict[str, Any]) -> str:
        if options["gpus"] < 1 or options["jobs"] < 1:
            raise CommandError("--gpus and --jobs must be at least 1.", returncode=REFUSED)
        figures = sharing.sharing_measure(gpus=options["gpus"], jobs=options["jobs"], seed=options["seed"])
        return json.dumps(figures) if options["json"] else sharing.sharing_text(figures)

    def telemetry(self, options: dict[str, Any]) -> str:
        sizes = {name: options[name] for name in ("seconds", "gpus", "jobs")}
        try:
            rows = telemetry.telemetry_measure(heartbeats_s=options["heartbeat"] or telemetry.HEARTBEATS_S, **sizes)
        except BenchError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        return json.dumps({"heartbeats": rows}) if options["json"] else telemetry.telemetry_words(rows)

    def agent(self, options: dict[str, Any]) -> str:
        try:
            figures = agent.agent_measure(
                **{name: options[name] for name in ("seconds", "gpus", "jobs", "print_every")}
            )
        except BenchError as error:
            raise CommandError(str(error), returncode=REFUSED) from error
        return agent.agent_words(figures, as_json=options["json"])

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
        shared = ("gpus", "jobs", "seed", "workload", "gap", "limit_s")
        single = options["own_speeds"] > 0
        measure = planning.own_speeds_measure if single else planning.planning_measure
        names = (*shared, "own_speeds") if single else (*shared, "formulation", "located_gap")
        try:
            figures = measure(**{name: options[name] for name in names})
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
