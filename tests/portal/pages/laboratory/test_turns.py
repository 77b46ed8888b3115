"""The price of turns by shares: worked out beside a simulation, said on its page and on those of plannings."""

import time

import pytest
from django.test import Client
from django.urls import reverse

from portal.pages.laboratory.models import Simulation
from portal.pages.laboratory.output.turns import turns_cost, turns_words
from portal.pages.laboratory.run import worker
from portal.people.tenants.models import Tenant
from portal.planning.rounds.planning.run import planning_run
from tests.portal import given
from tests.portal.pages.laboratory.lab import simulated, trace, trace_csv

pytestmark = pytest.mark.django_db

# Vision brings 40 jobs at once, each of a whole cluster's half; speech brings short ones after them.
ONE_TAKES_ALL = trace_csv(
    *(f"{place},vision,4,3600" for place in range(40)), *(f"{600 + 60 * place},speech,4,600" for place in range(20))
)


@pytest.fixture
def crowded(tenant, lena):
    return simulated(tenant, lena, trace=trace(tenant, lena, ONE_TAKES_ALL), policies=["fifo", "berth"])


@pytest.fixture
def outsider():
    return given.member("otto", Tenant.objects.create(name="other-lab"))


def page(user, name, *args):
    client = Client()
    client.force_login(user)
    return client.get(reverse(name, args=args)).content.decode()


def test_one_more_run_without_turns_tells_their_price_and_who_waits_without_them(crowded, lena):
    assert (crowded.state, list(crowded.figures)) == ("COMPLETED", ["fifo", "berth"])
    found = crowded.turns
    assert found["tenant"] == "speech"
    assert found["times"] >= 1.5
    words = turns_words(found)
    assert "without them speech waits " in words
    assert words in page(lena, "laboratory-detail", crowded.pk)


def test_the_price_is_that_of_a_simulation_with_the_knob_off(crowded, tenant, lena):
    plain = simulated(
        tenant, lena, trace=crowded.trace, policies=["berth"], knobs={"fair_shares": "off"}, name="without"
    )
    assert plain.turns == {}, "it has no turns, so they have no price"
    ratio = crowded.figures["berth"]["mean_jct_h"] / plain.figures["berth"]["mean_jct_h"]
    assert crowded.turns["cost"] == pytest.approx(ratio - 1.0)


def test_a_page_of_a_planning_asks_for_the_last_price_and_links_to_its_simulation(crowded, lena):
    number = planning_run().number
    assert f'hx-get="{reverse("laboratory-turns")}"' in page(lena, "planning-detail", number)
    told = page(lena, "laboratory-turns")
    assert turns_words(crowded.turns) in told
    assert reverse("laboratory-detail", args=[crowded.pk]) in told
    Simulation.objects.update(turns={})
    assert page(lena, "laboratory-turns").strip() == ""


def test_the_price_of_anothers_simulation_is_not_told(crowded, outsider):
    assert page(outsider, "laboratory-turns").strip() == ""


@pytest.mark.parametrize("fields", [{"policies": ["fifo", "drf"]}, {"trace": ["0,vision,4,600", "9,vision,4,600"]}])
def test_without_turns_or_other_tenants_there_is_no_price(tenant, lena, fields):
    if "trace" in fields:
        fields = {"trace": trace(tenant, lena, trace_csv(*fields["trace"])), "policies": ["berth"]}
    assert simulated(tenant, lena, **fields).turns == {}


def test_a_run_without_turns_that_takes_long_is_given_up_and_the_answer_stays(tenant, lena, monkeypatch):
    true_run = worker.policy_simulated

    def slow(*given, **named):
        if given[3].fair_shares == "off":
            monkeypatch.setattr(time, "monotonic", lambda: 1e12)
        return true_run(*given, **named)

    monkeypatch.setattr(worker, "policy_simulated", slow)
    done = simulated(tenant, lena, trace=trace(tenant, lena, ONE_TAKES_ALL), policies=["berth"])
    assert (done.state, done.turns, list(done.figures)) == ("COMPLETED", {}, ["berth"])


def run(jct_h, waits_h, *, unfinished=0):
    tenants = {name: {"jobs": 20, "mean_wait_h": wait} for name, wait in waits_h.items()}
    jobs = [(jct_h - 1.0, 1.0, None)] * 20
    return {"mean_jct_h": jct_h, "jobs_unfinished": unfinished, "tenants": tenants}, {"jobs": jobs}


@pytest.mark.parametrize(
    ("turns", "without", "words"),
    [
        (
            run(10.4, {"a": 1.0, "b": 9.0}),
            run(10.0, {"a": 2.0, "b": 8.0}),
            "Turns by shares cost 4\u00a0% of the mean time to completion here; without them a waits twice as long.",
        ),
        (
            run(10.0, {"a": 0.0, "b": 9.0}),
            run(10.0, {"a": 2.0, "b": 9.0}),
            "Turns by shares: no difference to tell in the mean time to completion; without them a waits many times as long.",
        ),
        (
            run(9.0, {"a": 2.0}),
            run(10.0, {"a": 2.9}),
            "Turns by shares cost nothing here: the mean time to completion is 10\u00a0% shorter with them.",
        ),
        (run(9.0, {"a": 2.0}, unfinished=1), run(10.0, {"a": 2.9}), ""),
    ],
    ids=["a price", "no difference", "a gain", "cut off"],
)
def test_the_sentence_is_that_of_the_figures(turns, without, words):
    assert turns_words(turns_cost(turns, without)) == words
