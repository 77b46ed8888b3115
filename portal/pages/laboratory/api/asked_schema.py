"""What may be asked of the laboratory over REST, as the OpenAPI document shows it; `orders.order_parse` is what checks it."""

from __future__ import annotations

from drf_spectacular.utils import OpenApiExample

from portal.foundation.api.schema import RawSchema
from portal.pages.laboratory.limits import MOST_HOURS, MOST_POLICIES, MOST_SEED
from portal.pages.laboratory.models import SharedWith
from portal.pages.laboratory.orders import DESCRIBED, HERE, OWN
from portal.pages.laboratory.sources.generators import GENERATORS
from scheduler.parameters import PARAMETERS
from scheduler.policies.registry import POLICIES
from scheduler.simulator.rivals import RIVALS

NUMBER_OR_WORD = {"oneOf": [{"type": "number"}, {"type": "string"}], "nullable": True}
_TENANT = {"type": "string", "description": "One of yours; needed where you have several."}
_NAME = {"type": "string", "maxLength": 100}


class SimulationAsked(RawSchema):
    schema = {
        "type": "object",
        "required": ["name", "policies"],
        "additionalProperties": False,
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 100},
            "tenant": _TENANT,
            "trace": {"type": "integer", "minimum": 1, "description": "The number of a trace; or a generator."},
            "generator": {"type": "string", "enum": list(GENERATORS)},
            "jobs": {"type": "integer", "minimum": 1, "description": "How many the generator draws."},
            "cluster": {
                "type": "string",
                "enum": [HERE, OWN, DESCRIBED],
                "description": "This cluster as it is now, the generator's own, or the description's.",
            },
            "description": {
                "oneOf": [{"type": "string"}, {"type": "object", "additionalProperties": {}}],
                "description": "A cluster as in `examples/clusters/`: YAML, or the same as an object.",
            },
            "policies": {
                "type": "array",
                "items": {"type": "string", "enum": [*POLICIES, *RIVALS]},
                "minItems": 1,
                "maxItems": MOST_POLICIES,
            },
            "knobs": {
                "type": "object",
                "properties": {each.name: NUMBER_OR_WORD for each in PARAMETERS if each.name != "policy"},
                "additionalProperties": False,
                "description": "Those not given are at their default.",
            },
            "seed": {"type": "integer", "minimum": 0, "maximum": MOST_SEED, "default": 1},
            "until_h": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": MOST_HOURS},
        },
    }


EXAMPLES = (
    OpenApiExample(
        "a drawn workload under two policies",
        {"name": "berth or fifo", "generator": "hops-64", "jobs": 50, "cluster": "own", "policies": ["berth", "fifo"]},
        request_only=True,
    ),
    OpenApiExample(
        "a trace on twice the nodes, with another knob",
        {
            "name": "sixteen nodes",
            "trace": 12,
            "description": {"nodes": [{"count": 16, "gpu_type": "A100", "gpus": 8, "cores": 64, "memory_gib": 512}]},
            "policies": ["berth"],
            "knobs": {"lambda": 2},
        },
        request_only=True,
    ),
)


class HistoryAsked(RawSchema):
    schema = {
        "type": "object",
        "required": ["days"],
        "additionalProperties": False,
        "properties": {
            "days": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "description": "The last so many."},
            "tenant": _TENANT,
            "name": _NAME,
        },
    }


class Sharing(RawSchema):
    schema = {
        "type": "object",
        "required": ["shared_with"],
        "additionalProperties": False,
        "properties": {"shared_with": {"type": "string", "enum": SharedWith.values}},
    }
