"""Problems that `/healthz` names although Berth answers: nodes away, disks almost full, jobs that do not start, failing plannings."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from portal.cluster.models import UNREACHABLE_AFTER_S, Node, NodeEvent
from portal.cluster.services.contact import node_disk_note
from portal.operate.health.problems import FAILED_PLANNINGS, NAMED, STARTING_LIMIT_S
from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run
from portal.work.jobs.models import Attempt
from tests.portal import given
from tests.portal.foundation.api.conftest import node_make
from tests.portal.foundation.api.test_disk import small  # noqa: F401 - a fixture
from tests.portal.foundation.api.test_health import ask, well  # noqa: F401 - a fixture

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("well")]
LONG_AGO = timedelta(hours=2)


def away(*nodes, for_=LONG_AGO):
    Node.objects.filter(pk__in=[node.pk for node in nodes]).update(last_contact_at=timezone.now() - for_)


@pytest.fixture(autouse=True)
def numbers_left(well):  # noqa: F811
    """The fixture's planning has a number that no planning made here takes."""
    Planning.objects.update(number=1000)


def problems():
    """(status, state, sentences)."""
    status, answer = ask()
    return status, answer["state"], answer["problems"]


def test_an_unreachable_node_is_named_with_since_when(world):
    away(world.nodes[0])
    status, state, (sentence,) = problems()
    since = Node.objects.get(pk=world.nodes[0].pk).last_contact_at
    assert (status, state) == (200, "degraded"), "one node away does not take the portal out of service"
    assert sentence == f"nodes: 1 unreachable (rtx-01 since {since:%Y-%m-%d %H:%M:%S} UTC)"


@pytest.mark.parametrize(("ago_s", "named"), [(UNREACHABLE_AFTER_S - 5, 0), (UNREACHABLE_AFTER_S + 1, 1)])
def test_a_portal_that_was_away_calls_no_node_unreachable_at_once(world, settings, tmp_path, ago_s, named):
    settings.DATA_DIR = tmp_path
    given.portal_started(tmp_path, ago_s=ago_s)
    away(world.nodes[0])
    assert len([each for each in problems()[2] if "unreachable" in each]) == named


@pytest.mark.parametrize(
    "change", [{"drained_at": timezone.now()}, {"dead_at": timezone.now()}, {"token_revoked_at": timezone.now()}]
)
def test_one_that_the_operator_took_away_is_no_problem(world, change):
    away(world.nodes[0])
    Node.objects.filter(pk=world.nodes[0].pk).update(**change)
    assert problems() == (200, "ok", [])


def test_many_are_counted_and_the_longest_away_named(world):
    nodes = [node_make(f"n{i:02}", gpus=0) for i in range(NAMED + 4)]
    for hours, node in enumerate(nodes):
        away(node, for_=timedelta(hours=1 + hours))
    (sentence,) = problems()[2]
    assert sentence.startswith(f"nodes: {len(nodes)} unreachable (n{NAMED + 3:02} since")
    assert sentence.endswith(", and 4 more)")
    assert sentence.count("since") == NAMED


def test_the_queries_do_not_grow_with_the_nodes(world, django_assert_max_num_queries):
    for number in range(30):
        away(node_make(f"n{number}", gpus=0))
    Node.objects.update(disk_low=True, disk_free_mib=1)
    with django_assert_max_num_queries(16 + 5):
        ask()


def test_a_node_with_a_full_disk_is_named(world):
    node_disk_note(node=world.nodes[1], disk={"free_mib": 120, "total_mib": 9000, "low": True})
    assert problems() == (200, "degraded", ["node disks: 1 almost full, no new jobs there (rtx-02 120 MiB free)"])


def test_a_node_whose_agent_tells_of_a_problem_is_named_without_the_details(world):
    Node.objects.filter(name="rtx-02").update(problems=[{"at": 1.0, "subject": "file x", "detail": "a tenant's path"}])
    assert problems()[2] == ["agents: 1 reported a problem, see the node's page (rtx-02)"]


def test_a_job_that_starts_for_too_long_is_named(world):
    world.owner.submit(gpus=1)
    assert planning_run().placed == 1
    assert problems()[2] == []
    Attempt.objects.update(created_at=timezone.now() - timedelta(seconds=STARTING_LIMIT_S + 5))
    (sentence,) = problems()[2]
    assert sentence.startswith(f"jobs: 1 starting for over 5 min ({Attempt.objects.get().job_id} since")


def test_plannings_that_fail_one_after_the_other(world):
    round_ = Planning.objects.get().round
    for number in range(1001, 1001 + FAILED_PLANNINGS):
        assert problems()[2] == []
        Planning.objects.create(number=number, round=round_, started_at=timezone.now(), status="failed")
    assert problems()[2] == [f"plannings: the last {FAILED_PLANNINGS} failed; logs/worker.log says why"]


def test_the_portals_own_disk_with_its_figures(world, small):  # noqa: F811
    figures = ask()[1]["disk"]
    assert (figures["total_mib"], figures["mark_mib"], figures["low"]) == (32, 16, False)
    assert figures["free_mib"] == int(small.free_mib())
    small.fill(leave_mib=8)
    Planning.objects.update(started_at=timezone.now() - LONG_AGO)
    status, state, (sentence,) = problems()
    assert (status, state) == (503, "disk-low"), "no planning is made: its age is not named beside the reason"
    assert sentence.startswith("disk: Berth's disk is almost full: ")
    small.give_back()
    Planning.objects.update(started_at=timezone.now())
    assert problems() == (200, "ok", [])


def test_the_operators_overview_shows_them_and_nobody_elses(world):
    away(world.nodes[0])
    for name, shown in (("root", True), ("lena", False)):
        browser = Client()
        browser.force_login(world.users[name])
        for path in ("/", "/fragments/overview/problems"):
            assert ("rtx-01 does not answer" in browser.get(path).content.decode()) is shown, (name, path)


class TestNodesDisk:
    def test_below_its_mark_it_gets_no_jobs_and_the_explanation_says_why(self, world):
        for node in world.nodes:
            node_disk_note(node=node, disk={"free_mib": 3, "total_mib": 9000, "low": True})
        job = world.owner.submit(gpus=1)
        assert planning_run().placed == 0
        why = world.owner.get(f"/jobs/{job['id']}/explain").json()
        assert "its disk is almost full" in str(why)
        for node in Node.objects.all():
            node_disk_note(node=node, disk={"free_mib": 8000, "total_mib": 9000, "low": False})
        assert planning_run().placed == 1

    def test_the_node_page_and_rest_say_it(self, world):
        node_disk_note(node=world.nodes[0], disk={"free_mib": 1536, "total_mib": 10240, "low": True})
        browser = Client()
        browser.force_login(world.users["lena"])
        page = browser.get("/cluster/rtx-01/").content.decode()
        assert "1.5 GiB" in page
        assert "almost full: no new jobs until there is room" in page
        answer = world.owner.get("/nodes/rtx-01").json()
        assert (answer["health"], answer["disk_free_mib"], answer["disk_total_mib"]) == ("disk-low", 1536, 10240)

    def test_each_turn_is_one_event_and_small_changes_are_no_write(self, world, django_assert_num_queries):
        node = world.nodes[0]
        for _ in range(2):
            node.refresh_from_db()
            node_disk_note(node=node, disk={"free_mib": 5, "total_mib": 10_000, "low": True})
        node.refresh_from_db()
        with django_assert_num_queries(0):
            node_disk_note(node=node, disk={"free_mib": 6, "total_mib": 10_000, "low": True})
        node_disk_note(node=node, disk={"free_mib": 900, "total_mib": 10_000, "low": False})
        kinds = list(NodeEvent.objects.filter(node=node).order_by("pk").values_list("kind", flat=True))
        assert kinds == ["disk almost full", "disk has room again"]
