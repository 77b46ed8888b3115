"""Sia's workloads and profiles, from small files of the same form; the real ones where BERTH_TRACE_DATA names them."""

import os
from pathlib import Path

import pytest

from scheduler.simulator.traces.sia import FORMAT
from scheduler.simulator.traces.source import Source, TraceError
from scheduler.simulator.world.truth import Spot

HEADER = "name,time,application,num_replicas,batch_size"
JOB = "ncf-0,90.0,bert,2,24"
PROFILES = {
    # Columns in another order, as in some of the real files; one placement measured twice.
    "bert/placements-aws.csv": "local_bsz,step_time,sync_time,placement\n4,2.0,0.1,1\n12,2.0,0.1,1\n12,1.0,0.1,4\n12,3.0,0.3,4\n12,4.0,1,44",
    "bert/placements-rtx.csv": "placement,local_bsz,step_time,sync_time\n1,12,1.0,0.1\n8,12,1.0,0.1",
    "bert/scalability-aws.csv": "num_nodes,num_replicas,local_bsz,step_time,sync_time\n6,24,12,5.0,1.0",
    "bert/validation-12.csv": "progress,iteration,metric\n50,50,1\n100.0,100,2\n150,150,3",
    "bert/validation-24.csv": "progress,iteration,metric\n50,30,1\n101.0,60,2",
}


def read(*lines, files=None, **options):
    files = PROFILES if files is None else files
    source = Source("w.csv", [HEADER, *lines], lambda path: files[path].splitlines() if path in files else None)
    return list(FORMAT.read(source, options))


def error(*lines, **more):
    with pytest.raises(TraceError) as caught:
        read(*lines, **more)
    return str(caught.value)


class TestJobs:
    def test_are_adaptive_and_take_sias_sizes(self):
        """Sia 3.3: powers of two within a node of 4 or 8, whole nodes beyond."""
        (job,) = read(JOB)
        assert job.job.requirement == (1, 2, 4, 8, 12, 16, 20, 24)
        assert (job.job.submitted_s, job.name, job.restart_s, job.job.movable) == (90.0, "ncf-0", 120.0, True)

    def test_may_use_any_gpu_type_of_the_cluster_or_those_asked_for(self):
        assert read(JOB)[0].job.gpu_types == frozenset()
        assert read(JOB, gpu_types="t4,a100")[0].job.gpu_types == {"t4", "a100"}

    def test_go_no_further_than_asked(self):
        assert read(JOB, most_gpus="8")[0].job.requirement == (1, 2, 4, 8)

    def test_ask_for_their_own_size_when_rigid(self):
        (job,) = read(JOB, jobs="rigid")
        assert (job.job.requirement, job.law.batch, job.job.model_label) == ((2,), 24.0, "bert batch 24")

    def test_scale_their_gpus_alone_in_powers_of_two_up_to_what_they_ask_for(self):
        """The batch size stays: on fewer GPUs a step is accumulated, and the training takes as many iterations."""
        (job,) = read("a,1,bert,6,24", jobs="scale-gpus")
        assert (job.job.requirement, job.law.batch, job.job.model_label) == ((1, 2, 4), 24.0, "bert batch 24")
        assert read("a,1,bert,8,24", jobs="scale-gpus")[0].job.requirement == (1, 2, 4, 8)
        assert job.law.rate([Spot(1, "t4", 1, 4)]) == pytest.approx(1200 / (60 * (1.9 + 2.0) * 1.2))

    def test_have_the_work_of_the_epochs_that_every_batch_size_was_measured_for(self):
        assert read(JOB)[0].work == read(JOB)[0].job.total_samples == 100 * 12

    def test_are_dealt_out_to_tenants_in_turn(self):
        assert [job.job.tenant for job in read(*[JOB] * 5, tenants="2")] == [1, 2, 1, 2, 1]

    def test_run_on_one_gpu_where_the_application_is_rigid(self):
        ncf = {path.replace("bert", "ncf").replace("-12.", "-256."): text for path, text in PROFILES.items()}
        assert read("n,0,ncf,2,256", files=ncf)[0].job.requirement == (1,)

    def test_go_as_measured(self):
        """Repeated measurements count as their mean; 24 samples a batch, so 60 iterations, and 1.2 times as slow."""
        law = read(JOB, jobs="rigid")[0].law
        assert law.rate([Spot(1, "t4", 4, 4)]) == pytest.approx(1200 / (60 * 2.0 * 1.2))

    def test_bring_their_speeds_unless_these_are_to_be_learned(self):
        (job,) = read(JOB, jobs="rigid")
        assert job.known["t4", 2, 1] == job.law.rate([Spot(1, "t4", 2, 2)]) / 2
        assert read(JOB, speeds="learned")[0].known == {}

    def test_are_streamed(self):
        def endless():
            yield HEADER
            while True:
                yield JOB

        jobs = FORMAT.read(Source("w", endless(), lambda path: PROFILES.get(path, "").splitlines() or None), {})
        assert [next(jobs).job.id for _ in range(3)] == [1, 2, 3]


class TestErrorsNameFileLineAndColumn:
    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("a,soon,bert,2,24", "w.csv, line 3, column time: 'soon' is not a number from 0"),
            ("a,1,gpt_pmp,2,24", "w.csv, line 3, column application: 'gpt_pmp' is not one of bert"),
            ("a,1,bert,1.5,24", "w.csv, line 3, column num_replicas: '1.5' is not a whole number"),
            ("a,1,bert,2,48", "w.csv, line 3, column batch_size: 48 is outside 12 to 24"),
            ("a,1,bert,16,12", "w.csv, line 3, column batch_size: 12 samples cannot be shared by 16 GPUs"),
            ("a,1,bert,2", "w.csv, line 3, column batch_size: 4 values; the header names 5 columns"),
            (",1,bert,2,24", "w.csv, line 3, column name: it is empty"),
        ],
    )
    def test_in_the_workload(self, line, said):
        assert error(JOB, line).startswith(said)

    @pytest.mark.parametrize(
        ("path", "text", "said"),
        [
            ("bert/placements-aws.csv", "placement,local_bsz,step_time\n", "line 1, column sync_time: there is no"),
            (
                "bert/placements-aws.csv",
                "placement,local_bsz,step_time,sync_time\n",
                ", column placement: no placement",
            ),
            (
                "bert/placements-aws.csv",
                "placement,local_bsz,step_time,sync_time\n40,1,1,0",
                "line 2, column placement",
            ),
            ("bert/placements-aws.csv", "placement,local_bsz,step_time,sync_time\n1,1,1,2", "line 2, column sync_time"),
            ("bert/placements-aws.csv", "placement,local_bsz,step_time,sync_time\n1,1,0,0", "line 2, column step_time"),
            (
                "bert/scalability-aws.csv",
                "num_nodes,num_replicas,local_bsz,step_time,sync_time\n4,2,1,1,0",
                "line 2, column num_replicas",
            ),
            ("bert/validation-24.csv", "progress,iteration\n", "line 2, column progress: no epoch"),
            ("bert/validation-24.csv", "", "line 1: the file is empty"),
        ],
    )
    def test_in_the_profiles(self, path, text, said):
        message = error(JOB, files=PROFILES | {path: text})
        assert message.startswith(path)
        assert said in message

    def test_where_profiles_are_missing(self):
        assert "holds no bert/placements-<gpu>.csv" in error(JOB, files={})
        few = {path: text for path, text in PROFILES.items() if "validation" not in path}
        assert "holds no bert/validation-12.csv" in error(JOB, files=few)

    def test_in_the_options(self):
        assert "there is no option 'size'; the options are jobs, most_gpus" in error(JOB, size="1")
        assert "option jobs: 'elastic' is not one of adaptive, scale-gpus, rigid" in error(JOB, jobs="elastic")
        assert "option gpu_types: 'T4' is not one of t4, v100" in error(JOB, gpu_types="T4")
        assert "option tenants: '0' is not a whole number" in error(JOB, tenants="0")


@pytest.mark.skipif("BERTH_TRACE_DATA" not in os.environ, reason="BERTH_TRACE_DATA names no folder of public traces")
def test_the_public_workload_is_read_whole():
    folder = Path(os.environ["BERTH_TRACE_DATA"]) / "sia"

    def companion(path):
        file = folder / "profiles" / path
        return file.read_text().splitlines() if file.exists() else None

    with (folder / "workloads/scale/rate_50/workload-1.csv").open() as lines:
        jobs = list(FORMAT.read(Source("rate_50", lines, companion), {}))
    assert len(jobs) == 400
    assert {len(job.law.application.speeds) for job in jobs} == {6}
    hours = {job.job.model_label: job.work / job.law.rate([Spot(1, "t4", 1, 1)]) / 3600 for job in jobs}
    assert {name: round(value, 1) for name, value in hours.items()} == {
        "bert": 4.5,
        "cifar10": 2.0,
        "yolov3": 10.4,
        "deepspeech2": 5.9,
        "imagenet": 177.5,
    }
