"""`./berth train-sharing`: the same file from the same seed, gone on with where it stopped, from each source, and its refusals."""

import io
from datetime import timedelta

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from portal.cluster.models import GpuType
from portal.pages.laboratory.management.commands import train_sharing
from portal.pages.laboratory.sources.training_data import telemetry_data
from portal.people.tenants.models import Tenant
from portal.planning.estimation.models import Signature, SignatureUse
from scheduler.sharing.learned.record import unpacked
from scheduler.sharing.learned.training import Recipe
from scheduler.simulator.sharing import training_runs

LIGHT = ("--generator", "dqngpu-light", "--updates", "3")


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(training_runs, "RECIPE", Recipe(updates=2, workloads=1, plays=2, gamma=1.0, unit=50.0))
    monkeypatch.setattr(train_sharing, "KEEP_EVERY", 1)


def train(*arguments):
    out, told = io.StringIO(), io.StringIO()
    call_command("train_sharing", *map(str, arguments), stdout=out, stderr=told)
    return out.getvalue(), told.getvalue()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_file_and_the_curve_is_shown(tmp_path):
    shown, told = train(*LIGHT, "--out", tmp_path / "a.npz")
    train(*LIGHT, "--out", tmp_path / "b.npz")
    train(*LIGHT, "--seed", 2, "--out", tmp_path / "c.npz")
    same, other = (tmp_path / "b.npz").read_bytes(), (tmp_path / "c.npz").read_bytes()
    assert (tmp_path / "a.npz").read_bytes() == same != other
    assert "Learning curve" in shown
    assert "1 - 1" in shown
    assert f"wrote {tmp_path / 'a.npz'}" in told
    stored = unpacked(same)
    assert stored.about == {"source": "generator", "groups": ["light"], "step_s": 5.0}
    assert stored.over


@pytest.mark.slow
def test_stopped_by_ctrl_c_it_goes_on_and_gives_the_file_that_it_would_have_given(tmp_path, monkeypatch):
    train(*LIGHT, "--out", tmp_path / "whole.npz")
    update = training_runs.Training.update

    def interrupted(training):
        if training.made == 2:
            raise KeyboardInterrupt
        return update(training)

    monkeypatch.setattr(training_runs.Training, "update", interrupted)
    with pytest.raises(CommandError, match="stopped after 2 updates; the same command goes on"):
        train(*LIGHT, "--out", tmp_path / "cut.npz")
    monkeypatch.undo()
    monkeypatch.setattr(training_runs, "RECIPE", Recipe(updates=2, workloads=1, plays=2, gamma=1.0, unit=50.0))
    _, told = train(*LIGHT, "--out", tmp_path / "cut.npz")
    assert "going on with" in told
    assert (tmp_path / "cut.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert "Nothing was done" in train(*LIGHT, "--out", tmp_path / "cut.npz")[1]


PAIRS = """gpu_type,job_a,scale_a,job_b,scale_b,solo_a,solo_b,coloc_a,coloc_b,norm_a,norm_b
v100,small,1,small,1,1,1,1,1,1.0,1.0
v100,small,1,large,1,1,1,1,1,0.9,0.6
v100,large,1,large,1,1,1,1,1,0.0,0.0
k80,small,1,small,1,1,1,1,1,0.2,0.2
"""


@pytest.mark.slow
def test_it_learns_from_a_table_of_measured_pairs(tmp_path):
    (tmp_path / "pairs.csv").write_text(PAIRS)
    train("--pairs", tmp_path / "pairs.csv", "--half", "--out", tmp_path / "p.npz")
    stored = unpacked((tmp_path / "p.npz").read_bytes())
    assert stored.about == {"source": "pairs", "known": 1, "measured": 4, "step_s": 5.0}
    assert stored.limits.slowest == np.inf


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--generator", "luck"), "there is no generator 'luck'; there are dqngpu"),
        (("--generator", "dqngpu", "--updates", 0), "--updates must be at least 1"),
        (("--generator", "dqngpu", "--seed", -1), "--seed must be 0 or more"),
        (("--pairs", "/nowhere.csv"), "cannot be read"),
    ],
)
def test_what_cannot_be_trained_is_refused_with_the_remedy(tmp_path, arguments, words):
    with pytest.raises(CommandError, match=words):
        train(*arguments, "--out", tmp_path / "x.npz")
    assert not (tmp_path / "x.npz").exists()


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("a,b\n1,2\n", "no column gpu_type"),
        (PAIRS.replace("v100", "p100"), "no pair on one v100"),
        (PAIRS.replace("0.9,0.6", "0.9,fast"), "line 3: could not convert"),
        (PAIRS.replace("0.9,0.6", "0.9,-1"), "are no speeds"),
        (PAIRS.replace("0.9,0.6", "nan,0.6"), "are no speeds"),
    ],
)
def test_a_table_that_is_none_is_refused(tmp_path, table, words):
    (tmp_path / "pairs.csv").write_text(table)
    with pytest.raises(CommandError, match=words):
        train("--pairs", tmp_path / "pairs.csv", "--out", tmp_path / "x.npz")


@pytest.mark.slow
def test_a_file_of_another_training_or_none_is_not_overwritten(tmp_path):
    train(*LIGHT, "--out", tmp_path / "a.npz")
    kept = (tmp_path / "a.npz").read_bytes()
    with pytest.raises(CommandError, match="holds another training"):
        train(*LIGHT, "--seed", 9, "--out", tmp_path / "a.npz")
    (tmp_path / "notes.npz").write_text("mine")
    with pytest.raises(CommandError, match="is no policy's file"):
        train(*LIGHT, "--out", tmp_path / "notes.npz")
    assert (tmp_path / "a.npz").read_bytes() == kept
    assert (tmp_path / "notes.npz").read_text() == "mine"


def seen(name, seconds, utilisation, memory_mib):
    tenant, _ = Tenant.objects.get_or_create(name="vision")
    gpu_type, _ = GpuType.objects.get_or_create(name="A100")
    now = timezone.now()
    signature = Signature.objects.create(name=name, tenant=tenant, used_at=now)
    series = {"gpu_utilisation": [utilisation] * 64, "gpu_memory_mib": memory_mib, "gpu_pcie_tx_mb_s": [1600.0] * 64}
    SignatureUse.objects.create(
        signature=signature, gpu_type=gpu_type, count=1, seconds=seconds, at=now - timedelta(1), series=series
    )


@pytest.mark.django_db
def test_it_learns_from_what_this_clusters_jobs_used(tmp_path):
    with pytest.raises(CommandError, match="0 kinds of jobs were seen to use a GPU"):
        train("--telemetry", "--out", tmp_path / "t.npz")
    seen("a", 3000.0, 50.0, [1024] * 32 + [8192] * 32)
    seen("b", 600.0, 100.0, [None] + [2048] * 63)
    data = telemetry_data(16384)
    long, short = data.uses
    assert data.step_s == pytest.approx(2760 / 30)
    assert len(long.parts) == 33
    assert len(short.parts) == 7
    assert list(long.parts[-1]) == pytest.approx([0.5, 0.5, 0.5, 0.1])
    assert list(long.parts[0]) == pytest.approx([0.5, 1 / 16, 0.5, 0.1])
    train("--telemetry", "--out", tmp_path / "t.npz")
    assert unpacked((tmp_path / "t.npz").read_bytes()).about["signatures"] == 2
