"""A server tells of its queries: counted by how long they took, and late ones by the limit that Berth named."""

import json
import threading

import pytest

from portal.planning.estimation.queries import QUERY_EDGES_MS as PORTALS
from workers.instrument.berth_instrument import QUERY_EDGES_MS, Recorder
from workers.parts.recordlines import record_of


@pytest.fixture
def recorder(tmp_path, monkeypatch):
    monkeypatch.setenv("BERTH_RECORDS_DIR", str(tmp_path))
    monkeypatch.setenv("BERTH_SLO_MS", "100")
    return Recorder(batch_per_gpu=1)


def written(tmp_path):
    return [record_of(line) for line in (tmp_path / "0").read_bytes().splitlines()]


def test_both_sides_count_by_the_same_edges():
    assert PORTALS == QUERY_EDGES_MS


def test_queries_of_many_threads_are_all_counted_once(tmp_path, recorder):
    def ask():
        for seconds in (0.004, 0.1, 0.11, 99.0):
            recorder.query(seconds)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.close()
    records = written(tmp_path)
    counts = [sum(each) for each in zip(*(record["queries"] for record in records), strict=True)]
    assert {edge: count for edge, count in zip((*QUERY_EDGES_MS, "more"), counts, strict=True) if count} == {
        5: 8,
        100: 8,
        150: 8,
        "more": 8,
    }
    assert sum(record["late"] for record in records) == 16
    assert sum(record["samples"] for record in records) == 32
    assert sum(record["seconds"] for record in records) == pytest.approx(8 * 99.214)


@pytest.mark.parametrize(
    "bad",
    [
        {"queries": [1]},
        {"queries": 7},
        {"queries": [-1] * 18},
        {"queries": [1] * 18, "late": 19},
        {"queries": [0.5] * 18},
        {"queries": [1] * 18},
    ],
)
def test_what_is_no_count_of_queries_is_no_record(tmp_path, recorder, bad):
    recorder.query(0.1)
    recorder.close()
    line = json.loads((tmp_path / "0").read_text())
    assert record_of(json.dumps(line).encode()) is not None
    assert record_of(json.dumps({key: each for key, each in line.items() if key != "late"} | bad).encode()) is None


def test_a_training_says_nothing_of_queries(tmp_path, recorder):
    for _ in range(4):
        recorder.step()
    recorder.close()
    assert all("queries" not in record for record in written(tmp_path))
