"""Trainings by Hugging Face's and Lightning's Trainers are recorded, and end well when Berth asks. With the real libraries."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.workers.instrument.torches import INSTRUMENT, environment, python_with

TRANSFORMERS = """
import os, sys
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
from berth_transformers import BerthCallback
model = BertForSequenceClassification(BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, max_position_embeddings=16,
))
rows = [{"input_ids": [n % 50] * 8, "labels": n % 2} for n in range(1000)]
out = os.environ["BERTH_CHECKPOINT_DIR"]
arguments = TrainingArguments(
    output_dir=out, per_device_train_batch_size=4, max_steps=int(sys.argv[1]), save_strategy="no", report_to=[], disable_tqdm=True,
    **{"use_cpu" if "use_cpu" in TrainingArguments.__dataclass_fields__ else "no_cuda": True},
)
class Say(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if state.global_step == 3:
            print("going", flush=True)
trainer = Trainer(model, arguments, train_dataset=rows, callbacks=[BerthCallback(), Say()])
trainer.train(resume_from_checkpoint=get_last_checkpoint(out))
print("steps", trainer.state.global_step, flush=True)
"""

LIGHTNING = """
import os, sys, torch
try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl
from pathlib import Path
from berth_lightning import BerthCallback, STOP_CHECKPOINT
class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, number):
        if self.global_step == 3:
            print("going", flush=True)
        return self.layer(batch).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
out = Path(os.environ["BERTH_CHECKPOINT_DIR"])
loader = torch.utils.data.DataLoader(torch.ones(100000, 8), batch_size=4)
trainer = pl.Trainer(
    max_steps=int(sys.argv[1]), max_epochs=-1, default_root_dir=out, callbacks=[BerthCallback(batch_per_gpu=4)], logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu",
)
resume = out / STOP_CHECKPOINT
trainer.fit(Model(), loader, ckpt_path=str(resume) if resume.exists() else None)
print("steps", trainer.global_step, flush=True)
"""

LIGHTNINGS = [each for each in (("torch", "lightning"), ("torch", "pytorch_lightning")) if python_with(*each)] or [
    ("torch", "pytorch_lightning")
]
TRAINERS = [
    pytest.param(TRANSFORMERS, ("torch", "transformers", "accelerate"), id="transformers"),
    pytest.param(LIGHTNING, LIGHTNINGS[0], id="lightning"),
]


def trainer(script, modules, steps, directory):
    records = directory / "records"
    records.mkdir(exist_ok=True)
    more = {"BERTH_CHECKPOINT_DIR": str(directory), "BERTH_GPUS_TOTAL": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [python_with(*modules), "-c", script, str(steps)],
        env=environment(records, **more),
        stdout=subprocess.PIPE,
        text=True,
        cwd=directory,
    )


def last_record(directory):
    newest = max((directory / "records").iterdir(), key=lambda path: int(path.name))
    return json.loads(newest.read_text().splitlines()[-1])


def steps_of(output):
    return int(output.split("steps ")[1].split()[0])


@pytest.mark.parametrize(("script", "modules"), TRAINERS)
def test_a_trainer_saves_and_stops_when_asked_and_goes_on_from_there(script, modules, tmp_path):
    if python_with(*modules) is None:
        pytest.skip(f"no Python here has {' and '.join(modules)}; set BERTH_TEST_TORCH_PYTHON to one that has")
    with trainer(script, modules, 100_000, tmp_path) as first:
        while (said := first.stdout.readline()) and "going" not in said:
            pass
        first.send_signal(signal.SIGTERM)
        stopped = steps_of(first.communicate(timeout=120)[0])
    assert first.returncode == 0
    assert 3 <= stopped < 100_000
    assert last_record(tmp_path)["done"] == last_record(tmp_path)["saved"] == stopped * 4
    with trainer(script, modules, stopped + 5, tmp_path) as second:
        output = second.communicate(timeout=120)[0]
    assert (second.returncode, steps_of(output)) == (0, stopped + 5)
    assert last_record(tmp_path)["done"] == (stopped + 5) * 4


def test_it_installs_alone(tmp_path):
    """`pip install ./workers/instrument` in an empty environment; no dependency comes with it."""
    source = tmp_path / "instrument"
    source.mkdir()
    for path in INSTRUMENT.iterdir():
        if path.suffix in {".py", ".toml"}:
            (source / path.name).write_bytes(path.read_bytes())
    target = tmp_path / "there"
    pip = [sys.executable, "-m", "pip", "install", "-q", "--target", target, source]
    installed = subprocess.run(pip, capture_output=True, text=True, timeout=300)
    if "No matching distribution found for setuptools" in installed.stderr:
        pytest.skip("pip finds no setuptools here, with which the package is built: no package index is reached")
    assert installed.returncode == 0, installed.stderr
    assert {path.name for path in target.glob("*.py")} == {
        "berth_instrument.py",
        "berth_torch.py",
        "berth_transformers.py",
        "berth_lightning.py",
    }
    alone = {**os.environ, "PYTHONPATH": str(target)}
    said = subprocess.run(
        [sys.executable, "-c", "import berth_instrument; print(berth_instrument.__file__)"],
        env=alone,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert said.stdout.strip() == str(target / "berth_instrument.py")
