"""The job behind `./berth calibrate`: it times all-reduces of several sizes, and prints what it measured and how.

With torch and CUDA it times torch.distributed's all-reduce (NCCL) over all GPUs. Without them, plain processes move the
same data in a ring: within a node one process for each GPU through shared memory, between nodes one process for each node
through TCP. It needs nothing else but the standard library. The first node prints one line: BERTH-LINK {"method": ...,
"measured": [[parameters, seconds, GPUs], ...], "nodes": ...}. A parameter has four bytes.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import socket
import statistics
import threading
import time
from multiprocessing import shared_memory
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

BYTES = 4
WARM_UP, TIMED = 1, 5
CUDA_SIZES, PLAIN_SIZES = [1_000_000, 16_000_000, 64_000_000], [250_000, 1_000_000, 4_000_000]
"""Sizes of the buffers in parameters. They are smaller for plain processes, which may share a few cores."""
PATIENCE_S = 120
WORD = "BERTH-LINK"

RANK, NODES = int(os.environ.get("NODE_RANK", "0")), int(os.environ.get("NNODES", "1"))
HERE, TOTAL = int(os.environ.get("BERTH_GPUS", "1")), int(os.environ.get("BERTH_GPUS_TOTAL", "1"))
ADDRESS = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29500")))
Measured = list[tuple[int, float, int]]


def timed(once: Callable[[], None]) -> float:
    """Return the median time of one exchange in seconds."""
    times = []
    for turn in range(WARM_UP + TIMED):
        began = time.perf_counter()
        once()
        if turn >= WARM_UP:
            times.append(time.perf_counter() - began)
    return statistics.median(times)


# Within a node, without CUDA


def _ring_process(rank: int, count: int, names: list[str], barrier: Any, sizes: list[int], out: Any) -> None:
    """Do 2(N-1) steps. In each, copy a chunk of the neighbour's buffer into our own, then wait for all."""
    blocks = [shared_memory.SharedMemory(name) for name in names]
    mine, neighbour = blocks[rank].buf, blocks[rank - 1].buf
    assert mine is not None  # both are open until close()
    assert neighbour is not None
    found = []
    for parameters in sizes:
        chunk = parameters * BYTES // count

        def once(chunk: int = chunk) -> None:
            for step in range(2 * (count - 1)):
                at = (rank - step - 1) % count * chunk
                mine[at : at + chunk] = neighbour[at : at + chunk]
                barrier.wait(PATIENCE_S)

        barrier.wait(PATIENCE_S)
        found.append((parameters, timed(once), count))
    if rank == 0:
        out.put(found)
    for block in blocks:
        block.close()


def within_node(sizes: list[int], processes: int) -> Measured:
    """Time all-reduces between the processes of one node, through shared memory."""
    context = multiprocessing.get_context("fork")
    blocks = [shared_memory.SharedMemory(create=True, size=max(sizes) * BYTES) for _ in range(processes)]
    try:
        barrier, out = context.Barrier(processes), context.Queue()
        names = [block.name for block in blocks]
        arguments = (processes, names, barrier, sizes, out)
        ranks = [context.Process(target=_ring_process, args=(rank, *arguments)) for rank in range(processes)]
        for process in ranks:
            process.start()
        found: Measured = out.get(timeout=PATIENCE_S)
        for process in ranks:
            process.join(PATIENCE_S)
        return found
    finally:
        for block in blocks:
            block.close()
            block.unlink()


# Between nodes, without CUDA


def _send(peer: socket.socket, value: Any) -> None:
    peer.sendall(json.dumps(value).encode() + b"\n")


def _receive(peer: socket.socket) -> Any:
    return json.loads(peer.makefile("rb").readline())


def gather(value: Any) -> list[Any]:
    """Return the values of all nodes, by rank. In a dict, `host` is the address from which the first node got it."""
    if RANK:
        with _connect(ADDRESS) as first:
            _send(first, [RANK, value])
            everything: list[Any] = _receive(first)
            return everything
    found = {0: value}
    with socket.create_server(("", ADDRESS[1])) as door:
        door.settimeout(PATIENCE_S)
        peers = [door.accept()[0] for _ in range(NODES - 1)]
    for peer in peers:
        rank, theirs = _receive(peer)
        found[rank] = {**theirs, "host": peer.getpeername()[0]} if isinstance(theirs, dict) else theirs
    for peer in peers:
        _send(peer, [found[rank] for rank in range(NODES)])
        peer.close()
    return [found[rank] for rank in range(NODES)]


def _ring_sockets() -> tuple[socket.socket, socket.socket]:
    """Return the sockets to the next node and from the node before."""
    with socket.create_server(("", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        places = gather({"host": ADDRESS[0], "port": listener.getsockname()[1]})
        place = places[(RANK + 1) % NODES]
        onward = _connect((place["host"], place["port"]))
        before = listener.accept()[0]
    for each in (onward, before):
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        each.settimeout(PATIENCE_S)
    return onward, before


def _connect(address: tuple[Any, ...]) -> socket.socket:
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(address, timeout=PATIENCE_S)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)  # the other node does not listen yet


def between_nodes(sizes: list[int]) -> Measured:
    """Move data as a ring all-reduce does, over TCP: 2(n-1) steps, in each a chunk to the next node and one from the last."""
    onward, before = _ring_sockets()
    outgoing, incoming = bytearray(max(sizes) * BYTES), memoryview(bytearray(max(sizes) * BYTES))
    found = []
    for parameters in sizes:
        chunk = parameters * BYTES // NODES

        def once(chunk: int = chunk) -> None:
            for _ in range(2 * (NODES - 1)):
                sender = threading.Thread(target=onward.sendall, args=(memoryview(outgoing)[:chunk],))
                sender.start()
                got = 0
                while got < chunk:
                    read = before.recv_into(incoming[got:chunk])
                    if not read:
                        raise ConnectionError("the node before this one closed the connection")
                    got += read
                sender.join()

        found.append((parameters, timed(once), TOTAL))
    return found


# With CUDA


def _torch_process(local: int, first: int, sizes: list[int], backend: str, out: Any) -> None:
    import torch
    import torch.distributed as dist

    rendezvous = f"tcp://{ADDRESS[0]}:{ADDRESS[1]}"
    dist.init_process_group(backend, init_method=rendezvous, rank=first + local, world_size=TOTAL)
    device = torch.device("cuda", local) if backend == "nccl" else torch.device("cpu")
    found = []
    for parameters in sizes:
        buffer = torch.ones(parameters, dtype=torch.float32, device=device)

        def once(buffer: Any = buffer) -> None:
            dist.all_reduce(buffer)
            if device.type == "cuda":
                torch.cuda.synchronize(device)

        dist.barrier()
        found.append((parameters, timed(once), TOTAL))
    if RANK == 0 and local == 0:
        out.put(found)
    dist.destroy_process_group()


def with_torch(sizes: list[int], backend: str) -> Measured | None:
    """Time torch.distributed's all-reduce over all GPUs. None on all nodes but the first."""
    first = sum(gather(HERE)[:RANK])
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    ranks = [context.Process(target=_torch_process, args=(local, first, sizes, backend, out)) for local in range(HERE)]
    for process in ranks:
        process.start()
    found = out.get(timeout=PATIENCE_S) if RANK == 0 else None
    for process in ranks:
        process.join(PATIENCE_S)
    return found


def cuda_version() -> str | None:
    """Return torch's version when it sees the given GPUs, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch.__version__ if torch.cuda.device_count() >= HERE else None


def measure(sizes: list[int] | None) -> tuple[str, Measured | None]:
    """Measure; return how it was done, and the results."""
    version = cuda_version()
    if version is not None:
        how = f"NCCL all-reduce, torch {version}, {TOTAL} GPUs on {NODES} node(s)"
        return how, with_torch(sizes or CUDA_SIZES, "nccl")
    sizes = sizes or PLAIN_SIZES
    if NODES > 1:
        how = f"ring of {NODES} nodes over TCP, buffers of plain processes (no CUDA)"
        return how, between_nodes(sizes)
    how = f"ring of {HERE} plain processes through shared memory (no CUDA)"
    return how, within_node(sizes, HERE)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="+", help="parameters of the buffers")
    sizes = parser.parse_args().sizes
    if TOTAL < 2:
        raise SystemExit("an all-reduce needs at least 2 GPUs")
    method, measured = measure(sizes)
    if RANK == 0:
        print(WORD, json.dumps({"method": method, "measured": measured, "nodes": NODES}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
