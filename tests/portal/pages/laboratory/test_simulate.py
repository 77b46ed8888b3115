"""`./berth simulate`: a small trace under several policies, the same every time, and its refusals."""

import csv
import gzip
import io
import json

import pytest
from django.core.management import CommandError, call_command

from portal.pages.laboratory.errors import SimulationError
from portal.pages.laboratory.run.simulating import Request, knobs_parse, simulation_run
from portal.pages.laboratory.sources.clusters import cluster_parse
from portal.pages.laboratory.sources.traces import TraceFile
from scheduler.simulator.traces.source import TraceError

CLUSTER = """
nodes: [{count: 2, cores: 16, memory_gib: 64, gpus: 4, gpu_type: A100}]
gpu_types: {A100: {speed: 2}}
tenants: [{name: speech}, {name: vision, weight: 2}]
"""
TRACE = """submitted_s,tenant,gpus,duration_s,ran_on
60,vision,8,600,A100
0,vision,4,1200,A100
0,speech,4,600,A100
120,new,0,60,
"""
KEYS = {
    "mean_jct_h",
    "median_jct_h",
    "p99_jct_h",
    "makespan_h",
    "mean_wait_h",
    "mean_lr",
    "max_lr",
    "max_ftf",
    "fragments_per_round",
    "gpu_active_rate",
    "solve_p95_s",
}


@pytest.fixture
def files(tmp_path):
    (tmp_path / "c.yaml").write_text(CLUSTER)
    (tmp_path / "t.csv").write_text(TRACE)
    return ["--trace", str(tmp_path / "t.csv"), "--format", "berth-csv", "--cluster", str(tmp_path / "c.yaml")]


def simulate(*arguments):
    out = io.StringIO()
    call_command("simulate", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def timeless(answer):
    """The output that must be the same every time."""
    if isinstance(answer, dict):
        return {name: timeless(value) for name, value in answer.items() if not name.startswith("solve_")}
    return answer


COMPARED = ["--policy", "fifo,berth", "--seed", "3", "--json"]


@pytest.mark.slow
@pytest.mark.impure  # two processes
def test_two_processes_say_what_one_does(files):
    one, two = (json.loads(simulate(*files, *COMPARED, *more)) for more in ([], ["--processes", "2"]))
    assert json.dumps(timeless(one)) == json.dumps(timeless(two))


@pytest.mark.slow
def test_policies_are_compared(files):
    answer = json.loads(simulate(*files, *COMPARED))
    assert list(answer["policies"]) == ["berth", "fifo"]
    assert set(answer["policies"]["fifo"]) >= KEYS
    fifo = answer["policies"]["fifo"]
    assert fifo["makespan_h"] == 0.5  # 1200 s, then the eight GPUs for 600 s
    assert fifo["mean_wait_h"] == pytest.approx((1140 + 1080) / 4 / 3600)  # nobody passes the first
    assert set(fifo["tenants"]) == {"speech", "vision", "new"}


def test_figures_come_as_tables_and_as_csv(files, tmp_path):
    text = simulate(*files, "--policy", "fifo", "--csv", str(tmp_path / "o.csv"), "--until", "0.4")
    assert "| fifo " in text
    assert "| fifo   | vision |" in text
    assert "Jobs of fifo: 1 unfinished (4 came)." in text
    rows = list(csv.DictReader((tmp_path / "o.csv").open()))
    assert [row["tenant"] for row in rows] == ["", "speech", "vision", "new"]
    assert rows[0]["jobs_completed"] == "3"
    assert rows[2]["jobs"] == "2"


def test_a_packed_trace_is_unpacked(files, tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(TRACE.encode()))
    packed = [argument.replace("t.csv", "t.csv.gz") for argument in files]
    both = [json.loads(simulate(*each, "--policy", "fifo", "--json")) for each in (packed, files)]
    assert timeless(both[0]["policies"]) == timeless(both[1]["policies"])


WRONG = [
    (["--policy", "lottery"], "policy: there is no policy 'lottery'; the policies are fifo, drf"),
    (["--policy", "fifo,fifo"], "policy: Name each policy once."),
    (["--policy", ""], "policy: Choose 1 to 12 policies."),
    (["--format", "xml"], "format: there is no trace format 'xml'; there are berth-jsonl"),
    (["--trace", "nowhere"], "trace: nowhere is no file"),
    (["--profiles", "nowhere"], "profiles: nowhere is no folder"),
    (["--cluster", "nowhere"], "cluster: nowhere cannot be read"),
    (["--seed", "-1"], "seed: A seed is a whole number from 0 to 2147483647."),
    (["--until", "0"], "until: The end must be above 0 and at most 8784 hours."),
    (["--processes", "0"], "processes: at least one"),
    (["--knob", "tick_s"], "knob: 'tick_s' is not name=value"),
    (["--knob", "tack_s=1"], "knob: 'tack_s=1' is not name=value with a name of priority"),
    (["--knob", "tick_s=0"], "tick_s=0.*outside 1 to 3600"),
    (["--option", "speed"], "option: 'speed' is not name=value"),
    (["--option", "speed=1"], "no option 'speed'"),
    (["--until", "nan"], "until: The end must be above 0 and at most 8784 hours."),
    (["--until", "inf"], "until: The end must be above 0 and at most 8784 hours."),
]


def test_what_cannot_be_simulated_is_refused_naming_the_field(files, subtests):
    for arguments, complaint in WRONG:
        with subtests.test(arguments=arguments), pytest.raises(CommandError, match=complaint):
            simulate(*files, *arguments)


def request_of(tmp_path, trace=TRACE, **more):
    (tmp_path / "t.csv").write_text(trace)
    return Request(TraceFile(tmp_path / "t.csv", "berth-csv", **more), cluster_parse(CLUSTER), ("fifo",))


@pytest.mark.parametrize("bad", ["0,a,1,x,", "0,a,1\n", "0,\udce4,1,1,"])
def test_a_bad_line_stops_everything_with_file_and_line(tmp_path, bad):
    request = request_of(tmp_path)
    request.trace.path.write_bytes((TRACE + bad).encode(errors="surrogateescape"))
    with pytest.raises(TraceError, match=r"t\.csv, line 6, column "):
        simulation_run(request=request)


def test_no_job_and_too_many_are_refused(tmp_path):
    with pytest.raises(SimulationError, match="holds no job"):
        simulation_run(request=request_of(tmp_path, TRACE.splitlines()[0]))
    with pytest.raises(SimulationError, match="more than 3 jobs"):
        simulation_run(request=request_of(tmp_path, most_jobs=3))


def test_a_simulation_can_be_cancelled_while_it_runs(tmp_path):
    class Cancelled(Exception):
        pass

    def cancel(fractions):
        raise Cancelled

    with pytest.raises(Cancelled):
        simulation_run(request=request_of(tmp_path), watch=cancel)


def test_ctrl_c_is_no_fault(files, monkeypatch):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr("portal.pages.laboratory.management.commands.simulate.simulation_run", interrupted)
    with pytest.raises(CommandError, match="stopped") as found:
        simulate(*files)
    assert found.value.returncode == 130


def test_companions_are_read_from_the_folder_alone(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "a.txt").write_text("1\n2\n")
    (tmp_path / "other.txt").write_text("3\n")
    trace = TraceFile(tmp_path / "t.csv", "berth-csv", tmp_path / "own")
    assert trace._companion("a.txt") == ["1\n", "2\n"]
    assert trace._companion("b.txt") is None
    assert trace._companion("../other.txt") is None


def test_a_generators_jobs_are_simulated_on_a_cluster_of_other_gpu_types(files):
    cluster = files[files.index("--cluster") :]
    answer = json.loads(
        simulate("--generator", "hops-64", "--option", "jobs=3", *cluster, "--policy", "fifo", "--json")
    )
    assert answer["gpus"] == 8
    assert answer["policies"]["fifo"]["jobs_completed"] + answer["policies"]["fifo"]["jobs_unfinished"] == 3
    assert answer["policies"]["fifo"]["jobs_completed"] > 0


@pytest.mark.slow
def test_a_generators_jobs_are_simulated_on_its_own_cluster():
    options = ["--option", "jobs=5", "--seed", "3"]
    answer = json.loads(simulate("--generator", "hops-64", *options, "--policy", "fifo,hops", "--json"))
    assert (answer["trace"], answer["format"], answer["gpus"]) == ("hops-64, seed 3", "hops-64", 64)
    assert answer["policies"]["hops"]["jobs_completed"] == 5
    assert list(answer["policies"]["hops"]["tenants"]) == ["tenant 1"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--generator", "none"], "generator: there is no generator 'none'; there are hops-64"),
        (["--generator", "hops-64", "--option", "size=3"], "option: a generator has no option 'size'"),
        (["--generator", "hops-64", "--option", "jobs=0"], "option: jobs: 0 is outside 1 to 100000"),
        (["--generator", "hops-64", "--option", "jobs=many"], "option: jobs: 'many' is not a whole number"),
        (["--generator", "hops-64", "--format", "sia"], "format: --format goes with --trace alone"),
        (["--generator", "hops-64", "--trace", "x"], "trace: give one of --trace"),
    ],
)
def test_what_cannot_be_generated_is_refused(arguments, complaint):
    with pytest.raises(CommandError, match=complaint):
        simulate(*arguments)


def test_knobs_are_taken_in_their_own_kinds():
    assert knobs_parse(given=["lambda=2", "arrays=off", "reserve_lr="]) == {
        "lambda": 2.0,
        "arrays": "off",
        "reserve_lr": None,
    }
