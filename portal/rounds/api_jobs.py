"""`/api/v1/jobs/plan` and `/api/v1/jobs/N/explain`: what a planning would do with a job, and what it did and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rest_framework.response import Response

from portal.api.base import ApiView
from portal.api.parsers import request_object
from portal.api.queries import Query
from portal.api.schema import RawSchema, documented, parameter
from portal.api.throttles import PlanThrottle
from portal.jobs import services
from portal.jobs.api.jobs import JOB_PATH, job_of
from portal.jobs.declaration.openapi import EXAMPLES, JobDescription
from portal.rounds.asking.dryrun import dry_run
from portal.rounds.asking.whatif import remedies
from portal.rounds.read.explained import explanation
from portal.rounds.serializers import PlanAnswer, finite
from portal.rounds.settings.knobs import knobs_current
from portal.tenants.authentication import tenant_of

if TYPE_CHECKING:
    from rest_framework.request import Request


class JobsPlanView(ApiView):
    """A dry run loads the whole queue and solves, so each user has only so many a minute."""

    write_scope = "jobs:write"
    http_method_names: ClassVar[list[str]] = ["post"]
    throttle_classes: ClassVar[list[Any]] = [PlanThrottle]

    @documented(
        "Say what would happen to a job now, without submitting it",
        answer=PlanAnswer,
        refusals=(409, 413, 415, 429),
        request=JobDescription,
        examples=list(EXAMPLES),
        operation_id="jobs_plan",
        description="The body and its errors are those of a submission; nothing is stored. Of an array one task is planned.",
    )
    def post(self, request: Request) -> Response:
        tenant, parsed = services.submission_check(
            user=request.user,
            tenant=tenant_of(request),
            description=request_object(request._request),  # noqa: SLF001 - the public way to the raw request
            r_num=knobs_current()["r_num"],
        )
        return Response(PlanAnswer(finite(dry_run(description=parsed, tenant=tenant, user=request.user))).data)


EXPLAINED = {
    "reason": "A word of the fixed vocabulary; null: it does not wait.",
    "sentence": "The same in plain words.",
    "wait_s": "Eligible waiting over all attempts.",
    "age_s": "Expected run time, from `age_source`.",
    "latency_ratio": "Wait / age.",
    "queue": "Where it waits: gpu-small, gpu-large, gpu (a cluster without pools) or cpu.",
    "place": "Its place in that queue, 1 first: the same as in the sentence and on the queue page.",
    "queue_length": "Jobs that wait in that queue.",
    "ahead": "Waiting jobs before it in that queue.",
    "rank": "By priority, of all jobs that the planning ordered, those that it started counted.",
    "turn": "Which pick of its window it was, those that started counted.",
    "tenant_share": "Of the GPUs (a CPU job: of the CPU array's cores): units held, with this planning's picks, capacity.",
    "side": "front, backfill or outside of its array's window.",
    "window": "Where the array's window closed: capacity, idle, counted, jobs, front_jobs.",
    "candidates": "Alike candidate configurations with their gain and objective value.",
    "chosen": "The configuration that was taken.",
    "larger_sentence": "Of a job that has fewer GPUs than it may have: what the next larger size would add, and who waits.",
    "best_rejected": "The best other one, with the constraint that bound it.",
    "predicted_start": "A range, from simulating the queue forward: the one that pages and lists show. It begins now at the "
    "earliest; `passed`: it is over, and the job still waits.",
    "predicted_start_missing": "Why there is no range, of a job that nothing but the queue keeps from starting.",
    "past_predictions": "How earlier ranges fared: starts, held (share 0..1), median_error_s; the same `by_horizon`, "
    "for middles that lay from_s to until_s ahead.",
    "what_would_start": "With `what_if=true`: single changes that would make it start, each re-solved.",
}


class Explanation(RawSchema):
    schema = {
        "type": "object",
        "additionalProperties": {},
        "description": "A sentence, and the figures behind it: null where nothing is known.",
        "properties": {name: {"description": words, "nullable": True} for name, words in EXPLAINED.items()},
    }


class JobExplainView(ApiView):
    read_scope = "jobs:read"

    @documented(
        "Say why a job waits, or where it was placed and why",
        answer=Explanation,
        refusals=(404, 409, 429),
        parameters=(
            *JOB_PATH,
            parameter("what_if", {"type": "boolean", "default": False}, "Re-solve with single changes: some seconds."),
        ),
        operation_id="jobs_explain",
    )
    def get(self, request: Request, number: str) -> Response:
        what_if = Query(request, known=("what_if",)).flag("what_if")
        job = job_of(request, number)
        told = explanation(job) | {"what_would_start": remedies(job) if what_if else None}
        return Response(finite(told))

    def get_throttles(self) -> list[Any]:
        return [PlanThrottle()] if self.request.query_params.get("what_if") else []
