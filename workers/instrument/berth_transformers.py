"""Records a training by Hugging Face's Trainer, and ends it well when Berth asks.

    from berth_transformers import BerthCallback

    trainer = Trainer(model, arguments, train_dataset=dataset, callbacks=[BerthCallback()])
    trainer.train(resume_from_checkpoint=newest_checkpoint_or_none)

When Berth asks the job to end, the Trainer saves a checkpoint after the present step and stops. Let `output_dir` be
$BERTH_CHECKPOINT_DIR. Each saved checkpoint is recorded, so that the job's page shows what a stop has cost. Recorded are whole
steps: the Trainer does not tell its parts apart. Tested with transformers 5.23; needs berth_instrument and berth_torch.
"""

from __future__ import annotations

from typing import Any

from berth_torch import TorchRecorder
from transformers import TrainerCallback


class BerthCallback(TrainerCallback):
    """One training. `about`: arguments of berth_instrument.Recorder, in place of the Trainer's."""

    def __init__(self, **about: Any) -> None:
        self._about = about
        self.recorder: TorchRecorder | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Learn the sizes from the Trainer: samples of one step on all devices, steps in all, steps done."""
        batch = args.per_device_train_batch_size * args.gradient_accumulation_steps
        self._each = batch * args.world_size
        model = kwargs.get("model")
        about: dict[str, Any] = {
            "batch_per_gpu": batch,
            "gpus": args.world_size,
            "total": state.max_steps * self._each if state.max_steps > 0 else None,
            "done": state.global_step * self._each,
            "parameters": None if model is None else sum(each.numel() for each in model.parameters()),
        }
        self.recorder = TorchRecorder(**{**about, **self._about})
        self.recorder.should_stop()  # listens from now on

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.recorder is not None
        self.recorder.step(self._each)
        if self.recorder.should_stop():
            control.should_save = control.should_training_stop = True

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """A checkpoint holds all steps so far."""
        assert self.recorder is not None
        self.recorder.saved()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        assert self.recorder is not None
        self.recorder.close()
