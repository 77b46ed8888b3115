"""`/api/v1/jobs/N/offers`: what would have a waiting job over sooner, and the press on one of them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.utils import timezone
from rest_framework import serializers
from rest_framework.response import Response

from portal.api.base import ApiView
from portal.api.parsers import request_object
from portal.api.queries import Query
from portal.api.schema import documented
from portal.api.throttles import PlanThrottle
from portal.errors import BerthError
from portal.jobs.api.jobs import JOB_PATH, job_answer, job_of
from portal.jobs.serializers import JobDetailSerializer
from portal.offers.accepting import offer_accept
from portal.offers.keeping import offers_of
from portal.offers.words import change_words, no_gain_words, others_words
from portal.rounds.asking.offers import CHANGES
from portal.rounds.read.forecasts import starts_of

if TYPE_CHECKING:
    from rest_framework.request import Request

    from portal.jobs.models import Job
    from portal.offers.keeping import Kept


class OfferedRange(serializers.Serializer):
    """The middle 80 % of the starts; null: beyond what was simulated."""

    earliest_at = serializers.DateTimeField()
    median_at = serializers.DateTimeField(allow_null=True)
    latest_at = serializers.DateTimeField(allow_null=True)


class Offered(serializers.Serializer):
    change = serializers.ChoiceField(choices=CHANGES)
    value = serializers.JSONField(help_text="GPUs, GPU types allowed besides, cores or MiB: as `change` says.")
    words = serializers.CharField()
    starts_now = serializers.BooleanField()
    gains = serializers.BooleanField(
        help_text="Whether it would be over sooner than as it stands; else it cannot be taken."
    )
    no_gain = serializers.CharField(
        help_text="Why it would not be over sooner, or why nobody can tell; empty where it gains."
    )
    over_at = serializers.DateTimeField(allow_null=True, help_text="When it is expected to be over; null: not known.")
    start = OfferedRange(allow_null=True, help_text="Null where it starts now.")
    nodes = serializers.ListField(child=serializers.CharField())
    speed_share = serializers.FloatField(allow_null=True, help_text="Of the speed that it asks for now.")
    others = serializers.CharField(
        help_text="Who would start later for it; of other tenants only whether somebody would."
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
        return Response(Offers(_answer(job, kept)).data)

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
        change, value = _pressed(request_object(request._request))  # noqa: SLF001 - the public way to the raw request
        self._allow(request)
        job = offer_accept(job=job, actor=request.user, change=change, value=value)
        return job_answer(job, user=request.user)

    def _allow(self, request: Request) -> None:
        throttle = PlanThrottle()
        if not throttle.allow_request(request, self):
            self.throttled(request, throttle.wait() or 1.0)


def _pressed(body: dict[str, Any]) -> tuple[str, Any]:
    for name in body:
        if name not in {"change", "value"}:
            shown = name[:60]
            raise BerthError("unknown_field", f"`{shown}` is unknown; give `change` and `value`.", field=shown)
    for name in ("change", "value"):
        if name not in body:
            raise BerthError("required", f"`{name}` is missing; take it from an offer.", field=name)
    if not isinstance(body["change"], str):
        raise BerthError("invalid", f"`change` must be one of {', '.join(CHANGES)}.", field="change")
    return body["change"], body["value"]


def _answer(job: Job, kept: Kept) -> dict[str, Any]:
    found, start = kept.answer, starts_of([job], timezone.now()).get(job.pk)
    return {
        "at": kept.at,
        "fresh": kept.fresh or not kept.working,
        "starts_now": found.get("now", False),
        "start": asdict(start) if start else None,
        "over_at": _moment(found.get("over")),
        "offers": [_offered(each) for each in found.get("offers", ())],
    }


def _offered(offer: dict[str, Any]) -> dict[str, Any]:
    return {
        "change": offer["change"],
        "value": offer["value"],
        "words": change_words(offer),
        "starts_now": offer["now"],
        "gains": offer["gains"],
        "no_gain": no_gain_words(offer),
        "over_at": _moment(offer.get("over")),
        "start": _range(offer["start"]),
        "nodes": offer["nodes"],
        "speed_share": offer["of_asked"],
        "others": others_words(offer),
    }


def _range(found: dict[str, float | None] | None) -> dict[str, datetime | None] | None:
    if found is None:
        return None
    return {f"{name}_at": _moment(at) for name, at in found.items()}


def _moment(at_s: float | None) -> datetime | None:
    return None if at_s is None else datetime.fromtimestamp(at_s, UTC)
