"""Experiment `sia`: its cluster, its jobs, and one table of every policy, from a small folder of the same form."""

import pytest

from research.experiments import sia
from research.experiments.base import ExperimentError, Options

PLACEMENTS = "placement,local_bsz,step_time,sync_time\n1,12,1.0,0.0\n2,12,1.0,0.1\n4,12,1.1,0.1\n44,12,1.5,0.4\n"
WIDE = PLACEMENTS + "8,12,1.2,0.2\n88,12,1.6,0.5\n"


@pytest.fixture
def data(tmp_path):
    """A folder with three jobs of a training of 200 iterations."""
    files = {
        f"profiles/bert/placements-{gpus}.csv": text
        for gpus, text in {"aws": PLACEMENTS, "rtx": WIDE, "dgx-ext": WIDE}.items()
    }
    files |= {
        "profiles/bert/validation-12.csv": "progress,iteration\n200,200\n",
        "profiles/bert/validation-24.csv": "progress,iteration\n200,110\n",
        sia.TRACE: "name,time,application,num_replicas,batch_size\na,0,bert,2,24\nb,30,bert,4,24\nc,90,bert,1,12\n",
    }
    for name, text in files.items():
        path = tmp_path / "sia" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_cluster_is_sias():
    servers = sia.servers()
    assert (len(servers), sum(each.gpus_total for each in servers)) == (11, 64)
    assert {each.gpu_type: each.gpus_total for each in servers} == {"t4": 4, "rtx-2080ti": 8, "a100": 8}


def test_jobs_are_adaptive_or_as_tuned_by_hand(data):
    trace = data / "sia" / sia.TRACE
    adaptive, world = sia.prepared(data / "sia", trace, sia.ADAPTIVE, None, 1)
    tuned, _ = sia.prepared(data / "sia", trace, sia.TUNED, 2, 1)
    scaled, _ = sia.prepared(data / "sia", trace, sia.SCALED, None, 1)
    assert [job.job.requirement for job in adaptive] == [(1, 2, 4, 8, 12, 16, 20, 24)] * 3
    assert [job.job.requirement for job in tuned] == [(2,), (4,)]
    assert [job.job.requirement for job in scaled] == [(1, 2), (1, 2, 4), (1,)]
    assert len(world.nodes) == 11


def test_policies_run_in_their_papers_rounds(data):
    assert sia.Entrant("sia", sia.ADAPTIVE).scenario(data, data / "t.csv", None, 1).parameters.replan_s == 60.0
    assert sia.Entrant("berth", sia.ADAPTIVE).scenario(data, data / "t.csv", None, 1).parameters.replan_s == 360.0


@pytest.mark.slow
def test_every_policy_stands_in_one_table(data):
    result = sia.run(Options(data=data, quick=True))
    assert {"berth", "hops", "sia", "sia-hops", "fifo", "drf", "coda"} <= result.json["policies"].keys()
    assert result.json["tuned"].keys() == result.json["scale_gpus"].keys() == {"berth", "hops", "sia"}
    assert {each["jobs_completed"] for each in result.json["policies"].values()} == {3}
    shown = result.tables[0].text()
    assert "15.6 ms" in shown
    assert "the first 40 jobs alone" in shown
    again = sia.run(Options(data=data, quick=True))
    assert _without_times(again.json) == _without_times(result.json)


def _without_times(value):
    if not isinstance(value, dict):
        return value
    return {key: _without_times(each) for key, each in value.items() if not key.startswith("solve_")}


def test_any_workload_of_that_form_is_replayed(data, tmp_path):
    trace = tmp_path / "mine.csv"
    trace.write_text("name,time,application,num_replicas,batch_size\na,0,bert,2,24\n")
    result = sia.run(Options(data=data, trace=trace))
    assert result.tables[0].title.startswith("mine.csv in Sia's form")
    assert {each["jobs_completed"] for each in result.json["policies"].values()} == {1}


def test_what_it_cannot_do_it_says(data):
    with pytest.raises(ExperimentError, match="leave --seeds out"):
        sia.run(Options(data=data, seeds=2))
    with pytest.raises(ExperimentError, match="--data DIR"):
        sia.run(Options())
    (data / "sia" / sia.TRACE).unlink()
    with pytest.raises(ExperimentError, match="name the workload with --trace F"):
        sia.run(Options(data=data))
