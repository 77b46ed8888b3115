"""A character-level language model on Python's own library sources: real training in numpy, data-parallel.

One process a GPU given (BERTH_GPUS); their gradients are averaged each step. The model (the last CONTEXT characters,
embedded, one hidden layer, a softmax) is saved every few seconds and when SIGTERM comes, and the next attempt goes on
from there, whatever its number of GPUs. What a process trains on depends on the step and its rank alone, so that a broken run
gives the same model as an unbroken one of the same sizes. On a virtual node it keeps to BERTH_VIRTUAL_PACE, the share of
a real core that stands for a GPU, and sleeps for the rest, so that a whole demo cluster trains on a laptop.

    $BERTH_PYTHON train.py --steps 2000
"""

import argparse
import json
import os

os.environ["OMP_NUM_THREADS"] = "1"  # one core a process; must be set before numpy is loaded

import multiprocessing
import shutil
import signal
import sys
import time
from pathlib import Path

import numpy as np

sys.path.append(os.environ.get("BERTH_INSTRUMENT_PATH", "."))
try:
    from berth_instrument import Recorder  # tells Berth how fast it goes
except ImportError:  # run by hand
    Recorder = None

CONTEXT, EMBED, HIDDEN, ALPHABET = 16, 16, 128, 128
CHECKPOINT = Path(os.environ.get("BERTH_CHECKPOINT_DIR", ".")) / "charlm.npz"
ARTEFACTS = os.environ.get("BERTH_ARTEFACTS")


class Pace:
    """Keeps this process to a share of a core: `rest` sleeps for what it has used since the last call.

    Of a virtual GPU's job VIRTUAL_RESPONSE may give the part of full speed at 1, 2, 3 ... cores a GPU, as slow data loading would
    make it. The present number of cores stands in BERTH_CORES_FILE, since core tuning changes it. VIRTUAL_GPU may say that it
    keeps but a part of a GPU busy; what its neighbours there leave it of its speed stands in BERTH_VIRTUAL_SPEED_FILE.
    """

    def __init__(self, share):
        self.share, self.used_s = share * float(os.environ.get("VIRTUAL_GPU", "1").split(",")[0]), time.process_time()
        self.beside = os.environ.get("BERTH_VIRTUAL_SPEED_FILE")
        self.parts = [float(part) for part in os.environ.get("VIRTUAL_RESPONSE", "").split(",") if part]
        self.part, self.look_at = 1.0, 0.0

    def rest(self):
        used_s = time.process_time() - self.used_s
        time.sleep(used_s * (1 / (self.share * self.speed()) - 1))
        self.used_s = time.process_time()

    def speed(self):
        now = time.monotonic()
        if now >= self.look_at:
            self.look_at = now + 1
            self.part = max(0.01, self.by_cores() * self.by_neighbours())
        return self.part

    def by_cores(self):
        try:
            cores = int(Path(os.environ["BERTH_CORES_FILE"]).read_text()) if self.parts else 0
        except (KeyError, OSError, ValueError):
            cores = 0
        if not cores:
            return 1.0
        each = max(1, cores // max(1, int(os.environ.get("BERTH_GPUS") or 1)))
        return self.parts[min(each, len(self.parts)) - 1]

    def by_neighbours(self):
        try:
            return min(1.0, float(Path(self.beside).read_text())) if self.beside else 1.0
        except (OSError, ValueError):  # it was never told: it is alone there
            return 1.0


def read_text(limit=4_000_000):
    """Python's library as characters 0-127."""
    data = b"".join(path.read_bytes() for path in sorted(Path(os.__file__).parent.glob("*.py")))
    return np.frombuffer(data[:limit], dtype=np.uint8) & 127


def new_model(rng):
    shapes = {"embed": (ALPHABET, EMBED), "w1": (CONTEXT * EMBED, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, ALPHABET)}
    return {name: rng.normal(0, shape[0] ** -0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def forward(model, context):
    """The inputs' embeddings, the hidden layer and each character's probability."""
    x = model["embed"][context].reshape(len(context), -1)
    h = np.tanh(x @ model["w1"] + model["b1"])
    logits = h @ model["w2"]
    p = np.exp(logits - logits.max(1, keepdims=True))
    return x, h, p / p.sum(1, keepdims=True)


def backward(model, context, target, x, h, p):
    """Mean cross-entropy in nats, and the gradient of each parameter."""
    rows = np.arange(len(target))
    loss = -np.log(p[rows, target] + 1e-9).mean()
    p[rows, target] -= 1
    p /= len(target)
    dh = (p @ model["w2"].T) * (1 - h * h)
    grad = {"w2": h.T @ p, "w1": x.T @ dh, "b1": dh.sum(0), "embed": np.zeros_like(model["embed"])}
    np.add.at(grad["embed"], context, (dh @ model["w1"].T).reshape(*context.shape, EMBED))
    return loss, grad


def draw(text, step, rank, batch):
    """The batch of a process in a step: contexts and the characters that follow."""
    at = np.random.default_rng((step, rank)).integers(CONTEXT, len(text), batch)
    return text[at[:, None] + np.arange(-CONTEXT, 0)], text[at]


def update(model, gradients, rate):
    for name in model:
        model[name] -= rate * np.mean([grad[name] for grad in gradients], axis=0)


def worker(pipe, rank, batch, share):
    """One GPU's process: gets step and model, answers with loss and gradients of its own batch, and how long it took."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the first process decides when to end
    text, pace = read_text(), Pace(share)
    while (sent := pipe.recv()) is not None:
        step, model = sent
        clock = [time.monotonic()]
        context, target = draw(text, step, rank, batch)
        pace.rest()
        clock.append(time.monotonic())
        layers = forward(model, context)
        pace.rest()
        clock.append(time.monotonic())
        answer = backward(model, context, target, *layers)
        pace.rest()
        clock.append(time.monotonic())
        pipe.send((*answer, np.diff(clock)))


def new_recorder(args, first, model, gpus):
    if Recorder is None:
        return None
    total = None if args.seconds < float("inf") else args.steps * args.batch * gpus
    parameters = sum(each.size for each in model.values())
    done = first * args.batch * gpus
    return Recorder(batch_per_gpu=args.batch, total=total, done=done, parameters=parameters, gpus=gpus)


def record(recorder, times, exchange_s, update_s):
    """Tell of an iteration. `times`: (data, forward, backward) of each process; the first's count, it waits for the last."""
    if recorder is None:
        return
    own = times[0].sum()
    slowest = max(each.sum() for each in times)
    for part, seconds in zip(("data", "forward", "backward"), times[0], strict=True):
        recorder.add(part, seconds)
    handed_s = max(0.0, exchange_s - slowest)  # the model to each process, its gradients back
    alone = len(times) == 1  # nobody to exchange with: handing over is part of the update then
    recorder.add("update", update_s + handed_s if alone else update_s)
    recorder.add("wait", slowest - own)
    recorder.add("communication", 0.0 if alone else handed_s)
    recorder.step()


def load():
    if CHECKPOINT.exists():
        with np.load(CHECKPOINT) as saved:
            model = {name: saved[name] for name in saved.files if name not in {"step", "spent_s"}}
            return int(saved["step"]), float(saved["spent_s"]), model
    return 0, 0.0, new_model(np.random.default_rng(1))


def save(step, spent_s, model):
    partial = CHECKPOINT.with_suffix(".tmp.npz")
    np.savez(partial, step=step, spent_s=spent_s, **model)
    partial.replace(CHECKPOINT)  # whole or not at all


def tell(step, loss, chars_s):
    """Add a line to this attempt's `metrics-N.jsonl`, of which Berth draws curves."""
    if ARTEFACTS:
        with (Path(ARTEFACTS) / f"metrics-{os.environ.get('BERTH_EPOCHS_BEFORE', '0')}.jsonl").open("a") as file:
            told = {
                "step": step,
                "time": round(time.time(), 3),
                "loss": round(float(loss), 4),
                "chars_per_s": round(chars_s),
            }
            file.write(json.dumps(told) + "\n")


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end earlier, after so much training")
    parser.add_argument("--batch", type=int, default=int(os.environ.get("BERTH_BATCH_PER_GPU") or 64), help="a GPU")
    parser.add_argument("--rate", type=float, default=float(os.environ.get("BERTH_LEARNING_RATE") or 0.5))
    parser.add_argument(
        "--pace", type=float, default=float(os.environ.get("BERTH_VIRTUAL_PACE") or 1), help="of a core"
    )
    args = parser.parse_args()
    if not 0 < args.pace <= 1:
        parser.error(f"--pace must be above 0 and at most 1, not {args.pace:g}")
    return args


def told_saved(recorder):
    """Tell of the checkpoint, so that Berth shows what a stop would cost."""
    if recorder is not None:
        recorder.saved()


def main():
    args = parse()
    gpus = max(1, int(os.environ.get("BERTH_GPUS") or 1))
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

    first, spent_s, model = load()
    print(f"{gpus} processes, from step {first}", flush=True)
    pipes = []
    for rank in range(gpus):
        here, there = multiprocessing.Pipe()
        multiprocessing.Process(target=worker, args=(there, rank, args.batch, args.pace), daemon=True).start()
        pipes.append(here)

    recorder = new_recorder(args, first, model, gpus)
    pace = Pace(args.pace)
    began = said = saved = time.monotonic()
    said_step, last = first, first >= args.steps
    try:  # the recorder ends a profile by SystemExit
        for step in range(first + 1, args.steps + 1):
            sent = time.monotonic()
            for pipe in pipes:
                pipe.send((step, model))
            answers = [pipe.recv() for pipe in pipes]
            got = time.monotonic()
            update(model, [grad for _, grad, _ in answers], args.rate)
            pace.rest()
            now = time.monotonic()
            record(recorder, [times for _, _, times in answers], got - sent, now - got)
            last = step == args.steps or spent_s + now - began >= args.seconds
            if now - said >= 1 or last or stopping:
                chars_s = (step - said_step) * args.batch * gpus / max(now - said, 1e-9)
                loss = np.mean([loss for loss, _, _ in answers])
                print(f"step {step} loss {loss:.3f} {chars_s:.0f} chars/s", flush=True)
                tell(step, loss, chars_s)
                said, said_step = now, step
            if now - saved >= 5 or last or stopping:
                save(step, spent_s + now - began, model)
                told_saved(recorder)
                saved = now
            if stopping and not last:
                print(f"asked to stop: saved at step {step}", flush=True)
            if last and ARTEFACTS:
                shutil.copy(CHECKPOINT, ARTEFACTS)  # for downloading, and for a later job to begin with
            if stopping or last:
                break
    finally:
        for pipe in pipes:
            pipe.send(None)
    sys.exit(143 if stopping and not last else 0)  # 128 + SIGTERM: not done yet


if __name__ == "__main__":
    main()
