"""Only the difference travels: put on the board before, it gives the board after, after any change."""

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portal.pages.dashboard.board.feed import COLUMNS, difference

BYTES = st.lists(st.integers(0, 255), min_size=6, max_size=6)
BOARDS = st.fixed_dictionaries(
    {
        **dict.fromkeys(COLUMNS, BYTES),
        "groups": st.dictionaries(st.sampled_from(["type", "rack"]), st.lists(st.integers(0, 9), max_size=3)),
        "h": st.just(1),
        "nodes": st.just(["a", "b"]),
        "gpus": st.sampled_from([[8, 4], [8, 4], [4, 8]]),
        "order": st.just({"type": [[0, 1]]}),
        "titles": st.just({"type": ["A100"]}),
    }
)


def applied(before, change):
    """Return the board after a difference, as a page's script makes it."""
    after = dict(before)
    for name, values in change.items():
        if name == "groups":
            after["groups"] = values
            continue
        column = list(before[name])
        for place, value in zip(values[::2], values[1::2], strict=True):
            column[place] = value
        after[name] = column
    return after


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # slow is the machine
@given(before=BOARDS, after=BOARDS)
def test_a_difference_leads_from_one_board_to_the_next(before, after):
    change = difference(before, after)
    if before["gpus"] != after["gpus"]:
        assert change is None, "another shape is fetched whole"
        return
    sent = json.loads(json.dumps(change))
    assert applied(before, sent) == after
    assert (sent == {}) == (before == after)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(board=BOARDS, place=st.integers(0, 5), value=st.integers(0, 255))
def test_one_cell_costs_one_pair(board, place, value):
    column = list(board["use"])
    column[place] = value
    change = difference(board, board | {"use": column})
    assert change == ({"use": [place, value]} if value != board["use"][place] else {})
