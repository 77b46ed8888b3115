"""Berth's own traces: what a line says, and every complaint with file, line and column."""

import pytest

from scheduler.simulator.traces.own import COLUMNS, CSV, JSON_LINES, NAMES
from scheduler.simulator.traces.source import Source, TraceError
from scheduler.simulator.world.truth import Spot, Steady


def read(form, *lines, **options):
    source = Source("t", lines)
    return list(form.read(source, options)), source


def error(form, *lines, **options):
    with pytest.raises(TraceError) as found:
        read(form, *lines, **options)
    return found.value.line, found.value.column, found.value.detail


def test_csv_and_json_lines_say_the_same():
    rows, source = read(
        CSV,
        ",".join(NAMES),
        "5,vision,1 2 4,600,a,ada,3,512,A100 T4,2,A100,cv,resnet,900,-2,yes",
        "9,speech,0,60,,,,,,,,,,,,",
    )
    told, other = read(
        JSON_LINES,
        '{"submitted_s": 5, "tenant": "vision", "gpus": [1, 2, 4], "duration_s": 600, "name": "a", "owner": "ada", "cores": 3,'
        ' "memory_mib": 512, "gpu_types": ["A100", "T4"], "ran_gpus": 2, "ran_on": "A100", "category": "cv",'
        ' "model_label": "resnet", "expected_duration_s": 900, "priority": -2, "movable": true}',
        '{"submitted_s": 9, "tenant": "speech", "gpus": 0, "duration_s": 60, "name": null}',
    )
    assert rows == told
    assert source.tenants == other.tenants == {"vision": 1, "speech": 2}
    job = rows[0].job
    assert (job.requirement, job.cores, job.memory_mib, job.gpu_types) == ((1, 2, 4), 3, 512, {"A100", "T4"})
    assert (job.category, job.model_label, job.expected_duration_s, job.priority, job.movable) == (
        "cv",
        "resnet",
        900,
        -2,
        True,
    )
    assert rows[1].job.is_cpu
    assert isinstance(rows[1].law, Steady)


def test_a_run_is_scaled_from_the_gpus_and_the_type_that_were_seen():
    """Section 2, layer 4: per-GPU throughput = the type's relative speed * r^-0.1."""
    (one,), _ = read(
        JSON_LINES,
        '{"submitted_s": 0, "tenant": "a", "gpus": [1, 2], "duration_s": 600, "ran_gpus": 2, "ran_on": "A100"}',
        gpu_speeds="A100=2,T4=0.5",
    )
    assert one.law.rate([Spot(1, "A100", 2, 2)]) == 1.0
    assert one.law.rate([Spot(1, "T4", 1, 1)]) == pytest.approx(0.25 / 2**0.9)
    assert one.law.rate([Spot(1, "A100", 1, 1), Spot(2, "T4", 1, 1, speed=0.8)]) == pytest.approx(0.2)


def test_a_bad_line_is_named_with_its_column(subtests):
    for line, column, detail in [
        ("x,a,1,60", "submitted_s", "'x' is not a number from 0"),
        ("nan,a,1,60", "submitted_s", "'nan' is not a number from 0"),
        ("0,,1,60", "tenant", "it is empty"),
        ("0,a,2 1,60", "gpus", "'2 1' is neither 0 nor whole numbers"),
        ("0,a,0 1,60", "gpus", "'0 1' is neither 0 nor whole numbers"),
        ("0,a,1.5,60", "gpus", "'1.5' is neither 0 nor whole numbers"),
        ("0,a,1,0", "duration_s", "'0' is not a number above 0"),
        ("0,a,1", "duration_s", "3 values; the header names 4 columns"),
    ]:
        with subtests.test(line=line, column=column):
            found = error(CSV, "submitted_s,tenant,gpus,duration_s", "0,a,1,60", line)
            assert found[:2] == (3, column)
            assert found[2].startswith(detail)


def test_a_bad_header_is_named():
    assert error(CSV, "submitted_s,tenant,gpus")[:2] == (1, "duration_s")
    assert error(CSV)[:2] == (1, "submitted_s")
    assert error(CSV, "submitted_s,tenant,gpus,duration_s,colour")[1:] == (
        "colour",
        f"there is no such column; the columns are {', '.join(NAMES)}",
    )
    assert "twice" in error(CSV, "submitted_s,tenant,gpus,duration_s,gpus")[2]


def test_a_bad_object_is_named_with_its_field(subtests):
    for line, column, detail in [
        ('{"tenant": ', "12", "not a JSON object"),
        ("[1]", None, "not a JSON object"),
        ('{"submitted_s": 0, "tenant": "a", "gpus": 1, "duration_s": 60, "color": 1}', "color", "no such field"),
        ('{"submitted_s": true, "tenant": "a", "gpus": 1, "duration_s": 60}', "submitted_s", "True is not a number"),
        ('{"submitted_s": 0, "tenant": 3, "gpus": 1, "duration_s": 60}', "tenant", "3 is not text"),
        (
            '{"submitted_s": 0, "tenant": "a", "gpus": 1, "duration_s": 60, "ran_gpus": 0}',
            "ran_gpus",
            "does not go with",
        ),
        (
            '{"submitted_s": 0, "tenant": "a", "gpus": 1, "duration_s": 60, "movable": 2}',
            "movable",
            "neither yes nor no",
        ),
        (
            '{"submitted_s": 0, "tenant": "a", "gpus": 1, "duration_s": 60, "cores": 0.5}',
            "cores",
            "not a number from 1",
        ),
    ]:
        with subtests.test(line=line, column=column):
            found = error(JSON_LINES, "", line)
            assert found[:2] == (2, column)
            assert detail in found[2]


def test_options_are_checked():
    assert "no option 'speed'" in error(CSV, speed="1")[2]
    assert "gives no speed above 0" in error(CSV, gpu_speeds="A100=fast")[2]


def test_reading_streams():
    def endless():
        yield "submitted_s,tenant,gpus,duration_s"
        while True:
            yield "0,a,1,60"

    assert next(CSV.read(Source("t", endless()), {})).job.id == 1


def test_every_column_has_its_meaning():
    assert all(column.meaning for column in COLUMNS)


@pytest.mark.parametrize("line", [r'{"job": "\ud800"}', r'{"\udfff": 1}', r'{"gpu_types": ["a\ud800"]}'])
def test_half_a_surrogate_pair_is_refused_by_its_line(line):
    with pytest.raises(TraceError, match="half of a surrogate pair"):
        read(JSON_LINES, line)
