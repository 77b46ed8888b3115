"""The page Sharing: only for operators, after any comparison; its cost does not grow with its contents."""

import html

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.planning.estimation.models import AttemptSpeed
from portal.planning.rounds.services import settings_update
from tests.portal import given
from tests.portal.planning.sharing.test_compared import measured

pytestmark = pytest.mark.django_db


def page(client, query=""):
    answer = client.get(f"/sharing/{query}")
    assert answer.status_code == 200
    return html.unescape(answer.content.decode())


def test_before_anything_was_shared_or_compared_it_says_what_to_do(cluster, client):
    client.force_login(given.operator())
    shown = page(client)
    assert "No GPU may be shared now." in shown
    assert "Nothing was compared yet." in shown
    assert client.get("/sharing/figures/use").json()["lines"] == []
    client.force_login(cluster.owner)
    assert client.get("/sharing/").status_code == 404
    assert "/sharing/" not in client.get("/cluster/").content.decode()


def test_it_shows_who_shares_with_whom_and_where_both_policies_differ(cluster, shadowed, client):
    measured(cluster, "a", "b", 1 / 1.31, count=2)
    jobs = [cluster.submit(**given.shareable(0.4, 4096, model=model, name=f"train-{model}")) for model in "ab"]
    shadowed()
    client.force_login(given.operator())
    shown = page(client)
    assert "res-ag acts" in shown
    assert "cbp in shadow" in shown
    assert all(f"#{job.number}</a>" in shown and job.name in shown for job in jobs)
    assert "16.0 of 24 GiB free" in shown
    assert "worst slowdown 1.31" in shown
    assert "Both admit 1 and both refuse 0 of 2; res-ag alone admits 1, cbp alone 0." in shown
    assert ">differs<" in shown
    assert "data-over" in shown
    assert "never seen to run" in page(client, "?only=differ&range=7d")
    assert "No such admission in this time." in page(client, "?only=refused")
    figure = client.get("/sharing/figures/use").json()
    assert [line["name"] for line in figure["lines"]] == ["res-ag", "cbp", "alone"]
    assert client.get("/sharing/?range=1y").status_code == 400


def test_an_unusable_learned_policy_and_a_failing_shadow_are_said(cluster, client, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    settings_update(actor=given.operator(), sharing_shadow="dqn")
    client.force_login(given.operator())
    assert "The learned policy (dqn) cannot be used: there is no sharing-policy.npz" in page(client)


def test_its_queries_do_not_grow_with_jobs(cluster, shadowed, client):
    client.force_login(given.operator())

    def queries():
        with CaptureQueriesContext(connection) as seen:
            page(client)
        return len(seen)

    for _ in range(2):
        cluster.submit(**given.shareable(0.1, 1024))
    shadowed()
    before = queries()
    for _ in range(6):
        cluster.submit(**given.shareable(0.1, 1024))
    shadowed()
    assert queries() == before
    assert before <= 45


def test_late_answers_of_servers_are_counted(cluster, client):
    attempt = cluster.running()
    AttemptSpeed.objects.create(attempt=attempt, at=timezone.now(), query_counts=[0, 150, 50], queries_late=3)
    client.force_login(given.operator())
    shown = page(client)
    assert "Answers over 150 ms" in shown
    assert ">1.50<small>%" in shown
    assert "of 200 in 24 h" in shown
