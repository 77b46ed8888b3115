"""Everything that changes jobs. Views, the API, the agent door and plannings call these, and nothing else writes."""

from portal.work.jobs.services.control import job_cancel, job_hold, job_priority_set, job_release, job_requeue
from portal.work.jobs.services.cores import core_tuning_record
from portal.work.jobs.services.logs import log_append, logs_append
from portal.work.jobs.services.parts import node_parts_lose, report_apply
from portal.work.jobs.services.placing import attempt_start
from portal.work.jobs.services.reconciling import reconcile
from portal.work.jobs.services.retrying import job_retry
from portal.work.jobs.services.submission import (
    idempotency_keys_expire,
    job_submit,
    submission_check,
    submission_problems,
)

__all__ = [
    "attempt_start",
    "core_tuning_record",
    "idempotency_keys_expire",
    "job_cancel",
    "job_hold",
    "job_priority_set",
    "job_release",
    "job_requeue",
    "job_retry",
    "job_submit",
    "log_append",
    "logs_append",
    "node_parts_lose",
    "reconcile",
    "report_apply",
    "submission_check",
    "submission_problems",
]
