"""A job over several nodes: each counts character pairs in its share of Python's library, rank 0 adds them up.

The rendezvous is torchrun's (MASTER_ADDR, MASTER_PORT, NNODES, NODE_RANK): after each round all nodes know the sum.

    $BERTH_PYTHON pairs.py --rounds 100
"""

import argparse
import os
import socket
import time
from pathlib import Path

import numpy as np

RANK, NODES = int(os.environ.get("NODE_RANK", "0")), int(os.environ.get("NNODES", "1"))
ADDRESS = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500")))
SIZE = 128 * 128


def peers():
    """Connections: rank 0 has one to each other node, they have one to it."""
    if RANK == 0:
        with socket.create_server(ADDRESS) as server:
            return [server.accept()[0] for _ in range(NODES - 1)]
    while True:
        try:
            return [socket.create_connection(ADDRESS, timeout=60)]
        except ConnectionRefusedError:
            time.sleep(0.2)  # rank 0 is not there yet


def receive(peer):
    return np.frombuffer(peer.recv(SIZE * 8, socket.MSG_WAITALL), dtype=np.int64)


def add_up(mine, others):
    """Sum over all nodes, known to all of them."""
    if RANK:
        others[0].sendall(mine.tobytes())
        return receive(others[0])
    total = mine + sum(receive(other) for other in others)
    for other in others:
        other.sendall(total.tobytes())
    return total


parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, default=100)
parser.add_argument("--pause", type=float, default=0.2, help="seconds between rounds, as if waiting for data")
args = parser.parse_args()
text = b"".join(path.read_bytes() for path in sorted(Path(os.__file__).parent.glob("*.py")))
codes = np.frombuffer(text, dtype=np.uint8).astype(np.int64) & 127
connections = peers()
print(f"node {RANK} of {NODES} is ready", flush=True)
for number, share in enumerate(np.array_split(codes, args.rounds * NODES)[RANK::NODES], 1):
    total = add_up(np.bincount(share[:-1] * 128 + share[1:], minlength=SIZE), connections)
    if number % 10 == 0 or number == args.rounds:
        first, second = divmod(int(total.argmax()), 128)
        print(f"round {number}: {total.sum()} pairs in all, most often {chr(first) + chr(second)!r}", flush=True)
    time.sleep(args.pause)
