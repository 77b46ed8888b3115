"""Nodes join, say hello, drain, resume and lose their token."""

import html
import re
from datetime import timedelta

import pytest
from django.utils import timezone

from portal.cluster.models import Gpu, JoinToken, Node, NodeEvent
from portal.cluster.services.contact import node_leave, node_problems, node_seen
from portal.cluster.services.health import node_health_take
from portal.cluster.services.joining import join_token_create, node_hello, node_register
from portal.cluster.services.operating import node_drain, node_resume, node_token_revoke
from portal.foundation.errors import BerthError
from portal.foundation.events.models import OutboxMessage
from portal.pages.dashboard.cluster.rows import health_words
from portal.pages.dashboard.shell.banner import accounts_words
from portal.people.tenants.models import AuditEvent
from portal.people.tenants.services import secret_digest
from tests.portal import given


def join(cluster, *, token=None, **changes):
    secret = token or join_token_create(actor=None)[1]
    return node_register(join_secret=secret, inventory=given.inventory(cluster.node, **changes))


class TestRegister:
    def test_a_new_node(self, cluster):
        node, secret = join(cluster, name="n9", gpu_type="H100")
        assert (node.token_digest, node.health) == (secret_digest(secret), "up")
        assert list(node.gpus.values_list("index", flat=True)) == [0, 1, 2, 3]
        assert node.gpu_type.name == "H100"
        assert AuditEvent.objects.filter(action="node.register").exists()
        assert OutboxMessage.objects.filter(topic="plan").exists()

    @pytest.mark.parametrize("change", [{"uses_left": 0}, {"expires_at": timezone.now()}, {"node_name": "other"}])
    def test_a_token_that_is_not_good(self, cluster, change):
        row, secret = join_token_create(actor=None)
        JoinToken.objects.filter(pk=row.pk).update(**change)
        self.refused(cluster, secret, "bad_token")

    def test_an_unknown_token(self, cluster):
        self.refused(cluster, "berthjoin_x", "bad_token")

    def test_a_taken_name_uses_up_nothing(self, cluster):
        row, secret = join_token_create(actor=None)
        self.refused(cluster, secret, "name_taken", name="n1")
        row.refresh_from_db()
        assert row.uses_left == 1

    def refused(self, cluster, secret, code, name="n9"):
        with pytest.raises(BerthError) as error:
            join(cluster, token=secret, name=name)
        assert error.value.code == code
        assert Node.objects.count() == 1

    def test_one_use_is_one_node_under_a_race(self, shared_cluster):
        _, secret = join_token_create(actor=None)
        calls = [lambda n=n: join(shared_cluster, token=secret, name=f"r{n}") for n in range(6)]
        results = given.race(*calls)
        assert sum(isinstance(each, tuple) for each in results) == 1, results
        assert {each.code for each in results if isinstance(each, BerthError)} == {"bad_token"}

    def test_a_revoked_node_joins_again_under_its_name(self, cluster):
        node_token_revoke(node=cluster.node, actor=None)
        node, secret = join(cluster)
        assert (node.pk, node.token_revoked_at, node.token_digest) == (cluster.node.pk, None, secret_digest(secret))


class TestHello:
    def test_gpus_that_are_gone_are_marked_and_come_back(self, cluster):
        full = given.inventory(cluster.node)
        node_hello(node=cluster.node, inventory=full | {"gpus": full["gpus"][:2]})
        assert set(Gpu.objects.exclude(missing_since=None).values_list("index", flat=True)) == {2, 3}
        node_hello(node=cluster.node, inventory=full)
        assert not Gpu.objects.exclude(missing_since=None).exists()

    def test_the_inventory_is_refreshed(self, cluster):
        node = node_hello(node=cluster.node, inventory=given.inventory(cluster.node, cores=99, address="new"))
        assert (node.cores, node.address) == (99, "new")


class TestDrain:
    def test_drain_needs_a_reason_and_resume_undoes_it(self, cluster):
        operator = given.operator()
        with pytest.raises(BerthError) as error:
            node_drain(node=cluster.node, actor=operator, reason="  ")
        assert error.value.field == "reason"
        revision = cluster.node.revision
        node = node_drain(node=cluster.node, actor=operator, reason="new disk")
        assert (node.health, node.drain_reason, node.revision) == ("drained", "new disk", revision + 1)
        node = node_resume(node=node, actor=operator)
        assert (node.health, node.drain_reason) == ("up", "")
        assert [e.kind for e in NodeEvent.objects.order_by("pk")] == ["drained", "resumed"]
        assert AuditEvent.objects.filter(action="node.drained", detail={"reason": "new disk"}).exists()

    def test_twice_is_once(self, cluster):
        for _ in range(2):
            node_drain(node=cluster.node, actor=None, reason="new disk")
            node_token_revoke(node=cluster.node, actor=None)
        assert NodeEvent.objects.count() == 2

    def test_what_runs_stays(self, cluster):
        attempt = cluster.running()
        node_drain(node=cluster.node, actor=None, reason="new disk")
        attempt.refresh_from_db()
        assert attempt.ended_at is None


def test_silence_makes_a_node_unreachable_and_a_word_brings_it_back(cluster):
    Node.objects.update(last_contact_at=timezone.now() - timedelta(seconds=31))
    node = Node.objects.get()
    assert node.health == "unreachable"
    node_seen(node=node)
    assert Node.objects.get().health == "up"
    assert NodeEvent.objects.get().kind == "back"
    assert OutboxMessage.objects.filter(topic="plan").exists()


def test_an_agent_that_died_before_it_kept_its_token_may_register_again(db):
    from portal.cluster.models import Node
    from portal.cluster.services.joining import join_token_create, node_hello, node_register
    from portal.foundation.errors import BerthError
    from tests.portal.given import inventory, node_make

    shape = inventory(node_make("shape")) | {"name": "new"}
    _, secret = join_token_create(actor=None, uses=1)
    node, first = node_register(join_secret=secret, inventory=shape)
    same, second = node_register(join_secret=secret, inventory=shape)
    assert (same.pk, first != second) == (node.pk, True)
    node_hello(node=same, inventory=shape)
    with pytest.raises(BerthError) as refused:
        node_register(join_secret=secret, inventory=shape)
    assert refused.value.code == "bad_token"
    assert Node.objects.filter(name="new").count() == 1


def test_what_an_agent_tells_is_kept_and_each_new_thing_is_an_event_once(cluster):
    first = {"at": 5.0, "subject": "record a", "detail": "The record of part a cannot be read."}
    second = {"at": 6.0, "subject": "log b", "detail": "Its log is sent no further."}
    node_problems(node=cluster.node, problems=[first])
    cluster.node.refresh_from_db()
    node_problems(node=cluster.node, problems=[{**first, "at": 9.0}])
    node_problems(node=cluster.node, problems=[second, first])
    cluster.node.refresh_from_db()
    assert [each["subject"] for each in cluster.node.problems] == ["log b", "record a"]
    told = NodeEvent.objects.filter(node=cluster.node, kind="problem").order_by("id")
    assert [event.detail for event in told] == [first["detail"], second["detail"]]
    cluster.node.refresh_from_db()
    node_problems(node=cluster.node, problems=[])
    cluster.node.refresh_from_db()
    assert cluster.node.problems == []


@pytest.mark.parametrize(
    ("isolation", "words"),
    [
        ({"files": True, "signals": True, "landlock": 7, "why": ""}, "but neither Berth's own"),
        (
            {"files": False, "signals": False, "landlock": 0, "why": "this kernel has no Landlock"},
            "Berth's own as well",
        ),
        (None, "Berth's own as well"),
    ],
)
def test_what_a_node_says_of_isolation_is_on_its_page_and_in_the_words_about_accounts(
    cluster, client, isolation, words
):
    told = given.inventory(cluster.node, isolation=isolation)
    if isolation is None:  # an older agent
        del told["isolation"]
    node_hello(node=cluster.node, inventory=told)
    client.force_login(given.operator(), backend="django.contrib.auth.backends.ModelBackend")
    found = limits(cluster, client)
    assert words in (accounts_words() or "")
    assert ("Berth's files" in found) == bool(isolation)
    if isolation:
        held = "yes a job cannot open them" if isolation["files"] else "– no a job may read all that the agent may"
        assert found["Berth's files"] == (held, isolation["why"] or "Landlock or accounts")


def limits(cluster, client):
    """Return the limits on the node's page: (yes or no and how, cause in the title) by label."""
    page = client.get(f"/cluster/{cluster.node.name}/").content.decode()
    fold = page.partition('data-fold="node-limits"')[2].partition("</details>")[0]
    rows = re.findall(r"<tr><td>(.*?)</td>(.*?)</tr>", fold)
    causes = [re.search(r'title="(.*?)"', row) for _, row in rows]
    said = [" ".join(html.unescape(re.sub(r"<[^>]*>", " ", row)).split()) for _, row in rows]
    return {
        html.unescape(label): (words, html.unescape(cause[1]) if cause else "")
        for (label, _), words, cause in zip(rows, said, causes, strict=True)
    }


def test_where_tenants_have_accounts_nothing_is_said_and_the_page_names_the_walls(cluster, client):
    walls = [
        {"name": "accounts", "by": "setuid", "why": ""},
        {"name": "memory", "by": "", "why": "no control group here"},
        {"name": "gpus", "by": "time slicing", "why": "no MPS control daemon runs here"},
    ]
    isolation = {"files": True, "signals": True, "landlock": 7, "why": "", "walls": walls}
    node_hello(
        node=cluster.node, inventory=given.inventory(cluster.node) | {"isolation": isolation, "single_account": False}
    )
    client.force_login(given.operator(), backend="django.contrib.auth.backends.ModelBackend")
    found = limits(cluster, client)
    assert accounts_words() is None
    assert found["Other users' files"] == ("yes each tenant's jobs run under an account of their own", "setuid")
    measured = "– no measured each second; a job that uses more is ended"
    assert found["Memory"] == (measured, "no control group here")
    turns = "– no each job takes its turn"
    assert found["GPU memory, when shared"] == (turns, "no MPS control daemon runs here")


def test_accounts_without_a_view_of_their_own_are_not_told_as_one_account(cluster, client):
    walls = [{"name": "accounts", "by": "setuid", "why": ""}, {"name": "mounts", "by": "", "why": "root may not mount"}]
    isolation = {"files": True, "signals": True, "landlock": 7, "why": "", "walls": walls}
    node_hello(node=cluster.node, inventory=given.inventory(cluster.node) | {"isolation": isolation})
    client.force_login(given.operator(), backend="django.contrib.auth.backends.ModelBackend")
    said = "yes each tenant's jobs run under an account of their own; /tmp is shared"
    assert limits(cluster, client)["Other users' files"] == (said, "root may not mount")


APART = "yes other tenants' jobs do not reach a job's ports"


@pytest.mark.parametrize(
    ("by", "why", "words"),
    [
        ("namespace", "", APART),
        ("namespace", "jobs over several nodes are not apart: no cgroup 2", "of jobs over several nodes they do"),
        ("groups", "the range is in use", f"{APART}; lists of connections are seen"),
        ("", "install nftables on this node", "– no any job may reach a job's ports: give servers a password"),
    ],
)
def test_the_page_says_how_far_tenants_networks_are_apart(cluster, client, by, why, words):
    walls = [{"name": "network", "by": by, "why": why}]
    isolation = {"files": True, "signals": True, "landlock": 7, "why": "", "walls": walls}
    node_hello(node=cluster.node, inventory=given.inventory(cluster.node) | {"isolation": isolation})
    client.force_login(given.operator(), backend="django.contrib.auth.backends.ModelBackend")
    said, cause = limits(cluster, client)["Network"]
    assert said.endswith(words)
    assert cause == (why or by)


def test_a_nodes_problems_are_the_operators_to_see(cluster, client):
    node_problems(node=cluster.node, problems=[{"at": 1.0, "subject": "a", "detail": "The record of a is broken."}])
    client.force_login(given.operator(), backend="django.contrib.auth.backends.ModelBackend")
    assert "The record of a is broken." in client.get(f"/cluster/{cluster.node.name}/").content.decode()
    client.force_login(given.member("tim", cluster.tenant), backend="django.contrib.auth.backends.ModelBackend")
    page = client.get(f"/cluster/{cluster.node.name}/")
    assert page.status_code == 200
    assert 'aria-label="Problems"' not in page.content.decode()


class TestLeave:
    def test_an_end_is_that_of_the_last_hello(self, cluster):
        said = given.inventory(cluster.node)
        for ends_at in (4e9, 4e9 + 600.0):
            assert node_hello(node=cluster.node, inventory=said | {"ends_at": ends_at}).ends_at.timestamp() == ends_at
        assert node_hello(node=cluster.node, inventory=said).ends_at is None

    def test_a_node_that_left_holds_nothing_and_its_next_hello_brings_it_back(self, cluster):
        attempt = cluster.running(restartable=True)
        node_leave(node=cluster.node, detail="its allocation ends")
        cluster.node.refresh_from_db()
        attempt.refresh_from_db()
        assert (cluster.node.health, health_words(cluster.node, timezone.now())) == ("dead", "Left")
        assert (attempt.state, attempt.job.state) == ("NODE_FAIL", "PENDING")
        assert NodeEvent.objects.filter(kind="left", detail="its allocation ends; 1 parts lost").exists()
        node_hello(node=cluster.node, inventory=given.inventory(cluster.node))
        cluster.node.refresh_from_db()
        assert (cluster.node.health, cluster.node.left_at) == ("up", None)

    def test_one_that_was_declared_dead_stays_so(self, cluster):
        Node.objects.filter(pk=cluster.node.pk).update(dead_at=timezone.now())
        node_leave(node=cluster.node, detail="its allocation ends")
        node_hello(node=cluster.node, inventory=given.inventory(cluster.node))
        cluster.node.refresh_from_db()
        assert cluster.node.health == "dead"

    @pytest.mark.parametrize(
        ("restartable", "state", "waits"), [(True, "PREEMPTED", True), (False, "NODE_FAIL", False)]
    )
    def test_what_it_stopped_waits_again_and_no_requeue_is_counted(self, cluster, restartable, state, waits):
        attempt = cluster.running(restartable=restartable)
        finding = {
            "subject": "node",
            "check": "allocation",
            "level": "drain",
            "detail": "It leaves.",
            "remedy": "None.",
        }
        node_health_take(node=cluster.node, findings=[finding], outside=[])
        cluster.end(attempt, reason="stopped", exit_code=0, detail="its allocation ends")
        attempt.refresh_from_db()
        assert attempt.state == state
        job = attempt.job
        assert (job.state == "PENDING", job.requeues) == (waits, 0)
        assert "its allocation ends" in "".join(job.events.values_list("text", flat=True))
