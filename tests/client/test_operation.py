"""A client's operation asks as its signature says, and a list is read page by page."""

import json

import pytest

from berth_client import Berth
from berth_client.transport import Answer

API = "http://h/api/v1"


@pytest.fixture
def asked():
    return []


@pytest.fixture
def berth(asked):
    def send(method, url, *, headers, body, timeout_s):
        asked.append((method, url.removeprefix(API), body and json.loads(body)))
        rows = [{"id": 1}, {"id": 2}]
        page = {"results": rows, "count": 4, "next": None if "after=2" in url else f"{API}/jobs?after=2"}
        return Answer(200, {}, json.dumps(page).encode())

    return Berth("http://h", "t", transport=send)


def test_names_go_into_the_path_and_the_rest_into_query_or_body(berth, asked):
    berth.jobs_list(state=["RUNNING", "HELD"], name="a b", page=None)
    berth.nodes_show(name="a/b", hours=2)
    berth.nodes_drain("a/b", reason="fans")
    berth.jobs_cancel("1_2")
    berth.jobs_change(4, gpus=0, name="")
    berth.jobs_offer_accept(4, change="gpus", value=None)
    berth.secrets_remove("x", tenant="t")
    assert asked == [
        ("GET", "/jobs?state=RUNNING%2CHELD&name=a+b", None),
        ("GET", "/nodes/a%2Fb?hours=2", None),
        ("POST", "/nodes/a%2Fb/drain", {"reason": "fans"}),
        ("POST", "/jobs/1_2/cancel", None),
        ("PATCH", "/jobs/4", {"gpus": 0, "name": ""}),
        ("POST", "/jobs/4/offers", {"change": "gpus", "value": None}),
        ("DELETE", "/secrets/x?tenant=t", None),
    ]


def test_a_default_is_not_sent(berth, asked):
    for wanted in (False, True):
        berth.jobs_explain(4, what_if=wanted)
    assert [path for _, path, _ in asked] == ["/jobs/4/explain", "/jobs/4/explain?what_if=true"]


@pytest.mark.parametrize("call", [lambda berth: berth.jobs_list(stat="HELD"), lambda berth: berth.jobs_show()])
def test_other_arguments_are_an_error_before_anything_is_sent(berth, asked, call):
    with pytest.raises(TypeError):
        call(berth)
    assert asked == []


@pytest.mark.parametrize(
    ("most", "ids", "paths"), [(None, [1, 2, 1, 2], 2), (3, [1, 2, 1], 2), (2, [1, 2], 1), (1, [1], 1)]
)
def test_a_list_is_read_page_by_page_to_its_end_or_to_most(berth, asked, most, ids, paths):
    assert [row["id"] for row in berth.each(berth.jobs_list, most=most, state="HELD")] == ids
    assert len(asked) == paths
    assert asked[0][1] == f"/jobs?state=HELD&page_size={min(most or 500, 500)}"
    assert paths == 1 or asked[1][1].endswith("&after=2")
