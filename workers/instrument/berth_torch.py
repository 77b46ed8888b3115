"""Records a PyTorch training by hooks on its model and its optimizer: nothing else of the script changes.

    from berth_torch import instrument

    recorder = instrument(model, optimizer, batch_per_gpu=64, total=epochs * len(dataset), done=samples_in_the_checkpoint)
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()                 # an iteration is over, unless `accumulate` says that more backwards belong to it
        if recorder.should_stop():       # the same answer in every process of a distributed training
            save(model, optimizer)
            recorder.saved()
            break

It times *forward* from the model's call to its return; *backward* from there to optimizer.step(), with the loss and,
under DistributedDataParallel, the exchange of gradients that goes on meanwhile; *update* is optimizer.step(); *data* is all
from there to the next call. Calls without gradients (evaluation) count as data. GPUs are synchronised only while every part
is recorded (a profile, the first minute on one GPU). Tested with PyTorch 1.13 and 2.14; needs berth_instrument beside it.
"""

from __future__ import annotations

import time
from types import MethodType
from typing import Any

import torch
from berth_instrument import Recorder
from torch import distributed


class TorchRecorder(Recorder):
    """A recorder whose processes agree on the moment to stop."""

    def should_stop(self) -> bool:
        """Tell whether Berth has asked any of the training's processes to end. Call it in each of them at the same place:
        where the training is distributed, they exchange a number.
        """
        asked = super().should_stop()
        if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
            return asked
        device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
        told = torch.tensor([int(asked)], device=device)
        distributed.all_reduce(told, op=distributed.ReduceOp.MAX)
        return bool(told.item())


class Hooks:
    """Times the parts of an iteration between the calls of a model and of its optimizer."""

    def __init__(self, recorder: Recorder, model: torch.nn.Module, optimizer: Any, accumulate: int = 1) -> None:
        self._recorder, self._accumulate, self._updates = recorder, accumulate, 0
        self._is_cuda = any(parameter.is_cuda for parameter in model.parameters())
        self._part, self._since = "data", time.monotonic()
        self._hooks = [model.register_forward_pre_hook(self._called), model.register_forward_hook(self._returned)]
        self._optimizer, self._step = optimizer, optimizer.step
        # A method of the optimizer still: learning rate schedulers take it apart.
        optimizer.step = MethodType(lambda _, *args, **kwargs: self._stepped(*args, **kwargs), optimizer)

    def remove(self) -> None:
        """Leave model and optimizer as they were."""
        for hook in self._hooks:
            hook.remove()
        self._optimizer.step = self._step

    def _called(self, *_: Any) -> None:
        if torch.is_grad_enabled():
            self._turn("forward")

    def _returned(self, *_: Any) -> None:
        if torch.is_grad_enabled():
            self._turn("backward")

    def _turn(self, part: str) -> None:
        if self._is_cuda and self._recorder.wants_parts:
            torch.cuda.synchronize()
        now = time.monotonic()
        self._recorder.add(self._part, now - self._since)
        self._part, self._since = part, now

    def _stepped(self, *args: Any, **kwargs: Any) -> Any:
        self._turn("update")
        answer = self._step(*args, **kwargs)
        self._turn("data")
        self._updates += 1
        if self._updates % self._accumulate == 0:
            self._recorder.step()
        return answer


def instrument(
    model: torch.nn.Module,
    optimizer: Any,
    *,
    recorder: Recorder | None = None,
    accumulate: int = 1,
    **about: Any,
) -> Recorder:
    """Hook a recorder to a model and its optimizer, and return it. `about`: as for berth_instrument.Recorder.

    `parameters` is counted where it is not given. `accumulate`: calls of optimizer.step() to an iteration (with a gradient
    scaler or GAN that steps several times).
    """
    if recorder is None:
        about.setdefault("parameters", sum(parameter.numel() for parameter in model.parameters()))
        recorder = TorchRecorder(**about)
    Hooks(recorder, model, optimizer, accumulate)
    return recorder
