"""What several jobs print goes in one request: in order, each byte once, and none of them holds back the others."""

from __future__ import annotations

import threading
import time

import pytest

from tests.workers.small_portal import MOST_PIECES, TOGETHER_BYTES
from workers.parts.part import Part
from workers.parts.together import PIECE_BYTES, Heard, News, requests_of

TALKING = "for i in $(seq 30); do echo $i; echo e$i >&2; sleep 0.1; done"
SAID = {
    "stdout": "".join(f"{i}\n" for i in range(1, 31)).encode(),
    "stderr": "".join(f"e{i}\n" for i in range(1, 31)).encode(),
}
GPUS = "gpus=2,type='Test GPU',gpu-memory-mib=1024,cores=64,memory-mib=65536"


def whole(portal, key, said=SAID):
    return all(portal.logs.get((*key, stream)) == text for stream, text in said.items())


def all_ended(portal, *keys):
    for key in keys:
        portal.wait_report(key, "ended")


def alone(portal):
    return sum(path == "logs" for _, path in portal.calls)


def test_what_several_jobs_print_goes_in_one_request(portal, node):
    keys = [portal.want(attempt=i, job=i, command=f"{TALKING}; exec sleep 600") for i in range(1, 5)]
    node.start()
    portal.wait_for(lambda: all(whole(portal, key) for key in keys))
    assert max(len({piece["attempt"] for piece in pieces}) for pieces in portal.together) == len(keys)
    assert alone(portal) == 0, "while they run; what is left when one ends goes by itself, before its end is told"
    assert all(taken for _, taken in portal.log_offsets)
    for key in keys:
        portal.stop(key)
    all_ended(portal, *keys)


def test_an_older_portal_gets_each_log_by_itself(portal, node):
    del portal.hello["logs_together_bytes"]
    keys = [portal.want(attempt=i, job=i, command=TALKING) for i in (1, 2)]
    node.start()
    all_ended(portal, *keys)
    portal.wait_for(lambda: all(whole(portal, key) for key in keys))
    assert portal.together == []
    assert alone(portal) > 0


def test_a_portal_that_became_older_gets_each_log_by_itself(portal, node):
    key = portal.want(command=TALKING)
    node.start()
    portal.wait_for(lambda: portal.together)
    del portal.hello["logs_together_bytes"]  # the agent was told otherwise
    all_ended(portal, key)
    portal.wait_for(lambda: whole(portal, key))
    assert sum(path == "logs/together" for _, path in portal.calls) == len(portal.together) + 1, "it asked once more"


def test_each_goes_on_where_the_portal_stands(portal, node):
    keys = [portal.want(attempt=i, job=i, command="echo 0123456789; sleep 1.5; echo more; sleep 1") for i in (1, 2)]
    node.start()
    portal.wait_for(lambda: all(portal.logs.get((*key, "stdout")) for key in keys))
    with portal.lock:
        portal.logs[*keys[0], "stdout"] = b"0123"  # the portal lost what it had not written
    all_ended(portal, *keys)
    portal.wait_for(lambda: all(portal.logs[*key, "stdout"] == b"0123456789\nmore\n" for key in keys))
    assert any(not taken for _, taken in portal.log_offsets)


def test_a_lost_answer_doubles_nothing(portal, node):
    keys = [portal.want(attempt=i, job=i, command=TALKING) for i in (1, 2, 3)]
    taking, lost = portal.take_logs_together, []

    def lose(body):
        answer = taking(body)
        if len(lost) < 5:
            lost.append(answer)
            portal.away = True  # it took them, and its answer is lost
            threading.Timer(0.2, setattr, (portal, "away", False)).start()
        return answer

    portal.take_logs_together = lose
    node.start()
    all_ended(portal, *keys)
    portal.wait_for(lambda: all(whole(portal, key) for key in keys))
    assert len(lost) == 5


def test_a_job_that_prints_without_end_holds_back_no_other(portal, node):
    loud = portal.want(attempt=1, job=1, command="exec cat /dev/zero", log_limit_bytes=2**30)
    quiet = portal.want(attempt=2, job=2, command=TALKING)
    node.start()
    portal.wait_for(lambda: whole(portal, quiet))
    portal.stop(loud)
    all_ended(portal, loud, quiet)
    sizes = [len(piece["data"]) for pieces in portal.together for piece in pieces if piece["attempt"] == "1"]
    assert max(sizes, default=0) <= PIECE_BYTES * 4 / 3 + 4
    assert len(portal.logs[*loud, "stdout"]) > TOGETHER_BYTES, "it is sent beside, by requests of its own"


def test_a_log_that_the_portal_fails_over_holds_back_no_other(portal, node):
    keys = [portal.want(attempt=i, job=i, command=TALKING) for i in (1, 2, 3)]
    portal.poison.add(keys[1])
    node.start()
    portal.wait_for(lambda: whole(portal, keys[0]) and whole(portal, keys[2]))
    portal.poison.clear()
    portal.wait_for(lambda: whole(portal, keys[1]))
    all_ended(portal, *keys)


def test_a_part_that_the_portal_does_not_know_is_sent_no_more(portal, node):
    key = portal.want(command=TALKING)
    other = portal.want(attempt=2, job=2, command=TALKING)
    node.start()
    portal.wait_report(key, "running")
    with portal.lock:
        portal.specs.pop(key)
    portal.wait_for(lambda: whole(portal, other))
    portal.wait_report(other, "ended")
    tries = [pieces for pieces in portal.together if any(piece["attempt"] == key[0] for piece in pieces)]
    time.sleep(1)
    assert [pieces for pieces in portal.together if any(piece["attempt"] == key[0] for piece in pieces)] == tries


def news(number, size):
    part = Part(attempt=str(number), epoch=1, rank=0, job=number, boot_id="b", phase="running")
    return News(part, "stdout", 0, b"x" * size)


@pytest.mark.parametrize(
    ("sizes", "lengths"),
    [
        ([], []),
        ([1] * 3, [3]),
        ([1] * (MOST_PIECES + 1), [MOST_PIECES, 1]),
        ([PIECE_BYTES] * 17, [16, 1]),
        ([TOGETHER_BYTES, 1], [1, 1]),
        ([TOGETHER_BYTES + 1], [1]),
    ],
)
def test_requests_keep_to_both_limits(sizes, lengths):
    heard = [Heard(each.part, ended=False, news=[each]) for each in (news(i, size) for i, size in enumerate(sizes))]
    found = list(requests_of(heard, TOGETHER_BYTES))
    assert [len(request) for request in found] == lengths
    assert [each for request in found for each in request] == [each for h in heard for each in h.news], "in order"


def test_what_is_loud_goes_by_itself():
    one, two = news(1, 5), news(2, 5)
    assert list(requests_of([Heard(one.part, False, [one], loud=True), Heard(two.part, False, [two])], 100)) == [[two]]
