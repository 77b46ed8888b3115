"""Output is appended only at the stored length: nothing lost, nothing doubled."""

import pytest

from portal.foundation.errors import BerthError, NotFound
from portal.work.jobs.models import LogChunk
from portal.work.jobs.services.logs import CHUNK_BYTES, OffsetMismatch, log_append
from tests.portal import given


@pytest.fixture
def send(cluster):
    attempt = cluster.running()

    def send(data, offset, **changes):
        named = {"node": cluster.node, "key": attempt.key, "epoch": 1, "rank": 0, "stream": "stdout"}
        return log_append(**(named | changes), offset=offset, data=data)

    send.attempt, send.cluster = attempt, cluster
    return send


def test_chunks_lie_end_to_end(send):
    assert send(b"one ", 0) == (4, False)
    assert send(b"two", 4) == (7, False)
    assert send(b"error", 0, stream="stderr") == (5, False)
    stdout = LogChunk.objects.filter(stream="stdout").order_by("offset")
    assert b"".join(bytes(chunk.data) for chunk in stdout) == b"one two"


@pytest.mark.parametrize("offset", [0, 2, 5, 10**15])
def test_another_offset_is_refused_with_the_right_one(send, offset):
    send(b"abcd", 0)
    with pytest.raises(OffsetMismatch) as error:
        send(b"abcd", offset)
    assert (error.value.status, error.value.next_offset) == (409, 4)
    assert LogChunk.objects.count() == 1


def test_the_limit_cuts_and_says_full(send, monkeypatch):
    monkeypatch.setenv("BERTH_LOG_LIMIT_MIB", "1")
    at = 0
    for _ in range(3):
        at, full = send(b"x" * CHUNK_BYTES, at)
        assert not full
    assert send(b"x" * (CHUNK_BYTES - 1), at) == (2**20 - 1, False)
    assert send(b"yz", 2**20 - 1) == (2**20, True)
    assert send(b"more", 2**20) == (2**20, True)
    assert sum(LogChunk.objects.values_list("length", flat=True)) == 2**20


def test_nothing_stores_nothing(send):
    assert send(b"", 0) == (0, False)
    assert not LogChunk.objects.exists()


def test_an_ended_part_may_still_send(send):
    send.cluster.end(send.attempt)
    assert send(b"last words", 0) == (10, False)


@pytest.mark.parametrize("changes", [{"epoch": 2}, {"rank": 1}, {"key": "0" * 32}])
def test_what_is_not_its_part_is_not_found(send, changes):
    with pytest.raises(NotFound):
        send(b"x", 0, **changes)


def test_another_nodes_part_is_not_found(send):
    with pytest.raises(NotFound):
        send(b"x", 0, node=given.node_make("n2"))


@pytest.mark.parametrize(("changes", "size", "status"), [({"stream": "log"}, 1, 400), ({}, CHUNK_BYTES + 1, 413)])
def test_bad_requests(send, changes, size, status):
    with pytest.raises(BerthError) as error:
        send(b"x" * size, 0, **changes)
    assert error.value.status == status


def test_the_same_chunk_twice_at_once_is_stored_once(shared_cluster):
    cluster = shared_cluster
    attempt = cluster.running()
    named = {"node": cluster.node, "key": attempt.key, "epoch": 1, "rank": 0, "stream": "stdout", "offset": 0}
    results = given.race(*[lambda: log_append(**named, data=b"abc")] * 5)
    assert sum(each == (3, False) for each in results) == 1, results
    assert {each.next_offset for each in results if isinstance(each, OffsetMismatch)} == {3}
    assert LogChunk.objects.count() == 1
