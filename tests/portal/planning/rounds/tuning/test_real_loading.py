"""Core tuning of real data-loading processes: the portal's search, shims that move cores, loaders as fast as their cores allow.

Each job is a loader and a trainer, two processes under a shim on a virtual GPU. The loader takes the time of its class's
measured curve at the number of cores that BERTH_CORES_FILE tells; the trainer records its iterations; the tuner goes by them.
Of the agent's road only the wire is left out. With BERTH_TRACE_DATA all of Synergy's 33 classes run at once (minutes), and
TUNE_FASTER=on takes the faster search; without it a few curves of that form.
"""

import base64
import json
import os
import time
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from portal.planning.estimation.records import records_apply
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.tuning import searching
from portal.planning.rounds.tuning.searching import tuning_pass
from portal.work.jobs.models import Attempt, CoreSearch, CoreStep
from portal.work.jobs.selectors import parts_wanted
from research.experiments.cores import FILE, Curve, curves
from scheduler.estimator.cores import start_cores
from tests.portal import given
from tests.remains import groups_remove, kill_all_of
from tests.workers.specs import spec_make
from workers.engines.process import ProcessEngine
from workers.parts.workspace import Rooms, Workplace, part_prepare
from workers.system.landlock import landlock_version
from workers.system.procs import boot_id

BATCH_S = 0.05
"""Time of a batch at the best number of cores: the loader is slower than the GPU at every number."""
JOB = f"""
import json, multiprocessing, os, sys, time
sys.path.append(os.environ["BERTH_INSTRUMENT_PATH"])
from berth_instrument import Recorder
speeds, gpus = json.loads(os.environ["SPEEDS"]), int(os.environ["BERTH_GPUS"])

def load(pipe):
    due = time.monotonic()
    while True:
        cores = int(open(os.environ["BERTH_CORES_FILE"]).read()) // gpus
        due = max(due, time.monotonic() - 1) + {BATCH_S} / speeds[min(cores, len(speeds)) - 1]
        time.sleep(max(0, due - time.monotonic()))
        pipe.send(cores)

if __name__ == "__main__":
    here, there = multiprocessing.Pipe(False)
    multiprocessing.Process(target=load, args=(there,), daemon=True).start()
    recorder = Recorder(batch_per_gpu=1, gpus=1)
    while True:
        with recorder.time("data"):
            here.recv()
        with recorder.time("forward"):
            time.sleep(0.01)
        recorder.step()
"""
FEW = (Curve("vision_1", "cv", (0.4, 0.7, 1.0, 1.0, 1.0, 1.0)), Curve("vision_2", "cv", (0.5, 1.0, 1.0, 1.0)))


@dataclass
class Loading:
    """A class that runs: its attempt in the database, and its shim with the two processes."""

    curve: Curve
    attempt: Attempt
    node: object
    directory: Path
    records: Path
    engine: ProcessEngine = field(default_factory=ProcessEngine)
    read: int = 0
    ordered: int = 0

    @classmethod
    def begin(cls, cluster, curve, root):
        gpus = int(curve.name.rsplit("_", 1)[1])
        start = min(curve.most, start_cores(category=curve.category, tuned={}))
        node = given.node_make(f"n-{curve.name}", gpus=gpus, cores=gpus * curve.most)
        attempt = cluster.running(node, gpus=gpus, cores=gpus * start, category=curve.category)
        earlier = timezone.now() - timedelta(hours=1)
        Attempt.objects.filter(pk=attempt.pk).update(cores_wanted=start, started_at=earlier)
        part = attempt.allocations.get()
        directory, job = root / "parts" / f"{attempt.key}-1-0", root / "jobs" / f"{attempt.key}-1-0"
        directory.mkdir(parents=True)
        spec = spec_make(
            attempt=attempt.key,
            command='exec "$BERTH_PYTHON" train.py',
            files={"train.py": base64.b64encode(JOB.encode()).decode()},
            environment={"SPEEDS": json.dumps(curve.speeds)},
            gpus=list(range(gpus)),
            cores=part.core_ids,
        )
        kept = {"walls": None, "landlock": landlock_version(), "virtual": True, "virtual_pace": None, "nice": 0}
        place = Workplace(root / "storage" / curve.name, **kept, boot_id=boot_id(), node_grace_s=1.0, lease_grace_s=3.0)
        part_prepare(Rooms(directory, job, mark=attempt.key[:8]), spec, {"lease_s": None}, place)
        found = cls(curve, attempt, node, directory, job / "records")
        found.engine.start(directory)
        return found

    def exchange(self):
        """An agent's second: records to the portal, orders to the shim, and acknowledged orders back to the portal."""
        text = b"".join(path.read_bytes() for path in sorted(self.records.glob("*"), key=lambda path: int(path.name)))
        whole = text.rfind(b"\n") + 1
        if whole > self.read:
            told = [json.loads(line) for line in text[self.read : whole].splitlines()]
            key = given.key_of(self.attempt) | {"offset": self.read, "next_offset": whole, "dropped": 0}
            (answer,) = records_apply(node=self.node, parts=[key | {"records": told}])
            assert answer["code"] is None
            self.read = whole
        (wanted,) = parts_wanted(node_id=self.node.pk)["attempts"]
        if wanted["cores_sequence"] != self.ordered:
            self.ordered = wanted["cores_sequence"]
            self.engine.cores(self.directory, wanted["cores"], sequence=self.ordered)
        held = self.engine.cores_held(self.directory) or {"sequence": 0}
        if held["sequence"] == self.ordered:
            holding = [given.key_of(self.attempt) | {"cores_sequence": self.ordered}]
            given.heard(node=self.node, reports=[], holding=holding)

    @property
    def found(self):
        """(cores that were found, those of each step, the outcome)."""
        search = CoreSearch.objects.get(attempt=self.attempt)
        steps = CoreStep.objects.filter(search=search).order_by("number").values_list("cores_per_gpu", flat=True)
        return search.state["best"], list(steps), search.outcome

    def end(self):
        kill_all_of(self.directory)
        self.engine.reap()


@pytest.fixture
def tuned(cluster, tmp_path):
    """Tune all of these classes at once; returns them."""
    running = []

    def tune(classes, within_s):
        running.extend(Loading.begin(cluster, curve, tmp_path) for curve in classes)
        until = time.monotonic() + within_s
        while CoreSearch.objects.filter(done_at__isnull=False).count() < len(running):
            assert time.monotonic() < until, [vars(each) for each in CoreSearch.objects.filter(done_at=None)]
            began = time.monotonic()
            tuning_pass()
            for each in running:
                each.exchange()
            time.sleep(max(0.05, 1 - (time.monotonic() - began)))  # the agent's own pace
        return running

    yield tune
    for each in running:
        each.end()
    groups_remove(tmp_path)


def held_too_long(steps, optimum):
    """Numbers more than one above the optimum that were held for longer than two steps."""
    return [cores for cores in set(steps) if cores > optimum + 1 and steps.count(cores) > 2]


@pytest.mark.slow
def test_loaders_are_given_the_fewest_cores_that_keep_them_fast(tuned, monkeypatch):
    monkeypatch.setattr(searching, "LAG_S", 2.5)  # nothing is sent here, and records are written each second
    settings_update(actor=None, tune_step_s=5, noise_band=0.08)
    for each in tuned(FEW, within_s=400):
        best, steps, outcome = each.found
        assert (best, outcome) == (each.curve.optimum, "found"), (each.curve.name, steps)
        assert CoreSearch.objects.get(attempt=each.attempt).signal == "throughput"
        assert held_too_long(steps, each.curve.optimum) == []


@pytest.mark.slow
@pytest.mark.skipif("BERTH_TRACE_DATA" not in os.environ, reason="BERTH_TRACE_DATA names no folder of public traces")
def test_synergys_classes_find_their_optimum(tuned):
    """Printed for docs/evidence/cores.md with -s. The faster search may end where more cores are as fast."""
    fast = os.environ.get("TUNE_FASTER", "off")
    settings_update(actor=None, tune_step_s=15, tune_faster=fast)
    classes = curves(Path(os.environ["BERTH_TRACE_DATA"]) / "synergy" / FILE)
    ended = tuned(classes, within_s=3000)
    print("\n| class | optimum | found | steps | held |\n| --- | ---: | ---: | ---: | --- |")
    for each in ended:
        best, steps, _ = each.found
        print(f"| {each.curve.name} | {each.curve.optimum} | {best} | {len(steps)} | {' '.join(map(str, steps))} |")
    counts = [len(each.found[1]) for each in ended]
    right = sum(each.found[0] == each.curve.optimum for each in ended)
    print(f"{right} of {len(ended)} optima; {sum(counts) / len(counts):.2f} steps on average, {max(counts)} at most")
    assert all(held_too_long(each.found[1], each.curve.optimum) == [] for each in ended)
    assert min(each.curve.at(each.found[0]) for each in ended) >= 0.98
    assert right == len(ended) or fast == "on"
