"""A learned policy is trained from the cluster's own history and proposed: one at a time, judged, accepted once, never switched."""

import html
from datetime import timedelta

import numpy as np
import pytest
from django.utils import timezone

from portal.foundation.errors import BerthError, Conflict, Forbidden
from portal.pages.laboratory import retraining
from portal.pages.laboratory.retraining import retrain_next
from portal.people.tenants.models import AuditEvent
from portal.planning.estimation.models import PairSpeed, Signature, SignatureUse
from portal.planning.rounds.planning.sharing import NAME, policy_learned
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.sharing.models import Proposal
from portal.planning.sharing.proposing import proposal_ask, proposal_decide, proposal_take
from scheduler.sharing.learned.training import Recipe
from scheduler.simulator.sharing import training_runs
from tests.portal import given
from tests.portal.planning.sharing.test_compared import measured

pytestmark = pytest.mark.django_db
S = Proposal.State


@pytest.fixture(autouse=True)
def short(monkeypatch, settings, tmp_path):
    settings.DATA_DIR = tmp_path
    monkeypatch.setattr(training_runs, "RECIPE", Recipe(updates=2, workloads=1, plays=2, gamma=1.0, unit=50.0))
    monkeypatch.setattr(training_runs, "TAUGHT_JOBS", 5)
    monkeypatch.setattr(retraining, "JUDGED", (1_000_001,))
    return tmp_path


@pytest.fixture
def seen(cluster):
    """Two kinds of jobs ran, and were measured beside each other."""
    for place, model in enumerate("ab"):
        name = f"tenant:{cluster.tenant.pk}:{model}"
        own = Signature.objects.create(name=name, tenant=cluster.tenant, used_at=timezone.now())
        series = {"gpu_utilisation": [30.0] * 64, "gpu_memory_mib": [1000.0 + 1000 * place] * 64}
        SignatureUse.objects.create(
            signature=own, gpu_type=cluster.node.gpu_type, at=timezone.now(), series=series, count=1, seconds=300.0
        )
    measured(cluster, "a", "b", 0.9)
    measured(cluster, "b", "a", 0.95)
    return cluster


def test_it_is_trained_judged_proposed_and_its_file_served_once_accepted(seen, short, client):
    asked = proposal_ask(actor=given.operator())
    assert retrain_next() == asked.pk
    found = Proposal.objects.get()
    assert (found.state, found.error) == (S.READY, "")
    assert (found.about["source"], found.about["signatures"], found.about["pairs_measured"]) == ("telemetry", 2, 2)
    assert len(found.curve) == 2
    assert set(found.judged) == {"proposed", "cbp-pp"}
    assert found.judged["proposed"]["oom"] == 0
    assert policy_learned() is None, "it is only proposed"
    before = knobs_current()
    proposal_decide(number=found.pk, verb="accept", actor=given.operator())
    assert policy_learned() is not None
    assert knobs_current() == before
    assert [path.name for path in short.iterdir()] == [NAME]
    assert list(AuditEvent.objects.values_list("action", flat=True)[:2]) == ["sharing.accepted", "sharing.train"]
    with pytest.raises(Conflict):
        proposal_decide(number=found.pk, verb="reject", actor=given.operator())
    proposal_ask(actor=given.operator())
    retrain_next()
    assert set(Proposal.objects.latest("pk").judged) == {"proposed", "present", "cbp-pp"}
    client.force_login(given.operator())
    shown = html.unescape(client.get("/sharing/").content.decode())
    assert "learned in 2 updates from 2 kinds of jobs and" in shown
    assert ">present<" in shown
    assert "Accept</button>" in shown
    latest = Proposal.objects.latest("pk").pk
    assert len(client.get(f"/sharing/proposals/{latest}/curve").json()["lines"][0]["y"]) == 2
    assert client.post(f"/sharing/proposals/{latest}/reject").status_code == 302
    assert Proposal.objects.get(pk=latest).state == S.REJECTED
    assert bytes(Proposal.objects.get(pk=latest).content) == b""


def test_a_pair_that_was_measured_one_way_alone_is_enough(cluster, seen):
    PairSpeed.objects.filter(beside__endswith=":a").delete()
    measured(cluster, "a", "a", 0.8)
    proposal_ask(actor=given.operator())
    retrain_next()
    assert Proposal.objects.get().about["pairs_measured"] == 2
    both = {("a", "b"): 0.5, ("b", "a"): 0.6, ("a", "a"): 0.7, ("b", "c"): 0.8}
    taught = retraining.half(both, 1)
    assert 2 <= len(taught) <= 3
    assert (("a", "b") in taught) == (("b", "a") in taught)
    assert retraining.half({}, 1) == {}


def test_too_little_history_is_said_and_nothing_else_happens(cluster, client):
    client.force_login(given.operator())
    client.post("/sharing/proposals/new")
    retrain_next()
    assert "0 kinds of jobs were seen to use a GPU" in Proposal.objects.get().error
    assert "The training failed: " in client.get("/sharing/").content.decode()


def test_it_comes_by_itself_only_where_the_knob_says_so_and_when_it_is_due(seen):
    assert retrain_next() is None
    settings_update(actor=given.operator(), sharing_retrain_days=7)
    assert retrain_next() is not None
    assert retrain_next() is None
    Proposal.objects.update(created_at=timezone.now() - timedelta(days=8))
    assert retrain_next() is not None
    assert Proposal.objects.filter(state=S.READY, asked_by_name="").count() == 2


def test_one_at_a_time_and_one_whose_worker_is_gone_has_failed(seen):
    proposal_ask(actor=given.operator())
    taken = proposal_take()
    assert proposal_take() is None
    with pytest.raises(Conflict, match="waits or runs already"):
        proposal_ask(actor=given.operator())
    Proposal.objects.filter(pk=taken.pk).update(begun_at=timezone.now() - timedelta(hours=1))
    assert proposal_take() is None
    assert Proposal.objects.get().state == S.FAILED


def test_one_that_takes_too_long_is_given_up(seen, monkeypatch):
    monkeypatch.setattr(retraining, "LIMIT_S", -1.0)
    proposal_ask(actor=given.operator())
    retrain_next()
    assert "it was not trained within" in Proposal.objects.get().error


def test_a_file_that_cannot_be_written_leaves_all_as_it_was(seen, settings, tmp_path):
    proposal_ask(actor=given.operator())
    retrain_next()
    settings.DATA_DIR = tmp_path / "gone"
    with pytest.raises(BerthError, match="nothing was changed"):
        proposal_decide(number=Proposal.objects.get().pk, verb="accept", actor=given.operator())
    assert Proposal.objects.get().state == S.READY


def test_only_an_operator_decides_and_only_what_there_is_to_decide(seen):
    with pytest.raises(Forbidden):
        proposal_ask(actor=seen.owner)
    made = proposal_ask(actor=given.operator())
    with pytest.raises(Forbidden):
        proposal_decide(number=made.pk, verb="accept", actor=seen.owner)
    with pytest.raises(Conflict, match="waits for its training"):
        proposal_decide(number=made.pk, verb="accept", actor=given.operator())
    with pytest.raises(BerthError, match="accepts a proposal or rejects it"):
        proposal_decide(number=made.pk, verb="praise", actor=given.operator())


def test_the_same_history_and_seed_give_the_same_file(seen):
    made = [retraining.trained(seed=3, ends_s=np.inf)["content"] for _ in range(2)]
    assert made[0] == made[1]
