"""Software environments that operators name: sent to all nodes, shown with the nodes that have them, changed through services."""

import pytest
from django.urls import reverse

from portal.cluster.models import NamedEnvironment, Node
from portal.cluster.services import environment_add, environment_change, environment_remove
from portal.foundation.errors import BerthError, Conflict
from portal.foundation.events.models import OutboxMessage
from portal.people.tenants.models import AuditEvent
from portal.work.jobs.selectors import parts_wanted
from tests.portal.admin.test_changes import actions, do


def revision(node):
    return Node.objects.values_list("revision", flat=True).get(pk=node.pk)


def test_each_change_is_told_to_every_node_with_its_next_list(node, operator):
    before = revision(node)
    made = environment_add(name="torch", directory="/opt/torch/", note="PyTorch 2", actor=operator)
    assert parts_wanted(node_id=node.pk)["environments"] == {"torch": "/opt/torch"}
    assert revision(node) == before + 1
    assert OutboxMessage.objects.filter(topic="node").exists() or OutboxMessage.objects.exists()
    environment_change(environment=made, directory="/opt/torch", note="PyTorch 2", actor=operator)
    assert revision(node) == before + 1, "nothing has changed"
    environment_change(environment=made, directory="/opt/torch-2", note="", actor=operator)
    assert parts_wanted(node_id=node.pk)["environments"] == {"torch": "/opt/torch-2"}
    environment_remove(environment=made, actor=operator)
    assert parts_wanted(node_id=node.pk)["environments"] == {}
    assert revision(node) == before + 3
    assert actions()[-3:] == ["environment.add", "environment.change", "environment.remove"]
    detail = AuditEvent.objects.filter(action="environment.change").get().detail
    assert detail["directory"] == ["/opt/torch", "/opt/torch-2"]


@pytest.mark.parametrize("directory", ["/", "opt/torch", "/opt/../root", "/opt/a:b", "", "/opt/\ttorch"])
def test_what_is_no_directory_of_an_environment_is_refused(node, directory):
    with pytest.raises(BerthError) as refused:
        environment_add(name="torch", directory=directory, actor=None)
    assert refused.value.field == "directory"
    assert not NamedEnvironment.objects.exists()


def test_a_name_is_taken_once(node):
    environment_add(name="torch", directory="/opt/torch", actor=None)
    with pytest.raises(Conflict):
        environment_add(name="torch", directory="/opt/other", actor=None)
    with pytest.raises(BerthError):
        environment_add(name="../torch", directory="/opt/other", actor=None)


def test_in_the_console_an_environment_is_added_changed_and_removed_and_shows_who_has_it(console, node):
    console.post(reverse("admin:cluster_namedenvironment_add"), {"name": "torch", "directory": "/opt/torch"})
    made = NamedEnvironment.objects.get()
    told = {"python": "3.11", "installer": None, "environments": [], "missing": {"environment:torch": "no <bin>"}}
    Node.objects.update(software=told)
    url = reverse("admin:cluster_namedenvironment_change", args=[made.pk])
    page = console.get(url).content.decode()
    assert "none yet" in page
    assert f"{node.name}: no &lt;bin&gt;" in page
    Node.objects.update(software=told | {"environments": ["torch"], "missing": {}})
    listed = console.get(reverse("admin:cluster_namedenvironment_changelist")).content.decode()
    assert f"1: {node.name}" in listed
    assert console.post(url, {"directory": "/opt/new", "note": "two"}).status_code == 302
    assert NamedEnvironment.objects.values_list("name", "directory", "note").get() == ("torch", "/opt/new", "two")
    do(console, "cluster_namedenvironment", "remove", made)
    assert not NamedEnvironment.objects.exists()
