"""The frame of pages: whose menu has what, and the one line above them that a reader may put away."""

import html
import re

import pytest
from django.test import override_settings
from django.urls import reverse

from portal.cluster.models import Node
from portal.foundation.events.models import OutboxMessage
from portal.pages.dashboard.shell.banner import ACCOUNTS, DISMISSED, accounts_words
from portal.people.tenants.models import AuditEvent
from portal.people.tenants.services import membership_add, tenant_create
from portal.planning.rounds.services import settings_update
from portal.work.notifications.announcing import announcement_make
from portal.work.notifications.models import Announcement
from tests.portal.pages.dashboard.cluster_world import World, people

pytestmark = pytest.mark.django_db
TENANTS = ["Overview", "Jobs", "Queue", "Cluster"]
OPERATORS = [*TENANTS, "Figures", "Laboratory", "Console"]


@pytest.fixture(autouse=True)
def no_broker():
    with override_settings(REDIS_URL="redis://127.0.0.1:1/0"):
        yield


@pytest.fixture
def world(db):
    return people(World())


def shown(client, path="/account/"):
    answer = client.get(path)
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


def menu(client, path="/account/"):
    """Return the entries' labels, and the one that is marked."""
    found = re.search(r'<nav class="b-nav"[^>]*>(.*?)</nav>', shown(client, path), re.DOTALL)[1]
    marked = re.findall(r'aria-current="page">([^<]+)<', found)
    return re.findall(r">([^<>\n]+)</a>", found), marked


def banner(client):
    found = re.search(r'<div class="b-banner"[^>]*><span>(.*?)</span>', shown(client))
    return found and found[1]


def test_a_tenants_menu_ends_with_the_own_tenant(world):
    client = world.client("owner")
    assert menu(client) == ([*TENANTS, "vision"], [])
    assert menu(client, "/tenants/vision/") == ([*TENANTS, "vision"], ["vision"])
    assert menu(client, "/jobs/")[1] == ["Jobs"]


def test_who_is_in_two_tenants_finds_both_below_the_account(world):
    membership_add(user=world.users["owner"], tenant=tenant_create(name="zeta", actor=None), actor=None)
    client = world.client("owner")
    assert menu(client, "/tenants/zeta/") == ([*TENANTS, "vision"], [])
    assert shown(client, "/search").count('href="/tenants/zeta/"') == 2  # the menu of the account, and the folded one


def test_an_operators_menu_has_figures_laboratory_and_console(world):
    assert menu(world.client("operator"), "/rounds/") == (OPERATORS, ["Figures"])


def test_an_operator_shows_figures_and_the_laboratory_to_tenants(world):
    client = world.client("owner")
    for path in ("/laboratory/", "/rounds/metrics/", "/rounds/"):
        assert client.get(path).status_code == 200, "old links stay valid"
    settings_update(actor=world.users["operator"], laboratory_shown="on", figures_shown="on")
    assert menu(client) == ([*TENANTS, "Figures", "Laboratory", "vision"], [])


def test_an_operator_announces_in_the_console_and_ends_it(world):
    operator, owner = world.client("operator"), world.client("owner")
    made = operator.post(reverse("admin:notifications_announcement_add"), {"text": " Down on Friday,\n <b>18:00</b> "})
    assert made.status_code == 302
    assert banner(owner) == banner(operator) == "Down on Friday, <b>18:00</b>"
    assert "<b>18:00" not in owner.get("/account/").content.decode()
    row = Announcement.objects.get()
    end = f"{reverse('admin:notifications_announcement_do', args=['end'])}?id={row.pk}"
    assert owner.get(end).status_code in {302, 404}
    assert operator.post(end).status_code == 302
    assert banner(owner) is banner(operator) is None
    told = OutboxMessage.objects.filter(stream="cluster").values_list("payload", flat=True)
    assert [*told].count({"topic": "banner"}) == 2, "open pages ask for the line at its beginning and its end"
    assert [*AuditEvent.objects.filter(action__startswith="announcement").values_list("action", flat=True)] == [
        "announcement.end",
        "announcement.make",
    ]


def test_what_is_put_away_stays_away_until_the_next_line(world):
    client = world.client("owner")
    first = announcement_make(text="one", actor=world.users["operator"])
    client.cookies[DISMISSED] = f"a{first.pk}"
    assert banner(client) is None
    announcement_make(text="two", actor=world.users["operator"])
    assert banner(client) == "two"
    assert "<span>two</span>" in shown(client, "/banner"), "only an open page asks for it"
    assert Announcement.objects.filter(ended_at=None).count() == 1


def test_a_tenant_is_told_once_of_a_single_account_and_an_operator_has_it_as_a_problem(world):
    world.node("big")
    Node.objects.update(single_account=True, isolation={"files": False})
    owner, operator = world.client("owner"), world.client("operator")
    with override_settings(DEMO=False):
        assert banner(owner) == accounts_words()
        assert "can read each other's files" in banner(owner)
        assert banner(operator) is None
        assert "All jobs run as one account" in shown(operator, "/")
        owner.cookies[DISMISSED] = f"a1.{ACCOUNTS}"
        assert banner(owner) is None
    with override_settings(DEMO=True):
        assert banner(world.client("teammate")) is None
        assert "as one account" not in shown(operator, "/")
