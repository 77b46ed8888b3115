"""The agent's message types and the portal's OpenAPI document name the same fields, and each takes the other's values."""

import json
from typing import get_type_hints

import pytest
from drf_spectacular.generators import SchemaGenerator

from portal.nodes import serializers as shapes
from workers.instrument.berth_instrument import PARTS, ROWS
from workers.parts.recordlines import LONGEST_S, MOST_COUNTED, MOST_SAMPLES, record_of
from workers.protocol import inventory, wire

PAIRS = {
    "Inventory": inventory.Inventory,
    "Isolation": inventory.Isolation,
    "Wall": inventory.Wall,
    "Links": inventory.Links,
    "MemoryTraffic": inventory.MemoryTraffic,
    "SoftwareOffer": inventory.SoftwareOffer,
    "Problem": wire.Problem,
    "GpuInventory": inventory.Gpu,
    "Registered": wire.Registered,
    "Welcome": wire.Hello,
    "Spec": wire.Spec,
    "SpecCode": wire.SpecCode,
    "Secrets": wire.Secrets,
    "SpecWorld": wire.World,
    "SpecWorldNode": wire.WorldNode,
    "Report": wire.Report,
    "ReportRequest": wire.ReportBody,
    "ReportAnswer": wire.ReportAnswer,
    "Accepted": wire.Accepted,
    "Refused": wire.Refused,
    "Renewed": wire.Lease,
    "PartKey": wire.PartName,
    "Held": wire.Held,
    "Telemetry": wire.Telemetry,
    "LogAnswer": wire.LogAnswer,
    "LogPiece": wire.LogPiece,
    "LogsRequest": wire.LogsBody,
    "LogTaken": wire.LogTaken,
    "LogsAnswer": wire.LogsAnswer,
    "ArtefactRules": wire.ArtefactRules,
    "ArtefactFile": wire.ArtefactFile,
    "ArtefactsRequest": wire.ArtefactsRequest,
    "ArtefactTaken": wire.ArtefactTaken,
    "ArtefactsAnswer": wire.ArtefactsAnswer,
    "Iterations": wire.Iterations,
    "PartRecords": wire.PartRecords,
    "RecordsRequest": wire.RecordsBody,
    "RecordsTaken": wire.RecordsTaken,
    "RecordsAnswer": wire.RecordsAnswer,
}


@pytest.fixture(scope="module")
def components():
    return SchemaGenerator().get_schema(request=None, public=True)["components"]["schemas"]


def test_both_sides_name_the_same_fields(components, subtests):
    for name, message in PAIRS.items():
        with subtests.test(name=name):
            assert set(components[name]["properties"]) == set(get_type_hints(message))


def test_the_largest_record_that_an_agent_lets_through_is_taken():
    row = [LONGEST_S] * (len(PARTS) + 1)
    largest = {
        "iterations": MOST_COUNTED,
        "samples": MOST_SAMPLES,
        "seconds": LONGEST_S,
        "done": MOST_SAMPLES,
        "total": None,
        "saved": MOST_SAMPLES,
        "batch": MOST_COUNTED,
        "world": 65536,
        "parameters": 10**15,
        "rows": [row] * ROWS,
    }
    record = record_of(json.dumps(largest).encode())
    assert record == largest
    serializer = shapes.Iterations(data=record)
    assert serializer.is_valid(), serializer.errors
