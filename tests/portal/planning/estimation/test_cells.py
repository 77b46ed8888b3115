"""Cells by GPUs and nodes that the database refuses."""

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from portal.planning.estimation.models import Signature, ThroughputCell


def signature_make(tenant):
    return Signature.objects.create(name=f"tenant:{tenant.pk}:vgg", tenant=tenant, used_at=timezone.now())


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
