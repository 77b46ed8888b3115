"""A training in PyTorch whose use of a GPU is known: it says at its end what it did, for the test to compare with Berth's.

It trains a stack of --layers square matrices of --size for --seconds. --hold-mib: so much more of the GPU's memory;
--grow-mib: so much more again after --grow-after seconds. --load-ms: processor time that each batch takes to load, shared out
among --loaders processes that read ahead as a data loader's do. Without a GPU it computes on the processor.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time

import torch

sys.path.append(os.environ.get("BERTH_INSTRUMENT_PATH", "."))
from berth_torch import instrument

READ_AHEAD = 4


def load(asked, loaded, seconds):
    for _ in iter(asked.get, None):
        until = time.process_time() + seconds
        while time.process_time() < until:
            sum(range(200))
        loaded.put(1)


class Loader:
    """Processes that use so much processor time for each batch, some batches ahead."""

    def __init__(self, processes, seconds):
        context = multiprocessing.get_context("fork")
        self.asked, self.loaded, self.pieces = context.Queue(), context.Queue(), processes if seconds else 0
        for _ in range(self.pieces):
            each = seconds / processes
            context.Process(target=load, args=(self.asked, self.loaded, each), daemon=True).start()
        for _ in range(self.pieces * READ_AHEAD):
            self.asked.put(1)

    def batch(self):
        for _ in range(self.pieces):
            self.loaded.get()
            self.asked.put(1)


def mib(count, device):
    return torch.ones(count * 2**18, device=device)


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("--size", 2048), ("--layers", 4), ("--batch", 2048), ("--loaders", 8)):
        parser.add_argument(name, type=int, default=default)
    for name, default in (("--seconds", 20.0), ("--grow-after", 8.0), ("--load-ms", 0.0)):
        parser.add_argument(name, type=float, default=default)
    for name in ("--hold-mib", "--grow-mib"):
        parser.add_argument(name, type=int, default=0)
    parser.add_argument("--silent", action="store_true", help="tell Berth nothing")
    args = parser.parse_args()
    loader = Loader(args.loaders, args.load_ms / 1000)  # before CUDA is there: it does not survive a fork
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if has_gpu else "cpu")
    held = [mib(args.hold_mib, device)]
    layers = [torch.nn.Linear(args.size, args.size) for _ in range(args.layers)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    recorder = None if args.silent else instrument(model, optimizer, batch_per_gpu=args.batch)
    inputs = torch.randn(args.batch, args.size, device=device)
    done, began, first_s = 0, time.monotonic(), 0.0
    print("trains", torch.cuda.get_device_name() if has_gpu else "cpu", flush=True)
    while time.monotonic() < began + args.seconds and not (recorder and recorder.should_stop()):
        loader.batch()
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        if has_gpu:
            torch.cuda.synchronize()
        done += 1
        if done == 10:
            first_s = time.monotonic()
        if args.grow_mib and len(held) == 1 and time.monotonic() > began + args.grow_after:
            held.append(mib(args.grow_mib, device))
            print("grown", flush=True)
    told = {"iterations": done, "per_s": (done - 10) / max(1e-9, time.monotonic() - first_s)}
    if has_gpu:
        told["reserved_mib"] = torch.cuda.max_memory_reserved() / 2**20
    print("told", json.dumps(told), flush=True)


main()
