"""The shapes of the agent protocol (docs/agent-protocol.md), checked at the door."""

from typing import Any, get_args

from rest_framework import serializers

from portal.nodes.fields import COMMIT_PATTERN, MOST_GPUS, Number, inventory_check, series_check
from portal.planning.estimation.queries import QUERY_EDGES_MS
from portal.work.jobs.keys import KEY_PATTERN
from portal.work.jobs.software import NAME_PATTERN
from workers.protocol.wire import MOST_PORTS, OffsetCode, Reason, State

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
    ports = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=65_535),
        max_length=MOST_PORTS,
        required=False,
        help_text="The TCP ports that its processes listen on, lowest first.",
    )


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


class Leave(serializers.Serializer):
    boot_id = serializers.CharField(max_length=64)
    detail = serializers.CharField(max_length=300)


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


class GpuInventory(serializers.Serializer):
    index = serializers.IntegerField(min_value=0, max_value=MOST_GPUS - 1)
    uuid = serializers.CharField(max_length=64)
    memory_mib = serializers.IntegerField(min_value=1, max_value=2**24)
    gpu_type = serializers.CharField(
        max_length=64, required=False, help_text="Its type; absent: the inventory's `gpu_type`."
    )


class Wall(serializers.Serializer):
    """One kind of what keeps a node's jobs apart: `by` what means; empty where it does not stand, then `why`."""

    name = serializers.RegexField(r"^[a-z]{1,20}$")
    by = serializers.CharField(max_length=20, allow_blank=True)
    why = serializers.CharField(max_length=300, allow_blank=True)


class Isolation(serializers.Serializer):
    """How a node keeps jobs out of Berth's own files: `files` and `signals` say of what, `why` what is missing."""

    files = serializers.BooleanField()
    signals = serializers.BooleanField()
    landlock = serializers.IntegerField(
        min_value=0, max_value=1000, help_text="The version of Landlock that the kernel has; 0: none."
    )
    why = serializers.CharField(max_length=300, allow_blank=True)
    walls = Wall(many=True, required=False, max_length=20)


class Links(serializers.Serializer):
    """What a node tells of its links; null: it does not say."""

    nvlink_gbps = Number(
        allow_null=True, min_value=1e-3, max_value=1e5, help_text="All NVLinks of one GPU together, in GB/s, one way."
    )
    pcie_generation = serializers.IntegerField(allow_null=True, min_value=1, max_value=20)
    pcie_lanes = serializers.IntegerField(allow_null=True, min_value=1, max_value=64)
    network_mbps = Number(allow_null=True, min_value=1, max_value=1e8)
    addresses = serializers.ListField(
        child=serializers.IPAddressField(),
        required=False,
        max_length=64,
        help_text="All by which other nodes may know it, those of InfiniBand too.",
    )


class MemoryTraffic(serializers.Serializer):
    """How a node knows its memory's traffic, and how it can hold a CPU job back from it; empty: not at all."""

    gb_s = Number(allow_null=True, min_value=1e-3, max_value=1e6, help_text="What its memory can do; null: not known.")
    meter = serializers.ChoiceField(choices=["resctrl", "probe", "simulated"], allow_blank=True)
    throttle = serializers.ChoiceField(choices=["mba", "quota2", "quota1", "cores"], allow_blank=True)


class SoftwareOffer(serializers.Serializer):
    """What software a node offers to jobs, beside its own."""

    python = serializers.CharField(max_length=32, allow_blank=True, help_text="Of environments that it builds.")
    installer = serializers.ChoiceField(choices=["uv", "pip"], allow_null=True, help_text="Null: it builds none.")
    images = serializers.ChoiceField(
        choices=["apptainer"], allow_null=True, required=False, help_text="What runs container images; null: nothing."
    )
    git = serializers.BooleanField(required=False, help_text="It fetches repositories.")
    environments = serializers.ListField(
        child=serializers.RegexField(NAME_PATTERN), max_length=256, help_text="By name; that it has."
    )
    missing = serializers.DictField(
        child=serializers.CharField(max_length=1000), help_text="What it does not offer, why, and the remedy."
    )


class Inventory(serializers.Serializer):
    name = serializers.RegexField(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    address = serializers.CharField(max_length=255)
    boot_id = serializers.CharField(max_length=64)
    agent_version = serializers.CharField(max_length=32)
    virtual = serializers.BooleanField()
    single_account = serializers.BooleanField()
    trusts_tenants = serializers.BooleanField()
    isolation = Isolation(required=False)
    links = Links(required=False)
    memory_traffic = MemoryTraffic(required=False)
    software = SoftwareOffer(required=False)
    gpu_type = serializers.CharField(max_length=64, allow_null=True)
    gpus = GpuInventory(many=True, max_length=MOST_GPUS)
    cores = serializers.IntegerField(min_value=1, max_value=65536)
    memory_mib = serializers.IntegerField(min_value=1, max_value=2**39)
    storage_domain = serializers.CharField(max_length=100, allow_null=True, required=False)
    ends_at = Number(
        required=False,
        min_value=0,
        max_value=1e11,
        help_text="From then on its jobs are stopped, as at the end of an allocation; absent: it stays.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        inventory_check(attrs)
        return attrs
