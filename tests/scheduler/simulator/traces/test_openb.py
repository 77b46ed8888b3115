"""openb's pods, from a few rows of the same form; the real ones where BERTH_TRACE_DATA names them."""

import os
from pathlib import Path

import pytest

from scheduler.simulator.traces.openb import FORMAT
from scheduler.simulator.traces.source import Source, TraceError

HEADER = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time"
WHOLE = "p0,12000,16384,2,1000,,LS,Running,10,110,30"
PART = "p1,6500,12288,1,460,V100M16|T4,LS,Running,40,140,40"
CPU = "p2,1500,512,0,0,,BE,Succeeded,50,60,55"
NEVER = "p3,1500,512,1,1000,,BE,Pending,50,60,"


def read(*lines, **options):
    return list(FORMAT.read(Source("pods.csv", [HEADER, *lines]), options))


def test_a_pod_is_a_rigid_job_that_takes_whole_gpus():
    two, part, cpu = read(WHOLE, PART, CPU, NEVER)
    assert [each.job.requirement for each in (two, part, cpu)] == [(2,), (1,), (0,)]
    assert [each.job.cores for each in (two, part, cpu)] == [6, 7, 2]
    assert [each.job.submitted_s for each in (two, part, cpu)] == [10, 40, 50]
    assert [each.work for each in (two, part, cpu)] == [80, 100, 5]
    assert (part.job.gpu_types, part.job.memory_mib, part.name) == (frozenset({"V100M16", "T4"}), 12288, "p1")


def test_options_leave_parts_out_and_deal_tenants():
    jobs = read(WHOLE, PART, CPU, parts="none", tenants="2")
    assert [(each.name, each.job.tenant) for each in jobs] == [("p0", 1), ("p2", 1)]


def test_complaints_name_line_and_column(subtests):
    for row, column in [
        ("p,x,1,1,1000,,,,1,3,2", "cpu_milli"),
        ("p,1,-1,1,1000,,,,1,3,2", "memory_mib"),
        ("p,1,1,1.5,1000,,,,1,3,2", "num_gpu"),
        ("p,1,1,2,500,,,,1,3,2", "gpu_milli"),
        ("p,1,1,1,0,,,,1,3,2", "gpu_milli"),
        ("p,1,1,1,1000,,,,,3,2", "creation_time"),
        ("p,1,1,1,1000,,,,3,4,2", "scheduled_time"),
        ("p,1,1,1,1000,,,,1,2,2", "deletion_time"),
    ]:
        complaint = f"pods.csv, line 3, column {column}: "
        with subtests.test(row=row), pytest.raises(TraceError, match=complaint):
            read(WHOLE, row)


def test_unknown_options_and_missing_columns_are_named():
    with pytest.raises(TraceError, match="there is no option 'part'; the options are tenants, parts"):
        read(part="none")
    with pytest.raises(TraceError, match="column scheduled_time: there is no such column"):
        list(FORMAT.read(Source("p.csv", ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time"]), {}))


@pytest.mark.skipif("BERTH_TRACE_DATA" not in os.environ, reason="BERTH_TRACE_DATA names no folder of public traces")
def test_the_real_file():
    with (Path(os.environ["BERTH_TRACE_DATA"]) / "openb" / "openb_pod_list_default.csv").open() as lines:
        assert len(list(FORMAT.read(Source("pods", lines), {}))) == 7255
