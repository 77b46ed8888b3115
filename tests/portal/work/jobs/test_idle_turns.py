"""Whose idle time is counted in which look: near a warning in each, far from it in each third, and none of it is lost."""

import pytest

from portal.planning.rounds.settings.schedule import FIXED_S
from portal.work.jobs.idle import looking
from portal.work.jobs.models import IdleWatch
from tests.portal.work.jobs.test_idle import World

pytestmark = pytest.mark.django_db


@pytest.fixture
def counted(cluster, monkeypatch):
    """The idle seconds after each of six looks, fifteen seconds of idle time before each, from so many on."""

    def looked(before_s):
        world = World(cluster, idle_timeout_s=3600)
        IdleWatch.objects.update(idle_s=before_s, parts={str(cluster.node.pk): before_s})
        found = []
        for turn in range(6):
            monkeypatch.setattr(looking, "_turn", lambda turn=turn: turn % looking.TURNS)
            for _ in range(3):
                world.step(look=False)
            looking.idle_look()
            found.append(world.watch.idle_s - before_s)
        return found

    return looked


def test_who_is_far_from_a_warning_is_looked_at_once_in_three_looks_for_all_that_was_measured(counted):
    found = counted(0.0)
    first = next(place for place, value in enumerate(found) if value)
    assert first < looking.TURNS
    assert found[first:] == [15.0 * (first + 1)] * 3 + [15.0 * (first + 4)] * (3 - first)


def test_who_is_near_one_is_looked_at_each_time(counted):
    assert counted(looking.WARNED_LEAST * 3600 - looking.NEAR_S) == [15.0 * (look + 1) for look in range(6)]


def test_turns_go_by_the_time_between_looks(monkeypatch):
    assert FIXED_S["jobs.idle"] == looking.LOOK_S
    turns = []
    for look in range(4):
        monkeypatch.setattr(looking.time, "time", lambda look=look: 1_800_000_000.0 + looking.LOOK_S * look)
        turns.append(looking._turn())
    assert turns == [0, 1, 2, 0]
