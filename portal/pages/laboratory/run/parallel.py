"""Tasks in processes beside each other, with their progress: policies and seeds of a simulation, mostly.

Processes are spawned, not forked: the caller may have threads (a progress bar, a web server). A task and its
answer must therefore be picklable. One process, or one task, runs here.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from portal.pages.laboratory.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    Tell = Callable[[float], None]
    Watch = Callable[[Sequence[float]], None]

LOOK_EVERY_S = 0.2


class Stopped(Exception):
    """Raised inside a task whose caller wants no more of it."""


@dataclass(frozen=True, slots=True)
class Task:
    """`work` is called with `tell`, to which it may say from time to time what fraction is done (0 to 1)."""

    label: str
    work: Callable[[Tell], Any]


def run_tasks(tasks: Sequence[Task], *, processes: int = 1, watch: Watch | None = None) -> list[Any]:
    """Return the tasks' answers, in their order. An error of a task is raised here, and ends the others.

    `watch` is called some times a second with the fraction done of each task. It may raise, to stop everything: its
    error is raised here.
    """
    if processes < 1:
        raise SimulationError("processes", "at least one process is needed; give 1 or more")
    fractions = [0.0] * len(tasks)
    if min(processes, len(tasks)) <= 1:
        return [_run_here(task, n, fractions, watch) for n, task in enumerate(tasks)]
    return _run_apart(tasks, processes, fractions, watch)


def _run_here(task: Task, number: int, fractions: list[float], watch: Watch | None) -> Any:
    looked_s = time.monotonic()

    def tell(fraction: float) -> None:
        nonlocal looked_s
        fractions[number] = fraction
        if watch and time.monotonic() - looked_s >= LOOK_EVERY_S:
            looked_s = time.monotonic()
            watch(fractions)

    answer = task.work(tell)
    fractions[number] = 1.0
    if watch:
        watch(fractions)
    return answer


def _run_apart(tasks: Sequence[Task], processes: int, fractions: list[float], watch: Watch | None) -> list[Any]:
    context = multiprocessing.get_context("spawn")
    done = context.Array("d", len(tasks))
    stop = context.Event()
    pool = ProcessPoolExecutor(min(processes, len(tasks)), context, _begin, (done, stop))
    try:
        futures = [pool.submit(_work, task, n) for n, task in enumerate(tasks)]
        _follow(futures, fractions, done, watch)
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise SimulationError(
            "processes",
            "a process was killed, most often because memory ran out; give fewer processes or a shorter trace",
        ) from error
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _follow(futures: Sequence[Future[Any]], fractions: list[float], done: Any, watch: Watch | None) -> None:
    """Wait until all have ended. Raises what the first failing one raised."""
    open_ones: set[Future[Any]] = set(futures)
    while open_ones:
        ended, open_ones = wait(open_ones, timeout=LOOK_EVERY_S, return_when=FIRST_EXCEPTION)
        fractions[:] = [1.0 if future.done() else done[n] for n, future in enumerate(futures)]
        for future in ended:
            future.result()
        if watch:
            watch(fractions)


_shared: dict[str, Any] = {}


def _begin(done: Any, stop: Any) -> None:
    """Set up a process: it leaves Ctrl-C to the caller, and ends when the caller ends."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded: the processes are the parallelism
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _shared.update(done=done, stop=stop)
    caller = multiprocessing.parent_process()

    def end_with_caller() -> None:
        if caller is not None:
            caller.join()
            os._exit(1)

    threading.Thread(target=end_with_caller, daemon=True).start()


def _work(task: Task, number: int) -> Any:
    if _shared["stop"].is_set():
        raise Stopped

    def tell(fraction: float) -> None:
        _shared["done"][number] = fraction
        if _shared["stop"].is_set():
            raise Stopped

    try:
        return task.work(tell)
    except Exception as error:  # noqa: BLE001 - raised on
        raise _portable(error) from None


def _portable(error: Exception) -> Exception:
    """Return the error if it can be pickled, else another with its text: an error that cannot be pickled breaks the pool."""
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - whatever it raises, it cannot cross
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
