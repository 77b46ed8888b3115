"""`/api/v1/sharing`: the policy that acts on shared GPUs and its shadow, side by side, for operators."""

from __future__ import annotations

from django.utils import timezone
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from portal.foundation.api.base import PAGE_PARAMETERS, ApiView, Query, page_of
from portal.foundation.api.schema import PAGING, documented, page_schema, parameter
from portal.planning.rounds.read.series import range_of
from portal.planning.sharing.keeping import decisions_told
from portal.planning.sharing.models import ShadowDecision
from portal.planning.sharing.selectors import RANGES, comparison, decisions_of, pair_last

RANGE = parameter("range", {"type": "string", "enum": list(RANGES)}, "How far back; missing: 24h.")
ONLY = ("refused", "differ")


class PolicyFigures(serializers.Serializer):
    """What one of the two policies comes to."""

    side = serializers.ChoiceField(choices=["acting", "shadow"])
    policy = serializers.CharField()
    admits = serializers.IntegerField()
    refuses = serializers.IntegerField()
    reasons = serializers.DictField(
        child=serializers.IntegerField(), help_text="By the rule that closed most GPUs to a refused job: how many jobs."
    )
    mean = serializers.FloatField(
        allow_null=True,
        help_text="Of admitted jobs: the worst slowdown that measured pairs foretold; the mean of these.",
    )
    worst = serializers.FloatField(allow_null=True, help_text="The largest of them.")
    measured_mean = serializers.FloatField(
        allow_null=True, help_text="The same, measured since they were admitted. Null: not measured, or a shadow."
    )
    measured_worst = serializers.FloatField(allow_null=True)
    use = serializers.FloatField(
        allow_null=True, help_text="Expected use of GPUs with jobs, in per cent, by what their jobs used before."
    )
    alone = serializers.FloatField(allow_null=True, help_text="The same jobs with a GPU each.")
    taken = serializers.FloatField(allow_null=True, help_text="How many shared GPUs had jobs, on average.")
    out_of_memory = serializers.IntegerField(
        allow_null=True, help_text="Jobs ended for memory that they had asked for and were not granted. A shadow: null."
    )


class ShadowError(serializers.Serializer):
    number = serializers.IntegerField(help_text="The planning.")
    at = serializers.DateTimeField()
    error = serializers.CharField()


class Comparison(serializers.Serializer):
    """Jobs that both policies were asked about; a job that waits counts again only when something else is said of it."""

    acting = serializers.CharField(allow_null=True, help_text="Null: no shadow was ever asked.")
    shadow = serializers.CharField(allow_null=True)
    asked = serializers.IntegerField()
    agreed = serializers.IntegerField(help_text="Both admit, or both refuse.")
    differed = serializers.IntegerField()
    both_admit = serializers.IntegerField()
    both_refuse = serializers.IntegerField()
    acting_alone = serializers.IntegerField(help_text="Admitted by the acting policy alone.")
    shadow_alone = serializers.IntegerField()
    plannings = serializers.IntegerField(help_text="Compared, or tried to.")
    failed = serializers.IntegerField(help_text="Of these the shadow gave no answer.")
    skipped = serializers.IntegerField(help_text="Not compared: the shadow was still deciding.")
    left_out = serializers.IntegerField(help_text="Jobs beyond those that are kept of a planning.")
    spent_ms = serializers.FloatField(
        allow_null=True, help_text="What a comparison took on average, beside the planning."
    )
    most_ms = serializers.FloatField(allow_null=True)
    last_error = ShadowError(allow_null=True)
    policies = PolicyFigures(many=True)


EMPTY = dict.fromkeys(("acting", "shadow", "spent_ms", "most_ms", "last_error")) | {"policies": []}


class Said(serializers.Serializer):
    """What one policy said of a job."""

    admits = serializers.BooleanField()
    rule = serializers.CharField(help_text="By which it starts, or which closes most GPUs to it.")
    closed = serializers.DictField(child=serializers.IntegerField(), help_text="How many GPUs each rule closes.")
    node = serializers.CharField(allow_null=True)
    gpu = serializers.IntegerField(allow_null=True)
    memory_mib = serializers.IntegerField(allow_null=True)
    figure = serializers.FloatField(allow_null=True, help_text="The correlation, or the forecast in MiB.")
    beside = serializers.ListField(child=serializers.CharField(), help_text="Numbers of the jobs there.")
    slowdown = serializers.FloatField(allow_null=True, help_text="By the pairs measured until then.")


class Decision(serializers.Serializer):
    """What both said of a job."""

    at = serializers.DateTimeField()
    planning = serializers.IntegerField()
    job = serializers.CharField()
    name = serializers.CharField()
    compute = serializers.IntegerField(help_text="Asked for, in thousandths of a GPU.")
    memory_mib = serializers.IntegerField()
    acting = Said()
    shadow = Said()
    differ = serializers.BooleanField()
    measured = serializers.FloatField(
        allow_null=True, help_text="The worst slowdown measured since, where the acting policy admitted it."
    )


class ComparisonView(ApiView):
    read_scope = "operator"

    @documented(
        "Compare the sharing policy that acts with its shadow",
        answer=Comparison,
        parameters=(RANGE,),
        operation_id="sharing_show",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=("range",))
        _, length = range_of(query.choice("range", RANGES), RANGES)
        pair = pair_last()
        if pair is None:
            zeros = {name: 0 for name in Comparison().fields if name not in EMPTY}
            return Response(Comparison(zeros | EMPTY).data)
        found = comparison(pair, since=timezone.now() - length)
        return Response(Comparison({"acting": pair.acting, "shadow": pair.shadow, **found}).data)


class DecisionsView(ApiView):
    read_scope = "operator"

    @documented(
        "List what the acting sharing policy and its shadow said of jobs",
        answer=page_schema(Decision, "SharingDecisionsPage"),
        parameters=(*PAGING, RANGE, parameter("only", {"type": "string", "enum": list(ONLY)}, "Some of them.")),
        operation_id="sharing_decisions_list",
    )
    def get(self, request: Request) -> Response:
        query = Query(request, known=(*PAGE_PARAMETERS, "range", "only"))
        _, length = range_of(query.choice("range", RANGES), RANGES)
        pair, only = pair_last(), query.choice("only", ONLY) or ""
        rows = (
            decisions_of(pair, since=timezone.now() - length, only=only).select_related("planning")
            if pair
            else ShadowDecision.objects.none()
        )
        return Response(page_of(query, rows, lambda found: Decision(decisions_told(found), many=True).data))
