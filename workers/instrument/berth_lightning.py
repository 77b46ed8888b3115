"""Records a training by Lightning's Trainer, and ends it well when Berth asks.

    from berth_lightning import BerthCallback

    trainer = Trainer(callbacks=[BerthCallback(batch_per_gpu=64)], default_root_dir=os.environ["BERTH_CHECKPOINT_DIR"])
    trainer.fit(model, loader, ckpt_path=newest_checkpoint_or_none)

When Berth asks the job to end, the callback saves `berth-stop.ckpt` in the Trainer's default_root_dir after the present batch
and the training stops. Of the parts only *data* is timed, the time between two batches: Lightning calls forward, backward and
update in one closure. `lightning` or `pytorch_lightning`, whichever is installed; needs berth_instrument and berth_torch.
"""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import Any

try:
    from lightning.pytorch import Callback
except ImportError:
    from pytorch_lightning import Callback

from berth_torch import TorchRecorder

STOP_CHECKPOINT = "berth-stop.ckpt"


class BerthCallback(Callback):
    """One training. `about`: as for berth_instrument.Recorder."""

    def __init__(self, **about: Any) -> None:
        self._about, self._since = about, time.monotonic()
        self._handler = signal.getsignal(signal.SIGTERM)  # the script's own: the Trainer has not put its there yet
        self.recorder: TorchRecorder | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Begin to count, from the step that the checkpoint was at."""
        about = {"parameters": sum(each.numel() for each in pl_module.parameters()), "gpus": trainer.world_size}
        self.recorder = TorchRecorder(**{**about, **self._about})
        self.recorder.done = max(
            self.recorder.done, trainer.global_step * self.recorder.batch_per_gpu * self.recorder.gpus
        )
        with contextlib.suppress(ValueError):  # not in the main thread: the recorder says so
            # The Trainer's handler leaves fit(), and in a validation without our checkpoint. It puts back what was before.
            signal.signal(signal.SIGTERM, self._handler or signal.SIG_DFL)
        self.recorder.should_stop()  # listens from now on
        self._since = time.monotonic()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        self._turn("data")

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        assert self.recorder is not None
        self._since = time.monotonic()
        self.recorder.step()
        if self.recorder.should_stop():
            trainer.save_checkpoint(Path(trainer.default_root_dir) / STOP_CHECKPOINT)
            trainer.should_stop = True

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        """A checkpoint is written with everything so far."""
        if self.recorder is not None:
            self.recorder.saved()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        assert self.recorder is not None
        self.recorder.close()

    def _turn(self, part: str) -> None:
        assert self.recorder is not None
        now = time.monotonic()
        self.recorder.add(part, now - self._since)
        self._since = now
