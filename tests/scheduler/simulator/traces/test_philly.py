"""Philly's trace, from a few rows of the same form; the real one where BERTH_TRACE_DATA names it."""

import os
from pathlib import Path

import pytest

from scheduler.simulator.traces.philly import FORMAT
from scheduler.simulator.traces.source import Source, TraceError

HEADER = "timestamp,duration,num_gpus,gpu_time,cluster"


def read(*lines, **options):
    source = Source("philly.csv", [HEADER, *lines])
    return list(FORMAT.read(source, options)), source


def test_a_row_is_a_rigid_job_of_its_virtual_cluster():
    jobs, source = read("2017-10-09 07:01:55,66.0,1,66.0,11cb48", "2017-10-09 06:13:03,2951.0,4,11804,6214e9")
    assert [each.job.submitted_s for each in jobs] == [1507532515.0, 1507529583.0]
    assert [each.job.requirement for each in jobs] == [(1,), (4,)]
    assert source.tenants == {"11cb48": 1, "6214e9": 2}
    assert (jobs[1].work, jobs[1].job.expected_duration_s, jobs[1].job.movable) == (2951.0, None, False)


def test_what_the_trace_does_not_say_is_said_by_options():
    (one,), _ = read("2017-10-09 07:01:55,66.0,1,66.0,a", expected="exact", cores="4", movable="yes")
    assert (one.job.expected_duration_s, one.job.cores, one.job.movable) == (66.0, 4, True)


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("yesterday,66.0,1,66.0,a", "timestamp"),
        ("2017-13-09 07:01:55,66.0,1,66.0,a", "timestamp"),
        ("2017-10-09 07:01:55,0,1,66.0,a", "duration"),
        ("2017-10-09 07:01:55,1,1.5,66.0,a", "num_gpus"),
        ("2017-10-09 07:01:55,1,1,66.0,", "cluster"),
    ],
)
def test_a_bad_row_is_named_with_file_line_and_column(row, column):
    with pytest.raises(TraceError, match=rf"philly.csv, line 3, column {column}: "):
        read("2017-10-09 07:01:55,66.0,1,66.0,a", row)


def test_what_is_not_csv_is_named_with_its_line():
    with pytest.raises(TraceError, match=r"philly\.csv, line 3: a field is longer than 128 KiB"):
        read("2017-10-09 07:01:55,66.0,1,66.0,a", f"2017-10-09 07:01:55,1,1,1,{'a' * 200_000}")


def test_the_real_trace():
    if not (folder := os.environ.get("BERTH_TRACE_DATA")):
        pytest.skip("BERTH_TRACE_DATA names no folder of public traces")
    with (Path(folder) / "philly" / "philly_jobs.csv").open() as lines:
        source = Source("philly_jobs.csv", lines)
        assert sum(1 for _ in FORMAT.read(source, {})) == 82_247
    assert len(source.tenants) == 15
