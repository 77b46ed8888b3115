"""`./berth manage core_tuning 1044 3`: say how many cores a GPU suit a job best, for its owner's later jobs."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.foundation.errors import BerthError
from portal.people.tenants.services import audit_record
from portal.work.jobs.models import Job
from portal.work.jobs.services.cores import core_tuning_record, cores_tuned


class Command(BaseCommand):
    help = "Store the cores per GPU that suit a job best; its owner's later jobs of the category start with them."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("job", type=int, help="the job's number")
        parser.add_argument("cores_per_gpu", type=int, help="cores per GPU, from 1")

    def handle(self, *_args: Any, **options: Any) -> None:
        job = Job.objects.runnable().filter(pk=options["job"]).first()
        if job is None:
            raise CommandError(f"There is no job {options['job']}.")
        try:
            found = core_tuning_record(job=job, cores_per_gpu=options["cores_per_gpu"])
        except BerthError as error:
            raise CommandError(error.detail) from error
        audit_record(
            actor=None, action="core_tuning.set", target=f"job:{job.number}", detail={"cores": found.cores_per_gpu}
        )
        start = cores_tuned(owner_ids=[job.owner_id])[job.owner_id][job.category or None]
        whose = f"{job.owner}'s jobs of the category {job.category}" if job.category else f"{job.owner}'s jobs"
        self.stdout.write(f"{whose} start from {start} cores a GPU.")
