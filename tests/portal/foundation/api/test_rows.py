"""Rows tell what the framework itself tells of the same objects."""

from types import SimpleNamespace

import pytest
from rest_framework import serializers

from portal.cluster.models import Node
from portal.foundation.api.rows import RowSerializer
from portal.work.jobs.models import Job
from portal.work.jobs.node_use import nodes_active, nodes_counted
from portal.work.jobs.serializers.jobs import JobSerializer
from portal.work.jobs.serializers.nodes import NodeSerializer


class Plain(serializers.Serializer):
    own = serializers.IntegerField()
    below = serializers.CharField(source="other.name")
    mapped = serializers.IntegerField(source="counts.gpus")
    called = serializers.CharField(source="word")
    lacking = serializers.CharField(source="other.none.name", default="-")
    nothing = serializers.CharField(source="other.none", allow_null=True)
    skipped = serializers.CharField(source="other.absent", required=False)
    made = serializers.SerializerMethodField()
    secret = serializers.CharField(write_only=True)

    def get_made(self, row):
        return row.own + 1


class Row(RowSerializer, Plain):
    pass


def test_defaults_mappings_methods_and_what_is_missing_are_told_as_the_framework_does():
    other = SimpleNamespace(name="n", none=None)
    row = SimpleNamespace(own=3, other=other, counts={"gpus": 4}, word=lambda: "called")
    told = Row(row).data
    assert told == Plain(row).data
    found = {"own": 3, "below": "n", "mapped": 4, "called": "called", "lacking": "-", "nothing": None, "made": 4}
    assert told == found
    with pytest.raises(AttributeError, match="own"):
        _ = Row(SimpleNamespace(other=other, counts={}, word="w")).data


def test_a_relation_is_refused():
    class Related(RowSerializer, serializers.ModelSerializer):
        class Meta:
            model = Job
            fields = ["tenant"]

    with pytest.raises(TypeError, match="tenant is a PrimaryKeyRelatedField"):
        _ = Related(SimpleNamespace()).data


@pytest.mark.django_db
def test_jobs_and_nodes_are_told_as_the_framework_does(world):
    world.owner.submit(gpus=[1, 2], labels={"team": "a"}, time_limit_s=60)
    nodes = nodes_active(nodes_counted(list(Node.objects.select_related("gpu_type"))), hours=1)
    for rows, kind in ((list(Job.objects.all()), JobSerializer), (nodes, NodeSerializer)):
        assert issubclass(kind, RowSerializer)
        for row in rows:
            told = kind(row).data
            plain = serializers.ModelSerializer.to_representation(kind(row), row)
            assert told | {"waited_s": 0, "latency_ratio": 0} == plain | {"waited_s": 0, "latency_ratio": 0}
            assert list(told) == list(plain)
