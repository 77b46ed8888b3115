"""The flags of each benchmark of `./berth bench`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from research.bench import (
    anytime,
    databases,
    forecasting,
    planning,
)
from research.bench import round as rounds

if TYPE_CHECKING:
    from argparse import ArgumentParser


class Flags:
    """One method a benchmark; the command finds them by name."""

    def add_sharing(self, parser: ArgumentParser) -> None:
        parser.add_argument("--gpus", type=int, default=200, help="GPUs that jobs may share (default 200)")
        parser.add_argument("--jobs", type=int, default=1000, help="waiting jobs that share (default 1000)")
        parser.add_argument("--seed", type=int, default=1, help="seed of jobs and GPUs (default 1)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def add_log_match(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--repeat", type=int, default=20, help="runs of each case, of which the fastest counts (20)"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object")

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

    def add_agent(self, parser: ArgumentParser) -> None:
        parser.add_argument("--seconds", type=float, default=120.0, help="how long to measure (default 120)")
        parser.add_argument("--gpus", type=int, default=8, help="virtual GPUs of the node, a job on each (default 8)")
        parser.add_argument("--jobs", type=int, default=16, help="jobs in all, the others without GPUs (default 16)")
        help_print = "seconds from line to line of each job's output; 0: none (default 1)"
        parser.add_argument("--print-every", type=float, default=1.0, metavar="S", help=help_print)
        parser.add_argument("--json", action="store_true", help="print one JSON object")

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
        help_own = (
            "nodes with a speed of a job's own: plan by class with and without them, three times each (default 0)"
        )
        parser.add_argument("--own-speeds", type=int, default=0, metavar="N", help=help_own)
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
