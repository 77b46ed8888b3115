"""A waiting job's card never says that the job is over before it starts."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.pages.dashboard.jobs.waiting.changes import changes_make
from portal.planning.offers.services import NOTHING, Kept
from portal.planning.rounds.read.forecasts import Start
from portal.work.jobs.models import Job

NOW = datetime(2026, 11, 29, 15, 55, tzinfo=UTC)
OFFER = {
    "value": [1],
    "nodes": ["a100-01"],
    "gains": True,
    "starts": True,
    "words": "Accept 1 GPU too",
    "over_at": None,
}
OFFER |= {"of_asked": None, "later": "", "no_gain": None, "gpus": 1, "source": None, "sentence": ""}


@pytest.mark.parametrize(("earliest_min", "agree"), [(-18, True), (-1, False), (7, False)])
def test_an_answer_that_a_newer_range_has_overtaken_compares_nothing(earliest_min, agree):
    earliest = NOW + timedelta(minutes=earliest_min)
    stands = Start(NOW, earliest, earliest + timedelta(minutes=20), earliest + timedelta(hours=1), passed=False)
    over = (NOW + timedelta(minutes=3)).isoformat()
    answer = {**NOTHING, "over_at": over, "offers": [{**OFFER, "start": None, "change": "sizes"}]}
    card = changes_make(Job(), Kept(answer, NOW, fresh=True), stands)
    gain, as_it_stands = card["rows"]
    assert as_it_stands["over"] == (over if agree else None)
    assert bool(gain["difference"]) is agree
