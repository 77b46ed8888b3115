"""A data-parallel training whose speed is its loader's and its (virtual) GPUs', not the machine's: both wait in place of work.

Each process loads a batch from a store that answers after a while, or at once where it has the batch in a cache; computes
on a GPU that takes its time; and exchanges gradients over a link of a known bandwidth. What waits for what is real. It
shows what Berth predicts of such a job: `./berth experiment estimator-live`. With --torch the exchange and the hooks are
PyTorch's own (DistributedDataParallel with gloo; one process is started for each RANK).

    $BERTH_PYTHON train.py --steps 50 --hit 0.02 --miss 0.2 --misses 0.3
"""

import argparse
import multiprocessing
import os
import random
import sys
import time

sys.path.append(os.environ.get("BERTH_INSTRUMENT_PATH", "."))
FORWARD_S, BACKWARD_S, UPDATE_S = 0.04, 0.08, 0.01
PARAMETERS, LINK = 2_000_000, 1e8  # parameters, and parameters a second
SPREAD = 0.05  # standard deviation of a loading time, of its mean


def loading_s(args, step, rank):
    chance = random.Random(f"{args.seed} {step} {rank}")
    mean = args.miss if chance.random() < args.misses else args.hit
    return max(0.0, chance.gauss(mean, SPREAD * mean))


def compute(args, step, rank):
    """One process's part of a step; returns the seconds of loading, forward and backward."""
    times = []
    for seconds in (loading_s(args, step, rank), FORWARD_S, BACKWARD_S):
        began = time.monotonic()
        time.sleep(seconds)
        times.append(time.monotonic() - began)
    return times


def partner(pipe, args, rank):
    for step in iter(pipe.recv, None):
        compute(args, step, rank)
        pipe.send(step)


def plain(args, gpus):
    from berth_instrument import Recorder

    pipes = []
    for rank in range(1, gpus):
        here, there = multiprocessing.Pipe()
        multiprocessing.Process(target=partner, args=(there, args, rank), daemon=True).start()
        pipes.append(here)
    recorder = Recorder(batch_per_gpu=args.batch, gpus=gpus, parameters=PARAMETERS)
    for step in range(args.steps):
        for pipe in pipes:
            pipe.send(step)
        for part, seconds in zip(("data", "forward", "backward"), compute(args, step, 0), strict=True):
            recorder.add(part, seconds)
        with recorder.time("wait"):
            for pipe in pipes:
                pipe.recv()
        with recorder.time("communication"):  # a ring moves (N - 1) / N of the parameters
            time.sleep(PARAMETERS / LINK * (gpus - 1) / gpus)
        with recorder.time("update"):
            time.sleep(UPDATE_S)
        recorder.step()
    for pipe in pipes:
        pipe.send(None)


def with_torch(args, gpus):
    import torch
    from berth_torch import instrument
    from torch import distributed

    class Gpu(torch.autograd.Function):
        """Takes a GPU's time, forward and backward."""

        @staticmethod
        def forward(_context, values):
            time.sleep(FORWARD_S)
            return values.clone()

        @staticmethod
        def backward(_context, gradient):
            time.sleep(BACKWARD_S)
            return gradient

    rank, model = int(os.environ.get("RANK") or 0), torch.nn.Linear(64, 64)
    trained = model
    if gpus > 1:
        distributed.init_process_group("gloo")
        trained = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    recorder = instrument(trained, optimizer, batch_per_gpu=args.batch, gpus=gpus)
    for step in range(args.steps):
        time.sleep(loading_s(args, step, rank))
        optimizer.zero_grad()
        Gpu.apply(trained(torch.ones(4, 64))).mean().backward()
        optimizer.step()
    recorder.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=32, help="a GPU")
    parser.add_argument("--hit", type=float, default=0.1, help="seconds to load what is in the cache")
    parser.add_argument("--miss", type=float, default=0.1, help="seconds to load what is not")
    parser.add_argument("--misses", type=float, default=0.0, help="the part that is not")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--torch", action="store_true")
    args = parser.parse_args()
    gpus = max(1, int(os.environ.get("BERTH_GPUS_TOTAL") or os.environ.get("BERTH_GPUS") or 1))
    (with_torch if args.torch else plain)(args, gpus)


if __name__ == "__main__":
    main()
