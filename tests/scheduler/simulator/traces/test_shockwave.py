"""Gavel's and Shockwave's traces (scheduler.simulator.traces.shockwave): what is read, and which errors name what."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from scheduler.simulator.traces.shockwave import FORMAT
from scheduler.simulator.traces.source import Source, TraceError
from scheduler.simulator.world.truth import Spot

LM, LM80 = "LM (batch size 40)", "LM (batch size 80)"

TABLE = json.dumps(
    {
        "v100": {f"('{LM}', 1)": {"null": 10.0}, f"('{LM}', 2)": {"null": 16.0}, f"('{LM80}', 1)": {"null": 6.0}},
        "k80": {f"('{LM}', 1)": {"null": 2.0}, f"('{LM}', 2)": {"null": 0.0}},
        "v100_unconsolidated": {f"('{LM}', 2)": {"null": 12.0}},
    }
)


def line(job_type=LM, steps=1000, scale=1, mode="static", weight="1", slo="-1.000000", duration="100", arrival="7"):
    return "\t".join([job_type, "run", "here", "-n", "1", str(steps), str(scale), mode, weight, slo, duration, arrival])


def read(*lines, table=TABLE, name="throughputs.json", **options):
    files = {name: table.splitlines(keepends=True)}
    return list(FORMAT.read(Source("a.trace", lines, files.get), options))


def test_a_line_becomes_a_rigid_job_with_its_steps_as_work():
    (traced,) = read(line(scale=2, steps=4000, duration="250", arrival="12.5"))
    assert traced.work == 4000
    assert (traced.job.requirement, traced.job.submitted_s, traced.job.expected_duration_s) == ((2,), 12.5, 250.0)
    assert traced.job.movable


def test_gavels_lines_have_no_mode_and_no_duration():
    fields = line(steps=1000).split("\t")
    (traced,) = read("\t".join([*fields[:7], *fields[8:10], fields[11]]))
    assert traced.job.expected_duration_s == 100.0, "1 000 steps at 10 a second on the fastest type"


def test_speed_is_the_tables_by_scale_factor_gpu_type_and_spread():
    (traced,) = read(line(scale=2))
    rate = traced.law.rate
    assert rate([Spot(1, "V100", 2, 2)]) == 16.0, "the type's case does not matter"
    assert rate([Spot(1, "v100", 1, 1), Spot(2, "v100", 1, 1, speed=0.5)]) == 6.0, "spread, at the slower node's pace"


def test_a_job_is_kept_off_gpu_types_on_which_it_cannot_run():
    one, two = read(line(), line(scale=2))
    assert one.job.gpu_types == frozenset()
    assert two.job.gpu_types == {"v100"}
    with pytest.raises(LookupError, match=r"2 GPUs of type 'k80'.*v100, k80"):
        two.law.rate([Spot(1, "k80", 2, 2)])


def test_gavels_table_may_be_csv():
    rows = "gpu_type,consolidated,job_type,scale_factor,steps_per_s\nv100,1,LM (batch size 40),1,5.0\n"
    (traced,) = read(line(), table=rows, name="solo_throughputs.csv")
    assert traced.law.rate([Spot(1, "v100", 1, 1)]) == 5.0


def test_tenants_are_dealt_out_in_turn():
    assert [each.job.tenant for each in read(line(), line(), line(), tenants="2")] == [1, 2, 1]


def test_a_dynamic_job_has_the_work_of_its_growing_batch_size():
    """With gns LM's 40 doubles from the eleventh epoch on: 1 492 steps an epoch become 746, and 6 a second instead of 10."""
    epochs = 40
    (fixed,) = read(line(mode="gns", steps=epochs * 1492))
    (grown,) = read(line(mode="gns", steps=epochs * 1492), batch_sizes="dynamic")
    least_s = 11 * 1492 / 10 + (epochs - 11) * 746 / 6
    assert fixed.work == epochs * 1492
    assert least_s - 150 < grown.work / 10 < least_s + 240, "it changes over up to two rounds late, at an epoch's end"


def test_run_times_are_reckoned_on_the_reference_type():
    (traced,) = read("\t".join([*line().split("\t")[:7], "1", "-1", "7"]), reference="k80")
    assert traced.job.expected_duration_s == 500.0, "1 000 steps at 2 a second"


def test_accordion_uses_the_largest_batch_size_outside_the_critical_regime():
    (grown,) = read(line(mode="accordion", steps=40 * 1492), batch_sizes="dynamic")
    least_s = 10 * 1492 / 10 + 30 * 746 / 6
    assert least_s - 150 < grown.work / 10 < least_s + 240


def test_it_streams():
    lines = iter([line(), "broken"])
    jobs = FORMAT.read(Source("a.trace", lines, lambda _: [TABLE]), {})
    assert next(jobs).job.id == 1
    with pytest.raises(TraceError, match=r"a\.trace, line 2, column 1: 1 columns"):
        next(jobs)


def test_errors_name_line_and_column(subtests):
    for lines, error in [
        ([line(), line(steps="many")], "line 2, column total_steps: 'many' is not a number from 1 to 1e+15"),
        ([line(steps=0.5)], "line 1, column total_steps: '0.5' is not a number from 1 to 1e+15"),
        ([line(scale=1.5)], "line 1, column scale_factor: '1.5' is not a whole number"),
        ([line(mode="fast")], "line 1, column mode: 'fast' is not one of static, gns, accordion"),
        ([line(weight="0")], "line 1, column priority_weight: a weight of 0"),
        ([line(arrival="-1")], "line 1, column arrival_time: '-1' is not a number from 0 to 1e+15"),
        ([line(duration="nan")], "line 1, column duration: 'nan' is not a number from 1 to 1e+15"),
        ([line(job_type="GPT")], "line 1, column job_type: 'GPT' on 1 GPUs is not in the table"),
    ]:
        with subtests.test(lines=lines, error=error):
            with pytest.raises(TraceError) as caught:
                read(*lines)
            assert str(caught.value).startswith(f"a.trace, {error}")


@pytest.mark.parametrize(
    ("table", "name", "error"),
    [
        ('{"v100": {\n"x": }', "throughputs.json", "throughputs.json, line 2, column 6: not JSON"),
        ('{"v100": {"LM": {"null": 1}}}', "throughputs.json", "throughputs.json: 'LM' is not of the form"),
        ('{"v100": {"(\'LM\', 1)": {}}}', "throughputs.json", "column v100, ('LM', 1), null: None is not a speed"),
        (
            "gpu_type,job_type\n",
            "solo_throughputs.csv",
            "solo_throughputs.csv, line 1, column consolidated: there is no such",
        ),
        (
            "gpu_type,consolidated,job_type,scale_factor,steps_per_s\nv100,1,LM,1,-3\n",
            "solo_throughputs.csv",
            "solo_throughputs.csv, line 2, column steps_per_s: '-3' is not a speed",
        ),
    ],
)
def test_errors_of_the_table_name_its_file(table, name, error):
    with pytest.raises(TraceError) as caught:
        read(line(), table=table, name=name)
    assert error in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"tenants": "0"}, "option tenants: '0' is not a whole number of 1 or more"),
        ({"batch_sizes": "yes"}, "option batch_sizes: 'yes' is neither fixed nor dynamic"),
        ({"reference": "t4"}, "option reference: 't4' is not in the table: v100, k80"),
        ({"speed": "2"}, "there is no option 'speed'; the options are throughputs, tenants"),
        ({"throughputs": "mine.json"}, r"its table of throughputs (mine.json) is not in the folder"),
    ],
)
def test_errors_of_the_options_name_them(options, error):
    with pytest.raises(TraceError) as caught:
        read(line(), **options)
    assert error in str(caught.value)


def test_the_public_trace():
    """The 120 jobs of Shockwave's reproduction package, where the data is at hand."""
    if "BERTH_TRACE_DATA" not in os.environ:
        pytest.skip("BERTH_TRACE_DATA names no folder with shockwave/120_multigpu_dynamic.trace")
    folder = Path(os.environ["BERTH_TRACE_DATA"]) / "shockwave"

    def companion(name):
        return (folder / name).read_text().splitlines() if (folder / name).exists() else None

    lines = (folder / "120_multigpu_dynamic.trace").read_text().splitlines()
    jobs = list(FORMAT.read(Source("120_multigpu_dynamic.trace", lines, companion), {"batch_sizes": "dynamic"}))
    assert len(jobs) == 120
    assert sum(each.job.min_gpus for each in jobs) == 164
    assert jobs[-1].job.submitted_s == 5011


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ('{"v100": {' + " " * 2**24 + "}}", "the table is longer than 16 MiB"),
        (json.dumps({"v100": {f"({'-' * 300}1, 1)" + "'" * 3000: {}}}), "is not of the form"),
    ],
)
def test_a_table_that_is_none_costs_little(table, said):
    with pytest.raises(TraceError, match=said):
        read(line(), table=table)
