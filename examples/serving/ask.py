"""Asks the server of serve.py over HTTP, at random moments, and says how long the answers took. Python alone.

python ask.py --port 20871 --per-second 8 --seconds 240
"""

import argparse
import random
import threading
import time
import urllib.error
import urllib.request

PATIENCE_S = 10


def ask(url, took, failed):
    begun = time.monotonic()
    try:
        with urllib.request.urlopen(url, data=b"def forward(model, context", timeout=PATIENCE_S) as answer:
            answer.read()
    except OSError as error:
        failed.append(str(error))
    else:
        took.append(time.monotonic() - begun)


def until_there(url, seconds):
    """Wait until the server answers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        took, failed = [], []
        ask(url, took, failed)
        if took:
            return
        time.sleep(1)
    raise SystemExit(f"no server answered at {url} within {seconds:g} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=20871)
    parser.add_argument("--per-second", type=float, default=8, help="queries, on average")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--wait", type=float, default=300, help="seconds until the server has to be there")
    args = parser.parse_args()
    url, took, failed = f"http://{args.address}:{args.port}/", [], []
    until_there(url, args.wait)
    end, draw = time.monotonic() + args.seconds, random.Random(1)
    while time.monotonic() < end:
        threading.Thread(target=ask, args=(url, took, failed)).start()
        time.sleep(draw.expovariate(args.per_second))
    while threading.active_count() > 1:
        time.sleep(0.05)
    took.sort()
    if took:
        middle, high = took[len(took) // 2], took[int(0.99 * (len(took) - 1))]
        print(f"{len(took)} answers, median {1000 * middle:.0f} ms, 99 % within {1000 * high:.0f} ms", flush=True)
    print(f"{len(failed)} without an answer{': ' + failed[-1] if failed else ''}", flush=True)


if __name__ == "__main__":
    main()
