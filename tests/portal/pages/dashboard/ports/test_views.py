"""From a node's report to the buttons of a job's page, and from a button to the port's own origin."""

import pytest
from django.conf import settings as django_settings
from django.test import Client
from django.urls import reverse

from portal.foundation.job_names import JobName
from portal.pages.dashboard.ports.views import ports_make
from portal.pages.dashboard.ports.visits import LINKS, OF_SESSION, Visit, cookie_make, cookie_read
from portal.people.accounts.models import SignIn
from portal.people.tenants.models import Tenant
from tests.portal import given

pytestmark = pytest.mark.django_db


@pytest.fixture
def served(cluster):
    attempt = cluster.running()
    answer = given.heard(node=cluster.node, reports=[], holding=[given.held(attempt, ports=[6006, 8889, 40_000])])
    assert answer["stop"] == []
    return attempt.job


@pytest.fixture
def person(served):
    return given.member("mia", served.tenant)


def test_a_notebook_comes_first_and_others_beside_it(served, person, cluster):
    assert [each["words"] for each in ports_make(served, person)] == [
        "Open notebook",
        "Open port 6006",
        "Open port 40000",
    ]
    assert ports_make(served, given.member("vic", served.tenant, "viewer")) is None
    assert ports_make(served, None) is None
    page = signed_in(person).get(reverse("job-detail", args=[served.number])).content.decode()
    assert "Open notebook" in page
    given.heard(node=cluster.node, reports=[], holding=[given.held(served.attempts.get(), ports=[])])
    assert ports_make(served, person) == []


def signed_in(person):
    client = Client(headers={"host": "127.0.0.1:8000"})
    client.force_login(person)
    SignIn.objects.get_or_create(session_key=client.session.session_key, defaults={"user": person})
    return client


def test_a_button_leads_to_the_ports_origin_with_a_token_that_works_once(served, person):
    answer = signed_in(person).get(reverse("job-port", args=[served.number, 8889]))
    address, _, token = answer.headers["Location"].partition("?link=")
    assert address == f"http://{served.number}-8889.localhost:8000/.berth/sign-in"
    assert (answer.headers["Cache-Control"], answer.headers["Referrer-Policy"]) == ("no-store", "no-referrer")
    assert LINKS.take(token, JobName(served.number, 8889)).job == served.key
    assert LINKS.take(token, JobName(served.number, 8889)) is None


def test_a_session_has_few_links_at_one_time():
    name, visit = JobName("41", 80), Visit(8, "k" * 32, "41", 80)
    tokens = [LINKS.make(visit) for _ in range(OF_SESSION + 1)]
    other = LINKS.make(Visit(9, "k" * 32, "41", 80))
    assert [LINKS.take(token, name) for token in tokens] == [None] + [visit] * OF_SESSION
    assert LINKS.take(other, name) is not None


def test_without_names_for_jobs_the_page_says_how_forward_does_it(served, person, monkeypatch):
    monkeypatch.setattr(django_settings, "JOBS_DOMAIN", "")
    page = signed_in(person).get(reverse("job-port", args=[served.number, 8889])).content.decode()
    assert f"berth forward {served.number} 8889" in page


def test_who_may_not_work_on_it_gets_no_link(served):
    asked = reverse("job-port", args=[served.number, 8889])
    assert signed_in(given.member("vic", served.tenant, "viewer")).get(asked).status_code == 403
    other = Tenant.objects.create(name="other")
    assert signed_in(given.member("otto", other)).get(asked).status_code == 404


def test_a_cookie_counts_at_its_own_origin_and_cannot_be_made_up():
    visit = Visit(7, "k" * 32, "41", 8888)
    value = cookie_make(visit)
    assert cookie_read(value, JobName("41", 8888)) == visit
    assert cookie_read(value, JobName("41", 8889)) is None
    assert cookie_read(value, JobName("42", 8888)) is None
    for bad in (value[:-1], value + "x", "", "x:y:z", value.swapcase()):
        assert cookie_read(bad, JobName("41", 8888)) is None
