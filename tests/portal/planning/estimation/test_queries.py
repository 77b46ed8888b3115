"""Figures of a server's queries on its page and over REST, from its records."""

import pytest

from portal.pages.dashboard.jobs.speed import speed_make
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import AttemptSpeed
from portal.planning.estimation.queries import QUERY_EDGES_MS, percentile_ms, queries_summary
from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update
from portal.work.jobs.models import Attempt
from portal.work.jobs.selectors import part_spec
from tests.portal import given
from tests.portal.planning.estimation.test_records import record, send

EMPTY = [0] * (len(QUERY_EDGES_MS) + 1)


def counts(**by_edge):
    """`counts(ms20=3)`: three queries between 10 and 20 ms."""
    found = list(EMPTY)
    for name, count in by_edge.items():
        found[[*QUERY_EDGES_MS, 0].index(int(name.removeprefix("ms")))] = count
    return found


def test_percentiles_lie_within_the_range_where_they_fall():
    assert percentile_ms(counts(ms20=10), 0.5) == 15.0
    assert percentile_ms(counts(ms20=99, ms150=1), 0.99) == 20.0
    assert percentile_ms(counts(ms20=98, ms150=2), 0.99) == 125.0
    assert percentile_ms(counts(ms1=1, ms0=9), 0.5) is None, "longer than the last edge: nobody knows how long"
    assert queries_summary([], 0) is None
    assert queries_summary(EMPTY, 0) is None


@pytest.mark.django_db
def test_queries_of_records_add_up_and_stand_on_the_page_and_in_rest(cluster, client):
    attempt = cluster.running(model="server")
    send(
        attempt, record(seconds=2.0, queries=counts(ms20=90), late=0), record(queries=counts(ms200=9, ms5000=1), late=1)
    )
    send(attempt, record(), offset=100)
    row = AttemptSpeed.objects.get()
    assert (sum(row.query_counts), row.queries_late) == (100, 1)
    shown = {fact["label"]: fact for fact in speed_make(attempt.job, list(Attempt.objects.all()))["facts"]}
    assert (shown["Queries"]["value"], shown["Late answers"]["value"]) == ("100", "1.00%")
    assert shown["Queries"]["note"] == "half of them within 16 ms, 99 % within 200 ms"
    client.force_login(cluster.owner, backend="django.contrib.auth.backends.ModelBackend")
    told = client.get(f"/api/v1/jobs/{attempt.job.number}").json()["attempts"][0]["speed"]["queries"]
    assert told == {"answered": 100, "late": 1, "late_share": 0.01, "median_ms": 15.6, "p99_ms": 200.0}


@pytest.mark.django_db
def test_late_answers_name_who_is_beside_the_server_and_count_another_tenants_jobs(cluster):
    given.shared(cluster.node, 3)
    ours = [cluster.submit(**given.shareable(0.2, 1024), name=name) for name in ("server", "batch")]
    nlp = Tenant.objects.create(name="nlp-lab")
    given.Cluster(nlp, given.member("nora", nlp), cluster.node).submit(**given.shareable(0.2, 1024), name="theirs")
    planning_run()
    attempt = Attempt.objects.get(job=ours[0])
    cluster.report(attempt, "running")
    send(attempt, record(queries=counts(ms20=9, ms5000=1), late=1))
    shown = {fact["label"]: fact for fact in speed_make(ours[0], list(Attempt.objects.filter(job=ours[0])))["facts"]}
    note = shown["Late answers"]["note"]
    assert note == f"1 took longer than they may; beside it is #{ours[1].number} and a job of another tenant"


@pytest.mark.django_db
def test_a_server_is_told_after_how_long_an_answer_is_late(cluster):
    settings_update(actor=given.operator(), slo_ms=80)
    attempt = cluster.started(latency_class="latency", shareable=True, gpu_compute=0.3, gpu_memory_mib=1000)
    assert part_spec(node=cluster.node, key=attempt.key)["environment"]["BERTH_SLO_MS"] == "80"
    plain = cluster.started()
    assert "BERTH_SLO_MS" not in part_spec(node=cluster.node, key=plain.key)["environment"]
