"""Cells by GPUs and nodes: rows by nodes alone keep their meaning, and the way back puts all of a number of nodes together."""

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from portal.cluster.models import GpuType
from portal.estimation.models import Signature, ThroughputCell
from portal.estimation.selectors import knowledge_load
from scheduler import model
from scheduler.model.speeds import Cell, CellKey

BEFORE = "0001_tables"


def cells_then():
    """The model as it was, with the database taken back to it."""
    call_command("migrate", "estimation", BEFORE, verbosity=0)
    return (
        MigrationExecutor(connection)
        .loader.project_state(("estimation", BEFORE))
        .apps.get_model("estimation", "ThroughputCell")
    )


def signature_make(tenant):
    return Signature.objects.create(name=f"tenant:{tenant.pk}:vgg", tenant=tenant, used_at=timezone.now())


def cell(*values):
    found = Cell()
    for value in values:
        found = found.add(value)
    return {"count": found.count, "mean": found.mean, "squares": found.squares}


@pytest.mark.django_db(transaction=True)
def test_there_rows_by_nodes_alone_are_kept_as_such(shared_cluster):
    signature, gpu_type = signature_make(shared_cluster.tenant), GpuType.objects.get(name="A100")
    of = {"signature_id": signature.pk, "gpu_type_id": gpu_type.pk}
    try:
        old = cells_then()
        old.objects.create(**of, gpus=2, **cell(30.0))
        old.objects.create(**of, nodes=2, **cell(10.0, 20.0))
    finally:
        call_command("migrate", verbosity=0)
    asked = model.Job(id=1, tenant=shared_cluster.tenant.pk, requirement=(1,), model_label="vgg")
    assert knowledge_load([asked]).cells == {
        CellKey(signature.name, "A100", gpus=2): Cell(1, 30.0, 0.0),
        CellKey(signature.name, "A100", gpus=None, nodes=2): Cell(2, 15.0, 50.0),
    }


@pytest.mark.django_db(transaction=True)
def test_back_measurements_over_as_many_nodes_are_one_cell(shared_cluster):
    signature, gpu_type = signature_make(shared_cluster.tenant), GpuType.objects.get(name="A100")
    on_type, on_node = {"gpu_type": gpu_type}, {"node": shared_cluster.node}
    for where, gpus, nodes, values in (
        (on_type, 2, None, [30.0]),
        (on_type, None, 2, [1.0, 2.0]),
        (on_type, 2, 2, [10.0, 20.0, 36.0]),
        (on_type, 16, 2, [5.0]),
        (on_type, 16, 3, [4.0]),
        (on_node, 16, 2, [7.0]),
    ):
        ThroughputCell.objects.create(signature=signature, **where, gpus=gpus, nodes=nodes, **cell(*values))
    try:
        rows = list(cells_then().objects.order_by("node_id", "nodes", "gpus"))
    finally:
        call_command("migrate", verbosity=0)
    found = {(row.node_id, row.gpus, row.nodes): (row.count, row.mean, row.squares) for row in rows}
    together = cell(1.0, 2.0, 10.0, 20.0, 36.0, 5.0)
    assert found == {
        (None, 2, None): (1, 30.0, 0.0),
        (None, None, 2): (6, pytest.approx(together["mean"]), pytest.approx(together["squares"])),
        (None, None, 3): (1, 4.0, 0.0),
        (shared_cluster.node.pk, None, 2): (1, 7.0, 0.0),
    }


@pytest.mark.django_db
@pytest.mark.parametrize(
    "sizes",
    [[(None, None)], [(0, None)], [(2, 1)], [(0, 2)], [(2, None)] * 2, [(2, 2)] * 2, [(None, 2)] * 2],
    ids=["no size", "no GPU", "one node", "no GPU on two nodes", "twice", "twice over two nodes", "twice by nodes"],
)
def test_the_database_refuses_what_is_no_cell_of_its_own(cluster, sizes):
    of = {"signature": signature_make(cluster.tenant), "node": cluster.node}
    *before, (gpus, nodes) = sizes
    for first, over in before:
        ThroughputCell.objects.create(**of, gpus=first, nodes=over)
    with pytest.raises(IntegrityError), transaction.atomic():
        ThroughputCell.objects.create(**of, gpus=gpus, nodes=nodes)
