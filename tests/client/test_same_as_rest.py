"""The client class has the operations of REST under their names, with their parameters, and its shapes name what is answered."""

import inspect
import typing
from pathlib import Path

import pytest
from drf_spectacular.generators import SchemaGenerator

from berth_client import Berth, fields, shapes
from berth_client.jobs import FINAL
from portal.work.jobs import states
from portal.work.jobs.declaration.openapi import client_text
from portal.work.jobs.services.logs import log_append
from tests.messages import unlike
from tests.portal import given
from tests.portal.work.artefacts.sending import NS, Sender

SHAPES = {
    "Job": shapes.Job,
    "JobDetail": shapes.JobDetail,
    "JobDescription": fields.JobDescription,
    "JobLogAnswer": shapes.LogPiece,
    "Attempt": shapes.Attempt,
    "Part": shapes.Part,
    "PlanAnswer": shapes.Plan,
    "Offers": shapes.Offers,
    "Offered": shapes.Offer,
    "ArtefactPage": shapes.ArtefactPage,
    "ArtefactRow": shapes.Artefact,
    "ImportAnswer": shapes.Imported,
    "ImportedLine": shapes.ImportedLine,
    "Secret": shapes.Secret,
    "Template": shapes.Template,
    "TemplateDetail": shapes.TemplateDetail,
    "Explanation": shapes.Explanation,
    "Node": shapes.Node,
    "NodeDetail": shapes.NodeDetail,
    "Engine": shapes.Engine,
    "EngineDetail": shapes.EngineDetail,
    "Me": shapes.Me,
    "MyTenant": shapes.MyTenant,
    "MyToken": shapes.MyToken,
    "TenantUse": shapes.Use,
    "Member": shapes.Member,
    "OpenInvitation": shapes.Invitation,
    "NewInvitation": shapes.NewInvitation,
    "TenantUsage": shapes.Usage,
    "UsageRowShape": shapes.UsageRow,
}
OWN = {"description", "order", "content", "idempotency_key"}
"""Arguments that are bodies and headers in REST."""


@pytest.fixture(scope="module")
def schema():
    return SchemaGenerator().get_schema(request=None, public=True)


@pytest.fixture(scope="module")
def operations(schema):
    """{id: (names of parameters, names of the body's fields)} of /api/v1."""
    found = {}
    for path, methods in schema["paths"].items():
        for operation in methods.values() if path.startswith("/api/v1/") else ():
            content = (
                (operation.get("requestBody") or {}).get("content", {}).get("application/json", {}).get("schema", {})
            )
            name = content.get("$ref", "").rpartition("/")[2]
            body = set(schema["components"]["schemas"][name]["properties"]) if name else set()
            found[operation["operationId"]] = ({each["name"] for each in operation.get("parameters", ())}, body)
    return found


def test_each_operation_has_its_method(operations):
    methods = {name for name, _ in inspect.getmembers(Berth, inspect.isfunction)}
    assert operations.keys() - methods == set()


def test_each_argument_is_one_of_rest_s(operations):
    for name, (parameters, body) in operations.items():
        own = set(inspect.signature(getattr(Berth, name)).parameters) - {"self"}
        assert own - OWN <= parameters | body, name
        assert parameters - {"Idempotency-Key"} <= own, name


@pytest.mark.parametrize("name", SHAPES)
def test_each_field_of_a_shape_is_one_of_rest_s(schema, name):
    known = schema["components"]["schemas"][name]["properties"]
    own = typing.get_type_hints(SHAPES[name])
    assert own.keys() - known.keys() == set()


def test_its_fields_are_those_of_the_portals_table():
    assert Path(fields.__file__).read_text() == client_text(), "run ./berth manage client_fields"


def test_states_are_those_of_the_portal():
    assert set(typing.get_args(shapes.State)) == set(states.JobState)
    assert states.FINAL == FINAL


@pytest.mark.django_db
def test_what_the_portal_answers_has_the_types_that_the_shapes_say(berth, world):
    cluster = given.Cluster(world.tenants["vision-lab"], world.users["lena"], given.node_make("n9"))
    attempt = cluster.running(name="train", labels={"a": "b"}, restartable=True)
    ended = cluster.running(retries=1)
    cluster.end(ended, signal=9)
    Sender(cluster, attempt).tell(("tab\tname", 1, NS), ("fine", 1, NS), notes=[["pipe", "it is no plain file"]])
    waits, tenant = world.owner.submit(gpus=[1, 2], command="true")["number"], cluster.tenant.name
    log_append(node=cluster.node, key=attempt.key, epoch=attempt.epoch, rank=0, stream="stdout", offset=0, data=b"x\n")
    for found, shape in (
        (berth.jobs_show(attempt.job.number), shapes.JobDetail),
        (berth.jobs_show(ended.job.number), shapes.JobDetail),
        (berth.jobs_show(waits), shapes.JobDetail),
        (list(berth.each(berth.jobs_list)), list[shapes.Job]),
        (berth.jobs_description(attempt.job.number), fields.JobDescription),
        (berth.jobs_logs(attempt.job.number), shapes.LogPiece),
        (berth.jobs_artefacts(attempt.job.number), shapes.ArtefactPage),
        (list(berth.each(berth.jobs_artefacts, attempt.job.number)), list[shapes.Artefact]),
        (berth.jobs_explain(waits), shapes.Explanation),
        (berth.jobs_plan({"command": "true"}), shapes.Plan),
        (berth.jobs_import("#!/bin/sh\n#SBATCH -n 1 -p x\n"), shapes.Imported),
        (berth.nodes_show("n9"), shapes.NodeDetail),
        (berth.me(), shapes.Me),
        (berth.usage_show(tenant), shapes.Usage),
        (list(berth.each(berth.members_list, tenant)), list[shapes.Member]),
    ):
        wrong = unlike(found, shape, str(shape))
        left_out = "is none of its fields" if shape is shapes.Explanation else "?"
        assert [each for each in wrong if left_out not in each] == []
