"""The shapes of the agent protocol (docs/agent-protocol.md), checked at the door."""

from typing import Any, get_args

from rest_framework import serializers

from portal.nodes.fields import COMMIT_PATTERN, MOST_GPUS, Number, series_check
from portal.planning.estimation.queries import QUERY_EDGES_MS
from portal.work.jobs.keys import KEY_PATTERN
from workers.protocol.wire import OffsetCode, Reason, State

BIG, SMALL = 2**62, 2**31 - 1
"""The limits of the columns behind these numbers."""
LONGEST_S, MOST_SAMPLES = 86400.0, 1e15
"""The longest iteration, and the largest count of a job."""
MOST_ENTRIES = 500
"""In each list of one report; an agent with more sends several."""
CORES_SEQUENCE = "The number of the order about its cores that holds now; 0: no order was given."
TOO_MANY = {"max_length": f"The list has too many entries; send at most {MOST_ENTRIES} in one message."}
SAMPLES = 600
"""The limit of one series in one telemetry message."""


class Registered(serializers.Serializer):
    node = serializers.IntegerField()
    name = serializers.CharField()
    token = serializers.CharField(help_text="The node's own token. It is shown this once.")


class Welcome(serializers.Serializer):
    node = serializers.IntegerField()
    name = serializers.CharField()
    lease_s = serializers.IntegerField()
    report_period_s = serializers.IntegerField()
    sample_period_s = serializers.FloatField(
        help_text="The heartbeat: how many seconds pass from one reading of its GPUs to the next."
    )
    grace_s = serializers.IntegerField()
    lease_grace_s = serializers.IntegerField(
        help_text="Seconds for which the portal still waits after a lease. The job must have ended well before."
    )
    logs_together_bytes = serializers.IntegerField(
        help_text="How much output of several jobs may come in one request (POST logs/together)."
    )
    measures = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()),
        help_text="The measures that the portal takes, by group: gpus, host and attempts.",
    )


class PartKey(serializers.Serializer):
    attempt = serializers.RegexField(KEY_PATTERN, help_text="The attempt's key.")
    epoch = serializers.IntegerField(min_value=0, max_value=SMALL)
    rank = serializers.IntegerField(min_value=0, max_value=32767)


class Report(PartKey):
    sequence = serializers.IntegerField(min_value=1, max_value=BIG)
    state = serializers.ChoiceField(choices=get_args(State))
    pid = serializers.IntegerField(allow_null=True, required=False, min_value=1, max_value=SMALL)
    at = Number(required=False, allow_null=True, min_value=0, max_value=1e11)
    exit_code = serializers.IntegerField(allow_null=True, required=False, min_value=0, max_value=255)
    signal = serializers.IntegerField(
        allow_null=True, required=False, min_value=1, max_value=64, help_text="What ended it; then it has no exit code."
    )
    reason = serializers.ChoiceField(choices=get_args(Reason), allow_null=True, required=False)
    detail = serializers.CharField(allow_blank=True, required=False, max_length=2000)
    commit = serializers.RegexField(COMMIT_PATTERN, required=False, help_text="Of its code.")
    overran = serializers.BooleanField(
        required=False, help_text="It was asked to stop, and still ran when its grace was over."
    )


class Problem(serializers.Serializer):
    """A sentence for the operator."""

    at = Number(min_value=0, max_value=1e11)
    subject = serializers.CharField(max_length=200)
    detail = serializers.CharField(max_length=300, allow_blank=True)


class DiskRoom(serializers.Serializer):
    free_mib = serializers.IntegerField(min_value=0, max_value=BIG)
    total_mib = serializers.IntegerField(min_value=0, max_value=BIG)
    low = serializers.BooleanField(help_text="The node takes no new jobs until there is room.")


class Held(PartKey):
    cores_sequence = serializers.IntegerField(required=False, min_value=0, max_value=BIG, help_text=CORES_SEQUENCE)


class HealthFinding(serializers.Serializer):
    """What a check of a node found."""

    subject = serializers.RegexField(r"^(node|gpu:(0|[1-9][0-9]{0,3}))$")
    check = serializers.RegexField(r"^[a-z][a-z0-9 -]{0,31}$")
    level = serializers.ChoiceField(
        choices=["warn", "drain", "fail"],
        help_text="warn: told only; drain: no new jobs there; fail: what runs there and may run again is stopped, too.",
    )
    detail = serializers.CharField(max_length=300)
    remedy = serializers.CharField(max_length=300, allow_blank=True)


class OutsideUse(serializers.Serializer):
    """A process that computes on a GPU which no job of its own holds."""

    gpu = serializers.IntegerField(min_value=0, max_value=MOST_GPUS - 1)
    pid = serializers.IntegerField(min_value=1, max_value=SMALL)
    name = serializers.CharField(max_length=64, allow_blank=True)
    memory_mib = Number(allow_null=True, min_value=0, max_value=BIG)


class Health(serializers.Serializer):
    findings = HealthFinding(many=True, max_length=64)
    outside = OutsideUse(many=True, max_length=64)


class ReportRequest(serializers.Serializer):
    boot_id = serializers.CharField(max_length=64)
    disk = DiskRoom(required=False)
    reports = Report(many=True, max_length=MOST_ENTRIES, error_messages=TOO_MANY)
    holding = Held(many=True, max_length=MOST_ENTRIES, error_messages=TOO_MANY)
    problems = Problem(many=True, max_length=20, required=False)
    health = Health(required=False)


class Accepted(PartKey):
    sequence = serializers.IntegerField()


class Refused(Accepted):
    code = serializers.CharField()


class Renewed(PartKey):
    lease_s = serializers.IntegerField()


class ReportAnswer(serializers.Serializer):
    accepted = Accepted(many=True)
    refused = Refused(many=True)
    leases = Renewed(many=True)
    stop = PartKey(many=True)


class Series(serializers.DictField):
    """Measures by name, each a list of numbers or null, one a sample."""

    child = serializers.ListField(child=Number(allow_null=True), allow_null=True, allow_empty=True, max_length=SAMPLES)


class LastReadings(serializers.Serializer):
    """The latest readings of GPUs at a heartbeat below a second, the oldest first."""

    period_s = Number(min_value=0.001, max_value=1)
    gpus = serializers.DictField(child=Series())


class Telemetry(serializers.Serializer):
    boot_id = serializers.CharField(max_length=64)
    start = Number(min_value=0, max_value=1e11)
    period_s = Number(min_value=0.01, max_value=60)
    count = serializers.IntegerField(min_value=1, max_value=SAMPLES)
    last = LastReadings(required=False)
    gpus = serializers.DictField(child=Series(), required=False)
    host = Series(required=False)
    attempts = serializers.DictField(child=Series(), required=False)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        series_check(attrs)
        return attrs


class Iterations(serializers.Serializer):
    """Sums over an instrumented job's iterations since its last record, and the times of some of them."""

    iterations = serializers.IntegerField(min_value=0, max_value=SMALL)
    samples = Number(min_value=0, max_value=MOST_SAMPLES)
    seconds = Number(min_value=0, max_value=LONGEST_S)
    done = Number(allow_null=True, min_value=0, max_value=MOST_SAMPLES)
    total = Number(allow_null=True, min_value=0, max_value=MOST_SAMPLES)
    saved = Number(allow_null=True, required=False, default=None, min_value=0, max_value=MOST_SAMPLES)
    batch = serializers.IntegerField(min_value=1, max_value=SMALL)
    world = serializers.IntegerField(min_value=1, max_value=65536)
    parameters = serializers.IntegerField(allow_null=True, min_value=0, max_value=10**15)
    rows = serializers.ListField(
        child=serializers.ListField(
            child=Number(allow_null=True, min_value=0, max_value=LONGEST_S), min_length=7, max_length=7
        ),
        max_length=16,
    )
    queries = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=SMALL),
        min_length=len(QUERY_EDGES_MS) + 1,
        max_length=len(QUERY_EDGES_MS) + 1,
        required=False,
        help_text="Of a server: queries answered within each of these milliseconds, and later: "
        + ", ".join(map(str, QUERY_EDGES_MS))
        + ".",
    )
    late = serializers.IntegerField(
        required=False, min_value=0, max_value=BIG, help_text="Of them later than the job's BERTH_SLO_MS."
    )


class PartRecords(PartKey):
    offset = serializers.IntegerField(min_value=0, max_value=BIG)
    next_offset = serializers.IntegerField(min_value=0, max_value=BIG)
    dropped = serializers.IntegerField(min_value=0, max_value=SMALL)
    records = Iterations(many=True, max_length=1000)


class RecordsRequest(serializers.Serializer):
    boot_id = serializers.CharField(max_length=64)
    parts = PartRecords(many=True, max_length=1000)


class RecordsTaken(PartKey):
    next_offset = serializers.IntegerField()
    code = serializers.ChoiceField(choices=get_args(OffsetCode), allow_null=True)


class RecordsAnswer(serializers.Serializer):
    parts = RecordsTaken(many=True)
