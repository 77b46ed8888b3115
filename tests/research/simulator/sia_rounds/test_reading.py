"""Workloads of Sia's form, read as trainings by epochs."""

import pytest

from research.simulator.sia_rounds.reading import read_jobs
from scheduler.simulator.traces.source import Source, TraceError

PLACEMENTS = "placement,local_bsz,step_time,sync_time\n1,12,1.0,0.0\n2,12,1.0,0.1\n"
FILES = {
    "bert/placements-aws.csv": PLACEMENTS,
    "bert/validation-12.csv": "progress,iteration,metric,grad_sqr,grad_var\n100,100,1,2.0,6e15\n200,200,1,1.0,3.0\n",
    "bert/validation-24.csv": "progress,iteration,metric,grad_sqr,grad_var\n99,60,1,4.0,8.0\n201,110,1,0.0,5.0\n",
}
TRACE = "name,time,application,num_replicas,batch_size\na,7,bert,2,24\n"


def read(trace=TRACE, **changed):
    files = FILES | {f"bert/{name}": text for name, text in changed.items()}

    def companion(name):
        return files[name].splitlines() if files.get(name) else None

    return read_jobs(Source("mine.csv", trace.splitlines(), companion))


def test_epochs_end_where_the_first_batch_size_ends_them():
    (job,) = read()
    assert (job.id, job.name, job.submitted_s) == (1, "a", 7.0)
    assert list(job.training.ends) == [99.0, 200.0]
    assert job.training.noise(18.0, 0).square == pytest.approx(3.0)
    assert job.training.noise(24.0, 1).variance == 5.0
    assert job.training.samples == 2400.0


@pytest.mark.parametrize(
    ("trace", "files", "complaint"),
    [
        (TRACE.replace("bert", "gpt"), {}, "'gpt' is not one of"),
        (TRACE, {"validation-24.csv": "progress,iteration\n100,60\n"}, "grad_sqr"),
        (TRACE, {"validation-24.csv": FILES["bert/validation-24.csv"].replace("201", "98")}, "line 3, column progress"),
    ],
)
def test_what_is_wrong_is_named(trace, files, complaint):
    with pytest.raises(TraceError, match=complaint):
        read(trace, **files)
