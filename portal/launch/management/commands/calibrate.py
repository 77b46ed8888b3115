"""`./berth calibrate`: measures the bandwidth of links and network for each GPU type with short jobs, and stores it."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from portal.foundation.errors import BerthError
from portal.launch.operator import operator_account
from portal.people.tenants.models import Tenant, User
from portal.planning.estimation.calibration import (
    KINDS,
    Task,
    calibration_record,
    calibration_submit,
    calibration_tasks,
    links_table,
)
from portal.work.jobs.services.control import job_cancel
from portal.work.jobs.states import FINAL, JobState

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from portal.work.jobs.models import Job

LOOK_S = 0.5


class Command(BaseCommand):
    help = "Measure each GPU type's bandwidth within a node and between nodes, in parameters per second."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--gpu-type", action="append", help="measure only this type; may be given several times (default: all)"
        )
        parser.add_argument(
            "--tenant", help="the tenant in whose name the jobs run; needed when there are several tenants"
        )
        parser.add_argument("--again", action="store_true", help="measure again what was measured before")
        parser.add_argument("--show", action="store_true", help="print what is known, and measure nothing")
        parser.add_argument(
            "--wait-s",
            type=int,
            default=600,
            help="cancel a job that has not ended after so many seconds (default 600)",
        )
        parser.add_argument(
            "--python", default='"$BERTH_PYTHON"', help="the Python to use on the nodes, for example one with torch"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON list")

    def handle(self, *_args: Any, **options: Any) -> None:
        if options["wait_s"] < 1:
            raise CommandError("--wait-s must be at least 1.")
        problems = [] if options["show"] else self.measure_all(options)
        rows = links_table()
        self.stdout.write(json.dumps(rows) if options["json"] else table(rows))
        if problems:
            raise CommandError(" ".join(problems))

    def measure_all(self, options: dict[str, Any]) -> list[str]:
        """Measure one link after another, because two measurements at once would disturb each other. Return the problems."""
        try:
            actor, tenant = operator_account(), self.tenant(options["tenant"])
            tasks = calibration_tasks(names=options["gpu_type"], again=options["again"])
        except User.DoesNotExist as error:
            raise CommandError("There is no operator yet; run ./berth up once.") from error
        except BerthError as error:
            raise CommandError(error.detail) from error
        if not tasks:
            self.stderr.write("Everything is measured already. Use --again to measure anew.")
        return [problem for task in tasks if (problem := self.measure(task, actor, tenant, options))]

    def tenant(self, name: str | None) -> Tenant:
        tenants = Tenant.objects.order_by("pk")
        if name:
            found: Tenant | None = tenants.filter(name=name).first()
            if found is None:
                raise CommandError(f"There is no tenant {name}; --tenant takes one of: {names(tenants)}.")
            return found
        if tenants.count() != 1:
            raise CommandError(f"Choose with --tenant in whose name the jobs run: {names(tenants)}.")
        only: Tenant = tenants.get()
        return only

    def measure(self, task: Task, actor: User, tenant: Tenant, options: dict[str, Any]) -> str | None:
        what = f"{task.gpu_type.name} {KINDS[task.kind]}"
        if not task.possible:
            self.stderr.write(f"{what}: not measured, {task.why}.")
            return None
        try:
            limit_s = options["wait_s"]
            job = calibration_submit(
                task=task, actor=actor, tenant=tenant, python=options["python"], time_limit_s=limit_s
            )
            self.stderr.write(f"{what}: job {job.number}")
            self.wait(job, actor, limit_s)
            calibration_record(task=task, job=job, actor=actor)
        except BerthError as error:
            return f"{what}: {error.detail}"
        return None

    def wait(self, job: Job, actor: User, limit_s: float) -> None:
        """Wait until the job has ended. Cancel it on Ctrl-C, and when it takes too long; then raises BerthError."""
        until = time.monotonic() + limit_s
        try:
            while job.state not in FINAL:
                if time.monotonic() > until:
                    looked = job.reason not in {"", "not-planned-yet"}
                    waits = f"it waits: {job.reason if looked else 'no planning has looked at it; is Berth up?'}"
                    state = waits if job.state == JobState.PENDING else f"it is {job.state}"
                    raise BerthError("too_long", f"Job {job.number} did not end in {limit_s:g} s ({state}); cancelled.")
                time.sleep(LOOK_S)
                job.refresh_from_db()
        finally:
            if job.state not in FINAL:
                job_cancel(job=job, actor=actor)


def names(tenants: Any) -> str:
    return ", ".join(tenants.values_list("name", flat=True)) or "there is none yet"


def table(rows: list[dict[str, Any]]) -> str:
    """Return a table with one line for each bandwidth."""
    if not rows:
        return "No GPU type is known yet: no node with GPUs has joined."
    lines = [("GPU type", "link", "parameters/s", "measured", "how")]
    for row in rows:
        value = f"{row['parameters_per_s']:.3e}" if row["parameters_per_s"] else "not measured"
        at = (row["measured_at"] or ("assumed" if row["assumed"] else ""))[:16].replace("T", " ")
        lines.append((row["gpu_type"], KINDS[row["kind"]], value, at, row["method"]))
    widths = [max(len(line[column]) for line in lines) for column in range(4)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line[:4], widths, strict=True)), line[4]]).rstrip()
        for line in lines
    )
