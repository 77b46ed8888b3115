"""A shadow beside plannings, asked at once and in the test's own transaction."""

import pytest

from portal.planning.rounds.planning.run import planning_run
from portal.planning.rounds.services import settings_update
from portal.planning.sharing.shadow import Companion, Question, Runner
from tests.portal import given


@pytest.fixture(scope="session")
def companion():
    """One child process for all tests."""
    one = Companion()
    yield one
    one.close()


@pytest.fixture
def shadowed(cluster, companion, monkeypatch):
    """Plan with a shadow: its questions are answered before the call returns."""
    runner = Runner(companion)
    asked = []

    def tell(record, sharing):
        asked.append(Question(record.number, record.started_at, sharing))
        runner.answer(asked[-1])

    monkeypatch.setattr("portal.planning.rounds.planning.shadowed._followers", [tell])
    settings_update(actor=given.operator(), sharing_policy="res-ag", sharing_shadow="cbp")
    given.shared(cluster.node, 3)

    def plan():
        planning_run()
        return asked

    return plan
