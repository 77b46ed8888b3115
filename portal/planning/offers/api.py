"""`/api/v1/jobs/N/explain` and `offers`: why a job waits, the changes that would start it, and the press on one of them."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.foundation.api.base import ApiView, Query, body_of
from portal.foundation.api.schema import RawSchema, documented, parameter
from portal.foundation.api.throttles import PlanThrottle
from portal.foundation.errors import BerthError
from portal.planning.offers.services import changes_of, offer_accept, offers_of
from portal.planning.rounds.asking.changes import CHANGES
from portal.planning.rounds.read.ends import end_told
from portal.planning.rounds.read.explained import explanation
from portal.planning.rounds.read.forecasts import starts_of
from portal.planning.rounds.serializers import finite
from portal.work.jobs.api.jobs import JOB_PATH, job_answer, job_of
from portal.work.jobs.serializers.jobs import JobDetailSerializer

CHANGE_TOLD = (
    *("change", "value", "starts", "reason", "nodes", "gpus", "cores"),
    *("throughput", "source", "of_asked", "no_gain", "over_s", "sentence"),
)
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
    "expected_end": "Of a running job: the middle and a range of 80 % given how long it has run, null where nobody knows; the "
    "rule that gave it, the number of ended jobs behind it, and the same in words.",
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
        told = explanation(job) | {"what_would_start": None, "expected_end": end_told(job)}
        if what_if:
            changes = changes_of(job, allow=lambda: None).answer["changes"]
            told["what_would_start"] = [{name: each[name] for name in CHANGE_TOLD} for each in changes]
        return Response(finite(told))

    def get_throttles(self) -> list[Any]:
        return [PlanThrottle()] if self.request.query_params.get("what_if") else []


class OfferedRange(serializers.Serializer):
    """The middle 80 % of the starts; null: beyond what was simulated."""

    earliest_at = serializers.DateTimeField()
    median_at = serializers.DateTimeField(allow_null=True)
    latest_at = serializers.DateTimeField(allow_null=True)


class Offered(serializers.Serializer):
    change = serializers.ChoiceField(choices=CHANGES)
    value = serializers.JSONField(help_text="GPUs, GPU types allowed besides, cores or MiB: as `change` says.")
    words = serializers.CharField()
    starts_now = serializers.BooleanField(source="starts")
    gains = serializers.BooleanField(
        help_text="Whether it would be over sooner than as it stands; else it cannot be taken."
    )
    no_gain = serializers.CharField(
        source="why", help_text="Why it would not be over sooner, or why nobody can tell; empty where it gains."
    )
    over_at = serializers.DateTimeField(allow_null=True, help_text="When it is expected to be over; null: not known.")
    start = OfferedRange(allow_null=True, help_text="Null where it starts now.")
    nodes = serializers.ListField(child=serializers.CharField())
    speed_share = serializers.FloatField(
        source="of_asked", allow_null=True, help_text="Of the speed that it asks for now."
    )
    others = serializers.CharField(
        source="later", help_text="Who would start later for it; of other tenants only whether somebody would."
    )


class Offers(serializers.Serializer):
    at = serializers.DateTimeField(allow_null=True, help_text="When they were worked out; null: not yet.")
    fresh = serializers.BooleanField(help_text="False: they are being worked out; ask again in some seconds.")
    starts_now = serializers.BooleanField(help_text="It starts as it stands.")
    start = OfferedRange(allow_null=True, help_text="As it stands: the range of `predicted_start`.")
    over_at = serializers.DateTimeField(
        allow_null=True, help_text="When it is expected to be over as it stands; null: not known."
    )
    offers = Offered(many=True)


class Pressed(serializers.Serializer):
    change = serializers.ChoiceField(choices=CHANGES)
    value = serializers.JSONField()


class JobOffersView(ApiView):
    read_scope, write_scope = "jobs:read", "jobs:write"

    @documented(
        "Show what would have a waiting job over sooner",
        answer=Offers,
        refusals=(404, 409, 429),
        parameters=JOB_PATH,
        operation_id="jobs_offers",
        description="Single changes, each planned with all other jobs, judged by when the job would be over; kept for a while. "
        "Empty for a job that does not wait.",
    )
    def get(self, request: Request, number: str) -> Response:
        Query(request, known=())
        job = job_of(request, number)
        kept = offers_of(job, allow=lambda: self._allow(request))
        start = starts_of([job], timezone.now()).get(job.pk)
        told = {"at": kept.at, "fresh": kept.fresh or not kept.working, "start": asdict(start) if start else None}
        return Response(Offers({**kept.answer, **told}).data)

    @documented(
        "Take one of the offers for a waiting job",
        answer=JobDetailSerializer,
        refusals=(404, 409, 413, 415, 429),
        request=Pressed,
        parameters=JOB_PATH,
        operation_id="jobs_offer_accept",
        description="It is planned again first: where the offer no longer holds, 409 `offer_gone`, and nothing changes.",
    )
    def post(self, request: Request, number: str) -> Response:
        job = job_of(request, number)
        body = body_of(request, known=("change", "value"))
        for name in ("change", "value"):
            if name not in body:
                raise BerthError("required", f"`{name}` is missing; take it from an offer.", field=name)
        if not isinstance(body["change"], str):
            raise BerthError("invalid", f"`change` must be one of {', '.join(CHANGES)}.", field="change")
        self._allow(request)
        job = offer_accept(job=job, actor=request.user, **body)
        return job_answer(job, user=request.user)

    def _allow(self, request: Request) -> None:
        throttle = PlanThrottle()
        if not throttle.allow_request(request, self):
            self.throttled(request, throttle.wait() or 1.0)
