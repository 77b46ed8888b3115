"""Rows that go back through the migrations and forward again, and what must be true of them on the way.

All travel together in one journey (test_migrations.py): each way through the migrations takes many seconds, mostly Django's
for the states of models between them.

A traveller is made at the newest state. `STOP` is the state before the migration that it is about; there `back` is called,
and `forward` when all is at the newest state again.
"""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone

from portal.cluster.models import GpuType, TelemetryMean
from portal.cluster.telemetry import batches_between
from portal.estimation.models import Signature, ThroughputCell
from portal.estimation.selectors import knowledge_load
from portal.jobs.models import Job
from scheduler import model
from scheduler.model.speeds import Cell, CellKey
from tests.portal import given


def model_then(stop, name):
    """Return a model as it was at a state."""
    return MigrationExecutor(connection).loader.project_state(stop).apps.get_model(stop[0], name)


def cell(*values):
    found = Cell()
    for value in values:
        found = found.add(value)
    return {"count": found.count, "mean": found.mean, "squares": found.squares}


class Cells:
    """Cells by GPUs and nodes: rows by nodes alone keep their meaning, and on the way back all of a number of nodes are one."""

    STOP = ("estimation", "0001_tables")

    def __init__(self, cluster):
        self.cluster = cluster
        self.gpu_type = GpuType.objects.get(name="A100")
        here, self.old = (
            Signature.objects.create(
                name=f"tenant:{cluster.tenant.pk}:{name}", tenant=cluster.tenant, used_at=timezone.now()
            )
            for name in ("vgg", "old")
        )
        on_type, on_node = {"gpu_type": self.gpu_type}, {"node": cluster.node}
        for where, gpus, nodes, values in (
            (on_type, 2, None, [30.0]),
            (on_type, None, 2, [1.0, 2.0]),
            (on_type, 2, 2, [10.0, 20.0, 36.0]),
            (on_type, 16, 2, [5.0]),
            (on_type, 16, 3, [4.0]),
            (on_node, 16, 2, [7.0]),
        ):
            ThroughputCell.objects.create(signature=here, **where, gpus=gpus, nodes=nodes, **cell(*values))

    def back(self):
        then = model_then(self.STOP, "ThroughputCell")
        rows = then.objects.order_by("node_id", "nodes", "gpus")
        found = {(row.node_id, row.gpus, row.nodes): (row.count, row.mean, row.squares) for row in rows}
        together = cell(1.0, 2.0, 10.0, 20.0, 36.0, 5.0)
        assert found == {
            (None, 2, None): (1, 30.0, 0.0),
            (None, None, 2): (6, pytest.approx(together["mean"]), pytest.approx(together["squares"])),
            (None, None, 3): (1, 4.0, 0.0),
            (self.cluster.node.pk, None, 2): (1, 7.0, 0.0),
        }
        of = {"signature_id": self.old.pk, "gpu_type_id": self.gpu_type.pk}
        then.objects.create(**of, gpus=2, **cell(30.0))
        then.objects.create(**of, nodes=2, **cell(10.0, 20.0))

    def forward(self):
        asked = model.Job(id=1, tenant=self.cluster.tenant.pk, requirement=(1,), model_label="old")
        assert knowledge_load([asked]).cells == {
            CellKey(self.old.name, "A100", gpus=2): Cell(1, 30.0, 0.0),
            CellKey(self.old.name, "A100", gpus=None, nodes=2): Cell(2, 15.0, 50.0),
        }


class Keys:
    """What runs during the upgrade that brought keys keeps the name that its node knows."""

    STOP = ("jobs", "0011_narrower_indexes")

    def __init__(self, cluster):
        self.cluster = cluster
        self.attempt, self.waiting = cluster.running(restartable=True), cluster.submit()

    def back(self):
        assert not hasattr(model_then(self.STOP, "Attempt").objects.get(pk=self.attempt.pk), "key")

    def forward(self):
        held = {"attempt": str(self.attempt.pk), "epoch": 1, "rank": 0, "cores_sequence": 0}
        answer = given.heard(node=self.cluster.node, reports=[], holding=[held])
        assert [lease["attempt"] for lease in answer["leases"]] == [str(self.attempt.pk)]
        assert answer["stop"] == []
        known = Job.objects.get(pk=self.attempt.job_id).key
        assert known == str(self.attempt.job_id), "its checkpoints lie under that name"
        assert len(Job.objects.get(pk=self.waiting.pk).key) == 32, "it is on no node yet"


class Means:
    """Means of telemetry of the version before are kept on both ways. The second way back calls `back_again`."""

    STOP = ("cluster", "0005_node_disk")

    def __init__(self, cluster):
        self.node = cluster.node
        day = (timezone.now() - timedelta(days=3)).timestamp() // 86_400 * 86_400
        self.at = datetime.fromtimestamp(day, UTC)  # midnight: the row of the day has the same time
        self.kept = {
            self.at + timedelta(minutes=5 * k): {"gpu0.utilisation": 10.0 * k, "host.cpu_cores": 1.5} for k in (0, 1, 3)
        }

    def back(self):
        then = model_then(self.STOP, "TelemetryMean")
        then.objects.bulk_create(
            then(node_id=self.node.pk, start_at=at, means=means) for at, means in self.kept.items()
        )

    def forward(self):
        assert TelemetryMean.objects.count() == 1
        until = self.at + timedelta(seconds=86_400 - 1)
        found = batches_between(node_ids=[self.node.pk], since=self.at, until=until)
        read = {
            each["start"] + k * each["period_s"]: value
            for _, each in found
            for k, value in enumerate(each["gpus"].get("0", {}).get("utilisation") or [])
            if value is not None
        }
        assert read == {self.at.timestamp() + 300 * k: 10.0 * k for k in (0, 1, 3)}

    def back_again(self):
        then = model_then(self.STOP, "TelemetryMean")
        assert dict(then.objects.values_list("start_at", "means")) == self.kept


TRAVELLERS = (Cells, Keys, Means)
"""In the order of their stops on the way back."""
