"""`./berth bench simulate`: its keys, its jobs, and what it refuses. Times are not asserted."""

import json

import pytest

from research.bench.errors import BenchError
from research.bench.simulation import jobs_draw, simulation_measure, simulation_report, trace_measure


def test_the_figures_of_n_jobs_and_of_ten_times_as_many():
    figures = simulation_measure(jobs=20, gpus=16, load=0.7, policy="drf", seed=1)
    assert json.loads(simulation_report(figures, as_json=True)) == figures
    assert [run["jobs"] for run in figures["runs"]] == [20, 200]
    assert all(run["events"] >= 3 * run["jobs"] and run["cpu_s"] > 0 for run in figures["runs"])
    assert "us an event" in simulation_report(figures, as_json=False)


def test_jobs_are_drawn_by_their_seed_at_the_load_asked():
    jobs = jobs_draw(jobs=2000, gpus=64, load=0.5, seed=3)
    assert jobs == jobs_draw(jobs=2000, gpus=64, load=0.5, seed=3)
    work_gpu_s = sum(each.work * each.job.min_gpus for each in jobs)
    assert work_gpu_s / jobs[-1].job.submitted_s / 64 == pytest.approx(0.5, rel=0.1)


def test_a_trace_is_replayed_on_a_described_cluster(tmp_path):
    trace, cluster = tmp_path / "jobs.csv", tmp_path / "cluster.yaml"
    trace.write_text(
        "timestamp,duration,num_gpus,gpu_time,cluster\n"
        "2017-10-09 07:00:00,60.0,1,60.0,a\n2017-10-09 07:00:10,60.0,2,120.0,b\n"
    )
    cluster.write_text("nodes:\n  - {count: 1, gpu_type: P100, gpus: 2, cores: 8, memory_gib: 16}\n")
    same = {"trace": trace, "cluster": cluster, "policy": "fifo", "seed": 1, "until_days": None}
    (run,) = trace_measure(form="philly", **same)["runs"]
    assert (run["jobs"], run["virtual_days"]) == (2, round(120 / 86_400, 3))
    with pytest.raises(BenchError, match="no trace format 'filly'"):
        trace_measure(form="filly", **same)


@pytest.mark.parametrize(
    ("wrong", "words"), [({"jobs": 0}, "--jobs"), ({"gpus": 4}, "--gpus"), ({"load": 0}, "--load")]
)
def test_what_cannot_be_measured_is_refused(wrong, words):
    with pytest.raises(BenchError, match=words):
        simulation_measure(**{"jobs": 1, "gpus": 8, "load": 0.5, "policy": "fifo", "seed": 1, **wrong})
