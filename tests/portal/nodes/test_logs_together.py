"""The output of several jobs in one request: each piece at the stored length, each answered by itself, bounded."""

import base64
import json

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from portal.cluster.models import Node
from portal.nodes.api_logs import MOST_PIECES
from portal.people.tenants.services import secret_digest
from portal.work.jobs.models import LogChunk
from portal.work.jobs.services.logs import CHUNK_BYTES
from tests.portal import given

pytestmark = pytest.mark.django_db
SECRET = "berthnode_test"


@pytest.fixture
def send(cluster):
    """Call the door as node n1; (status, body)."""
    Node.objects.filter(pk=cluster.node.pk).update(token_digest=secret_digest(SECRET), boot_id="boot-1")
    cluster.node.refresh_from_db()

    def call(*pieces):
        answer = Client().post(
            "/api/agent/v1/logs/together",
            json.dumps({"pieces": pieces}),
            content_type="application/json",
            headers={"Authorization": f"Bearer {SECRET}"},
        )
        return answer.status_code, answer.json()

    call.cluster = cluster
    return call


def piece(running, said=b"x\n", offset=0, **changes):
    whole = {"attempt": running.key, "epoch": 1, "rank": 0, "stream": "stdout", "offset": offset}
    return whole | {"data": base64.b64encode(said).decode()} | changes


def stored(attempt, stream="stdout"):
    chunks = LogChunk.objects.filter(attempt=attempt, stream=stream).order_by("offset")
    return b"".join(bytes(chunk.data) for chunk in chunks)


def test_each_piece_is_appended_to_its_own_log(send):
    one, two = send.cluster.running(), send.cluster.running()
    status, answer = send(
        piece(one, b"\xff\0one"), piece(one, b"error", stream="stderr"), piece(two, b"two"), piece(two, b" more", 3)
    )
    assert status == 200
    assert [(each["next_offset"], each["full"], each["code"]) for each in answer["pieces"]] == [
        (5, False, None),
        (5, False, None),
        (3, False, None),
        (8, False, None),
    ]
    assert (stored(one), stored(one, "stderr"), stored(two)) == (b"\xff\0one", b"error", b"two more")


def test_the_same_again_is_told_where_to_go_on_and_stores_nothing(send):
    one, two = send.cluster.running(), send.cluster.running()
    send(piece(one, b"one"))
    status, answer = send(piece(one, b"one"), piece(two, b"two"))
    assert status == 200
    assert [(each["attempt"], each["next_offset"], each["code"]) for each in answer["pieces"]] == [
        (one.key, 3, "offset_mismatch"),
        (two.key, 3, None),
    ]
    assert (stored(one), stored(two)) == (b"one", b"two")


def test_what_is_not_this_nodes_is_unknown_and_the_rest_is_taken(send):
    mine = send.cluster.running()
    far = send.cluster.running(given.node_make("n2"))
    _, answer = send(piece(far), piece(mine, epoch=2), piece(mine, attempt="0" * 32), piece(mine, rank=1), piece(mine))
    assert [each["code"] for each in answer["pieces"]] == ["unknown_part"] * 4 + [None]
    assert (stored(far), stored(mine)) == (b"", b"x\n")


def test_a_full_log_takes_no_more_and_holds_back_no_other(send, monkeypatch):
    monkeypatch.setenv("BERTH_LOG_LIMIT_MIB", "1")
    full, other = send.cluster.running(), send.cluster.running()
    for at in range(0, 2**20, CHUNK_BYTES):
        _, answer = send(piece(full, b"x" * CHUNK_BYTES, at))
    assert answer["pieces"][0]["full"]
    _, answer = send(piece(full, b"more", 2**20), piece(other))
    assert [(each["full"], each["code"]) for each in answer["pieces"]] == [(True, None), (False, None)]
    assert len(stored(full)) == 2**20


BAD = {
    "no base64": ([{"data": "*"}], "pieces.0.data"),
    "half of it": ([{"data": "eA"}], "pieces.0.data"),
    "not ASCII": ([{"data": "ü"}], "pieces.0.data"),
    "no text": ([{"data": 7}], "pieces.0.data"),
    "no offset": ([{"offset": None}], "pieces.0.offset"),
    "before its beginning": ([{"offset": -1}], "pieces.0.offset"),
    "beyond any": ([{"offset": 10**30}], "pieces.0.offset"),
    "stream": ([{"stream": "log"}], "pieces.0.stream"),
    "key": ([{}, {"attempt": "../7"}], "pieces.1.attempt"),
    "too many": ([{}] * (MOST_PIECES + 1), "pieces"),
    "too long": ([{"data": base64.b64encode(b"x" * CHUNK_BYTES).decode()}, {}], "pieces"),
    "one too long": ([{"data": base64.b64encode(b"x" * (CHUNK_BYTES + 3)).decode()}], "pieces"),
}


def test_bad_requests_are_refused_by_the_fields_name_and_store_nothing(send, subtests):
    attempt = send.cluster.running()
    for case, (changes, field) in BAD.items():
        with subtests.test(case):
            status, answer = send(*(piece(attempt, **change) for change in changes))
            assert (status, answer["error"]["field"]) == (400, field)
            assert not LogChunk.objects.exists()


def test_as_much_as_is_promised_is_taken(send):
    attempts = [send.cluster.running() for _ in range(4)]
    size = CHUNK_BYTES // MOST_PIECES
    pieces = [piece(attempt, b"x" * size, at * size) for attempt in attempts for at in range(MOST_PIECES // 4)]
    status, answer = send(*pieces)
    assert (status, [each["code"] for each in answer["pieces"]]) == (200, [None] * MOST_PIECES)


def test_many_pieces_are_one_transaction(send):
    attempts = [send.cluster.running() for _ in range(4)]
    with CaptureQueriesContext(
        connection,
    ) as one:
        send(piece(attempts[0]))
    with CaptureQueriesContext(connection) as all_of_them:
        send(*(piece(attempt, offset=2 if attempt is attempts[0] else 0) for attempt in attempts))
    more = len(all_of_them) - len(one)
    assert more <= 3 * 4, "its length, a savepoint's two ends, and the piece"
