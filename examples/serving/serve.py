"""An inference server: guesses the next characters of a text, over HTTP, and tells Berth how long each answer took.

It answers one query at a time; who asks meanwhile waits, and the waiting counts. On a virtual node it keeps to
BERTH_VIRTUAL_PACE, the share of a real core that stands for a GPU, and to what its neighbours on the GPU leave it
(BERTH_VIRTUAL_SPEED_FILE).

    $BERTH_PYTHON serve.py --port 20871 --seconds 300
"""

import argparse
import json
import os

os.environ["OMP_NUM_THREADS"] = "1"  # must be set before numpy is loaded

import signal
import sys
import threading
import time
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np

sys.path.append(os.environ.get("BERTH_INSTRUMENT_PATH", "."))
try:
    from berth_instrument import Recorder
except ImportError:  # run by hand
    Recorder = None

CONTEXT, HIDDEN, ALPHABET = 16, 256, 128
MOST_BYTES = 4096
WAITING_MOST = 32


def speed():
    """Return the part of its speed that its neighbours leave it."""
    told = os.environ.get("BERTH_VIRTUAL_SPEED_FILE")
    try:
        return min(1.0, max(0.01, float(Path(told).read_text()))) if told else 1.0
    except (OSError, ValueError):  # it was never told: it is alone there
        return 1.0


class Model:
    """Some layers with fixed weights: what it answers is nonsense, what it costs is not."""

    def __init__(self, pace):
        rng = np.random.default_rng(1)
        self.first = rng.normal(0, 0.1, (CONTEXT * ALPHABET, HIDDEN)).astype(np.float32)
        self.last = rng.normal(0, 0.1, (HIDDEN, ALPHABET)).astype(np.float32)
        self.pace, self.turn = pace, threading.Lock()

    def answer(self, text, characters):
        """Return the most likely next characters. One query at a time computes, and then rests for what a GPU would not need."""
        with self.turn:
            used = time.thread_time()
            codes = [ord(char) & 127 for char in text.rjust(CONTEXT)]
            for _ in range(characters):
                inputs = np.eye(ALPHABET, dtype=np.float32)[codes[-CONTEXT:]].reshape(-1)
                codes.append(int(np.argmax(np.tanh(inputs @ self.first) @ self.last)))
            used = time.thread_time() - used
            time.sleep(used * (1 / (self.pace * speed()) - 1))
        return "".join(map(chr, codes[-characters:]))


def handler(model, recorder, waiting):
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            begun = time.monotonic()
            if len(waiting) >= WAITING_MOST:
                self.send_error(503, "too many are waiting")
                return
            waiting.append(None)
            try:
                length = min(MOST_BYTES, int(self.headers.get("Content-Length") or 0))
                text = self.rfile.read(length).decode(errors="replace")
                body = json.dumps({"next": model.answer(text, 4)}).encode()
            finally:
                waiting.pop()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            if recorder is not None:
                recorder.query(time.monotonic() - begun)

        def log_message(self, *_):
            """Say nothing: a line a query would fill the log."""

    return Handler


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--port", type=int, default=20871)
    parser.add_argument("--address", default="127.0.0.1", help="where it listens; on a cluster of machines the node's")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    args = parser.parse_args()
    recorder = Recorder(batch_per_gpu=1) if Recorder else None
    model = Model(float(os.environ.get("BERTH_VIRTUAL_PACE") or 1))
    server = ThreadingHTTPServer((args.address, args.port), handler(model, recorder, deque()))
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"serving on {args.address}:{args.port}", flush=True)
    stop.wait(None if args.seconds == float("inf") else args.seconds)
    server.shutdown()
    if recorder is not None:
        recorder.close()


if __name__ == "__main__":
    main()
