"""Rounds: plannings in a row that changed nothing stand as one line, and none is lost."""

import re

import pytest

from portal.planning.rounds.models import Planning
from portal.planning.rounds.planning.run import planning_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def made(client, cluster):
    """Seven plannings: 1 and 5 place a job; one of the others failed."""
    numbers = []
    for place in range(1, 8):
        if place in {1, 5}:
            cluster.submit(gpus=1)
        numbers.append(planning_run().number)
    Planning.objects.filter(number=numbers[2]).update(status=Planning.Status.FAILED)
    Planning.objects.update(replan=False)
    client.force_login(cluster.owner)
    return numbers


def rows(page):
    """The rows of the table: the planning's number and its outcome."""
    found = re.findall(r"<tr>\s*<td[^>]*><a [^>]*>(\d+)</a>.*?</tr>", page, re.DOTALL)
    told = re.findall(r'<td data-outcome="[a-z]+">(.*?)</td>', page, re.DOTALL)
    return [(int(number), re.sub(r"<[^>]+>", "", text)) for number, text in zip(found, told, strict=True)]


def test_those_in_a_row_stand_as_one(client, made):
    shown = rows(client.get("/rounds/").content.decode())
    assert [number for number, _ in shown] == [made[6], made[4], made[3], made[2], made[1], made[0]]
    assert re.fullmatch(r"nothing placed, nor by 1 before it since \d\d:\d\d:\d\d", shown[0][1])
    assert [text for _, text in shown[1:]] == ["applied", "nothing placed", "failed", "nothing placed", "applied"]


def test_each_is_shown_to_who_asks(client, made):
    page = client.get("/rounds/?each=yes").content.decode()
    assert [number for number, _ in rows(page)] == made[::-1]
    assert 'data-fragment-url="/rounds/?each=yes"' in page
    table = client.get("/rounds/?each=yes&fragment=table").content.decode()
    assert [number for number, _ in rows(table)] == made[::-1]


def test_pages_are_of_plannings_whether_folded_or_not(client, made, monkeypatch):
    monkeypatch.setattr("portal.pages.dashboard.rounds.listing.PAGE_SIZE", 3)
    first = client.get("/rounds/").content.decode()
    assert [number for number, _ in rows(first)] == [made[6], made[4]]
    assert "1–3 of 7 plannings" in first
    assert 'href="/rounds/?page=2"' in first
    each = client.get("/rounds/?each=yes&page=2").content.decode()
    assert 'href="/rounds/?each=yes"' in each
    assert 'href="/rounds/?each=yes&amp;page=3"' in each


def test_another_word_is_refused(client, made):
    refused = client.get("/rounds/?each=no", headers={"accept": "application/json"})
    assert refused.status_code == 400
    assert refused.json()["error"]["field"] == "each"
