"""The example's training in one process and without a break: its resumed runs must agree with it."""

import importlib.util
from functools import cache

import numpy as np

from portal.foundation.layout import SOURCE


@cache
def charlm():
    spec = importlib.util.spec_from_file_location("charlm", SOURCE / "examples/charlm/train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unbroken(runs, *, batch):
    """The loss of each step, and the model after the last. `runs`: (processes, learning rate, last step), one after another."""
    example, losses = charlm(), {}
    text, model = example.read_text(), example.new_model(np.random.default_rng(1))
    for processes, rate, until in runs:
        for step in range(len(losses) + 1, until + 1):
            answers = []
            for rank in range(processes):
                context, target = example.draw(text, step, rank, batch)
                answers.append(example.backward(model, context, target, *example.forward(model, context)))
            example.update(model, [gradient for _, gradient in answers], rate)
            losses[step] = float(np.mean([loss for loss, _ in answers]))
    return losses, model
