"""Slurm's accounting, from dumps of the form that `sacct --parsable2` prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.simulator.traces.sacct import FORMAT
from scheduler.simulator.traces.source import Source, TraceError
from scheduler.simulator.world.truth import Spot

HEADER = "JobID|JobName|User|Account|Partition|State|Submit|Start|End|Elapsed|Timelimit|AllocTRES|ReqTRES"
TRES = "billing=16,cpu=16,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1"


def line(
    number="7",
    *,
    state="COMPLETED",
    submit="2024-05-01T08:00:00",
    elapsed="01:00:00",
    limit="1-00:00:00",
    had=TRES,
    asked="",
    account="ml",
):
    return f"{number}|train|ada|{account}|gpu|{state}|{submit}|2024-05-01T08:01:00|2024-05-01T09:01:00|{elapsed}|{limit}|{had}|{asked}"


def read(*lines, header=HEADER, **options):
    source = Source("dump", [header, *lines])
    return list(FORMAT.read(source, options)), source


def test_a_row_is_a_job_with_what_it_had():
    (one,), source = read(line(elapsed="1-02:03:04"))
    assert one.name == "train"
    assert (one.job.requirement, one.job.cores, one.job.memory_mib) == ((4,), 4, 65536)
    assert one.work == 26 * 3600 + 3 * 60 + 4
    assert one.job.submitted_s == 1714550400.0
    assert source.tenants == {"ml": 1}
    assert list(source.people) == ["ml/ada"]


def test_steps_and_jobs_that_never_ran_are_passed_over():
    jobs, _ = read(
        line("7"),
        line("7.batch"),
        line("7.extern"),
        line("7.0"),
        line("8_[3-9%2]", state="PENDING"),
        line("9", state="CANCELLED by 1001", elapsed="00:00:00"),
        line("10", state="PENDING", had="", elapsed="00:00:00"),
        line("8_1"),
        line("8_2", state="FAILED"),
        line("11+1", state="CANCELLED by 1001"),
    )
    assert [each.job.id for each in jobs] == [1, 2, 3, 4]


def test_gpus_are_all_gres_or_the_sum_of_the_types():
    jobs, _ = read(
        line("6", had="cpu=8,gres/gpu:a100=1,gres/gpu:v100=2,mem=2000M"),
        line(had="", asked="cpu=2,gres/gpu=1,mem=512K"),
        line("8", had="cpu=6,mem=1T,node=1"),
        gpu_types="as-run",
        gpu_speeds="v100=2",
    )
    assert [each.job.requirement for each in jobs] == [(3,), (1,), (0,)]
    assert [each.job.cores for each in jobs] == [2, 2, 6]
    assert [each.job.memory_mib for each in jobs] == [2000, 0, 1048576]
    assert [each.job.gpu_types for each in jobs] == [{"v100"}, frozenset(), frozenset()]
    assert jobs[0].law.rate([Spot(1, "v100", 3, 6)]) == 1.0
    assert jobs[0].law.rate([Spot(1, "a100", 3, 6)]) == 0.5


def test_options_choose_tenant_and_expectation():
    (one,), source = read(line(limit="00:30:00"), tenant="Partition", expected="timelimit", movable="yes")
    assert source.tenants == {"gpu": 1}
    assert (one.job.expected_duration_s, one.job.movable) == (1800.0, True)
    assert read(line(limit="UNLIMITED"), expected="timelimit")[0][0].job.expected_duration_s is None
    assert read(line(), expected="exact")[0][0].job.expected_duration_s == 3600.0


def test_a_bad_row_is_named_with_file_line_and_column(subtests):
    for row, column in [
        (line(submit="Unknown"), "Submit"),
        (line(elapsed="soon"), "Elapsed"),
        (line(account=""), "Account"),
        (line(had="cpu=many"), "AllocTRES"),
        (line(had="cpu"), "AllocTRES"),
        (line(had="", asked="cpu=1,mem=all"), "ReqTRES"),
        (line() + "|", "ReqTRES"),
        ("7|train", "User"),
        (line(state=""), "State"),
    ]:
        with (
            subtests.test(row=row, column=column),
            pytest.raises(TraceError, match=rf"^dump, line 3, column {column}: "),
        ):
            read(line("6"), row)


def test_columns_that_are_missing_are_asked_for():
    with pytest.raises(
        TraceError, match=r"line 1, column Elapsed: there is no such column .* add it to sacct's --format"
    ):
        read(header="JobID|Account|Submit|State|AllocTRES")
    with pytest.raises(TraceError, match="column AllocTRES: neither AllocTRES nor ReqTRES"):
        read(header="JobID|Account|Submit|State|Elapsed")
    with pytest.raises(TraceError, match="column Timelimit"):
        read(header="JobID|Account|Submit|State|Elapsed|ReqTRES", expected="timelimit")
    with pytest.raises(TraceError, match="the file is empty"):
        list(FORMAT.read(Source("dump", []), {}))


def test_a_name_with_bars_and_line_ends_is_read_as_it_is(subtests):
    for name in [
        "lr=1e-3|bs=64",
        "|",
        "||x",
        "two\nlines",
        "a\n\nb|c",
        "a|b\nc",
        "a|b|\n|c\nd|",
        "a\nb\n",
        "\n",
        "8 heads\nb",
        "bar|",
    ]:
        with subtests.test(name=name):
            rows = "\n".join([line("6"), line("7").replace("train", name), line("8")]).split("\n")
            jobs, source = read(*rows)
            assert [each.name for each in jobs] == ["train", name.strip() or "7", "train"]
            assert jobs[0].job.requirement == jobs[1].job.requirement == jobs[2].job.requirement
            assert source.tenants == {"ml": 1}


def test_what_ran_again_is_another_row():
    """`--duplicates` lists each run of a job that was requeued; each has its own submission or start."""
    again = line("7", state="NODE_FAIL", submit="2024-05-01T07:00:00")
    started = line("7", state="PREEMPTED").replace("08:01:00", "08:00:30")
    assert len(read(again, started, line("7"))[0]) == 3
    header = "JobID|Account|State|Submit|Elapsed|AllocTRES"
    row = "7|ml|COMPLETED|2024-05-01T08:00:00|01:00:00|cpu=1"
    with pytest.raises(TraceError, match=r"line 3, column JobID.* line 2"):
        read(row, row, header=header)


@pytest.mark.parametrize("limit", ["1-00", "60", "soon", "1:2:3:4"])
def test_a_limit_that_is_no_time_and_no_word_of_slurms_is_named(limit):
    with pytest.raises(TraceError, match="column Timelimit"):
        read(line(limit=limit), expected="timelimit")
    assert read(line(limit="Partition_Limit"), expected="timelimit")[0][0].job.expected_duration_s is None


@given(st.text("ab|\n1 .", max_size=12))
def test_a_row_is_read_right_or_refused_whatever_its_name(name):
    text = line("7").replace("train", name)
    try:
        jobs, _ = read(*text.split("\n"), line("8"))
    except TraceError as error:
        assert (error.line, error.column is not None) >= (2, True)
        return
    assert [each.name for each in jobs] == [name.strip() or "7", "train"]
    assert [each.work for each in jobs] == [3600.0, 3600.0]


SHIFTED = {
    "a bar in another column": (line("7", elapsed="01:00|00"), "ReqTRES"),
    "a row that is cut": ("7|tr", "User"),
    "a line end in another column": (line("7", account="m\nl"), "Account"),
    "line ends in two columns": (line("7", account="m\nl").replace("train", "a\nb"), "Account"),
    "a row that is there already": (line("6"), "JobID"),
    "a second header": (HEADER, "JobID"),
    "no number of a job": (line("x"), "JobID"),
    "a name that goes on with a number": (line("7").replace("train", "a\n9|b"), "User"),
    "a zone that is no number": (line(submit="2024-05-01T08:00:00 CEST"), "Submit"),
    "a zone of 25 hours": (line(submit="2024-05-01T08:00:00+2500"), "Submit"),
    "a zone where others name none": (line(submit="2024-05-01T08:00:00+0200"), "Submit"),
}


def test_what_cannot_be_told_apart_is_refused_with_line_and_column(subtests):
    for case, (row, column) in SHIFTED.items():
        with subtests.test(case=case):
            with pytest.raises(TraceError) as caught:
                read(line("6"), *row.split("\n"), line("8"))
            assert (caught.value.line, caught.value.column) == (3, column)


def test_two_columns_of_free_text_share_no_bar():
    header = HEADER + "|Comment"
    assert len(read(line("7") + "|well", header=header)[0]) == 1
    with pytest.raises(TraceError, match="JobName, Comment"):
        read(line("7") + "|we|ll", header=header)


@pytest.mark.parametrize(
    ("submit", "seconds"),
    [
        ("2024-05-01T08:00:00+0200", 1714543200.0),
        ("2024-05-01T08:00:00-05:30", 1714570200.0),
        ("2024-05-01T08:00:00Z", 1714550400.0),
        ("2024-05-01T08:00:00+0000", 1714550400.0),
    ],
)
def test_a_zone_counts(submit, seconds):
    (one,), _ = read(line(submit=submit))
    assert one.job.submitted_s == seconds
    with pytest.raises(TraceError, match="names no zone"):
        read(line(submit=submit), line("8"))
