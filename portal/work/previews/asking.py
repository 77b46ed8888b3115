"""Asks the program that reads a tenant's files, in a process of its own, and takes no more than its time and its answer.

Four run at once in each process of the portal; a fifth waits a second. One run serves all readers of the same meanwhile.
Nobody waits without end: the number that may wait is bounded, and a far store that hangs keeps a thread of its own and no place.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = str(Path(__file__).with_name("program.py"))
LIMIT_S, PATIENCE_S, AT_ONCE = 3.0, 1.0, 4
MOST_ANSWER_BYTES, MOST_FAR_BYTES, MOST_FAR_READS = 1024 * 1024, 8 * 1024 * 1024, 1000
FAR_AT_ONCE = 8  # pieces; a fetch cannot be stopped, so one that hangs keeps its thread
MOST_WAITING = 24
"""Readers who wait for a place, or for the look of another: half of the requests that run at once (decision 0231)."""
COSTLY = "It is too costly to show. Download the file to look into it."
BUSY = "Other files are being looked into at the moment. Try again in some seconds."
SLOW = "The store of artefacts answers too slowly for a look. Try again in some minutes, or download the file."
_slots, _fetching = threading.BoundedSemaphore(AT_ONCE), threading.BoundedSemaphore(FAR_AT_ONCE)
ODD = dict.fromkeys((0, *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd")
_running: dict[str, Future[dict[str, Any]]] = {}
_lock = threading.Lock()
_waiting = 0


class Busy(Exception):
    """Enough files are being looked into, or their store is slow. The text is for the reader."""


class TooCostly(Exception):
    """The file took more memory, processor or time than a look may take. The text is for the reader."""


class OutOfTime(TooCostly):
    """It was the time: on another day the file may be shown."""


@dataclass
class Given:
    """A file: its descriptor, or, for one in a far store, the function that fetches a piece of it."""

    name: str
    size: int
    file: int
    fetch: Callable[[int, int], bytes] | None = None


def asked(key: str, what: str, opened: Callable[[], Sequence[Given]]) -> dict[str, Any]:
    """Return the answer for the files that `opened` gives; they are closed afterwards. Raises Busy, TooCostly."""
    with _lock:
        running = _running.get(key)
        mine = running or _running.setdefault(key, Future())
    if running is not None:
        with _patience():
            return running.result()
    try:
        mine.set_result(_answer(what, opened))
    except BaseException as error:
        mine.set_exception(error)
        raise
    finally:
        with _lock:
            del _running[key]
    return mine.result()


@contextmanager
def _patience() -> Iterator[None]:
    """Wait among those who wait. Raises Busy where enough do."""
    global _waiting  # noqa: PLW0603 - one count for the process
    with _lock:
        if _waiting >= MOST_WAITING:
            raise Busy(BUSY)
        _waiting += 1
    try:
        yield
    finally:
        with _lock:
            _waiting -= 1


def _place_take() -> None:
    """Take one of the places. Raises Busy."""
    if _slots.acquire(blocking=False):
        return
    with _patience():
        if not _slots.acquire(timeout=PATIENCE_S):
            raise Busy(BUSY)


def _answer(what: str, opened: Callable[[], Sequence[Given]]) -> dict[str, Any]:
    _place_take()
    try:
        files = opened()
        try:
            return _run(what, files)
        finally:
            for each in files:
                os.close(each.file)
    finally:
        _slots.release()


def _run(what: str, files: Sequence[Given]) -> dict[str, Any]:
    told = [
        {"place": place, "name": each.name, "size": each.size, "file": each.file, "far": each.fetch is not None}
        for place, each in enumerate(files)
    ]
    order = os.memfd_create("order")
    try:
        with open(order, "wb", closefd=False) as file:
            file.write(json.dumps({"what": what, "files": told, "portal": os.getpid()}).encode())
        os.lseek(order, 0, os.SEEK_SET)
        with subprocess.Popen(  # noqa: S603 - a program of our own, and a number
            [sys.executable, "-I", "-S", PROGRAM, str(order)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[order, *(each.file for each in files)],
            env={},
            cwd="/",
            bufsize=0,
        ) as child:
            try:
                return understood(_heard(child, files))
            except (BrokenPipeError, ValueError, IndexError) as error:  # it ended early, or asked for a wrong piece
                raise TooCostly(COSTLY) from error
            finally:
                child.kill()
    finally:
        os.close(order)


def _heard(child: subprocess.Popen[bytes], files: Sequence[Given]) -> bytes:
    """Return the child's answer; meanwhile bring the pieces that it asks for. Raises TooCostly."""
    assert child.stdout is not None
    assert child.stdin is not None
    heard, bytes_left, reads_left, until = b"", MOST_FAR_BYTES, MOST_FAR_READS, time.monotonic() + LIMIT_S
    poll = select.poll()
    poll.register(child.stdout, select.POLLIN)
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        if not (piece := os.read(child.stdout.fileno(), 65536)):
            return heard
        heard += piece
        if len(heard) > MOST_ANSWER_BYTES:
            break
        while not heard.startswith(b"{") and b"\n" in heard:
            line, _, heard = heard.partition(b"\n")
            place, start, length = (int(word) for word in line.split())
            if min(place, start, length) < 0 or files[place].fetch is None:
                raise ValueError(line)
            bytes_left, reads_left = bytes_left - length, reads_left - 1
            if bytes_left < 0 or reads_left < 0:
                raise TooCostly(COSTLY)
            _bring(files[place], start, length, until)
            child.stdin.write(b"\n")
    raise OutOfTime(COSTLY) if len(heard) <= MOST_ANSWER_BYTES else TooCostly(COSTLY)


def _bring(given: Given, start: int, length: int, until: float) -> None:
    """Fetch a piece in a thread of its own, and wait for it until then. Raises Busy, and the fetch's errors."""
    assert given.fetch is not None
    if not _fetching.acquire(timeout=max(0.0, until - time.monotonic())):
        raise Busy(SLOW)
    answer: Future[bytes] = Future()
    try:
        threading.Thread(
            target=_fetch, args=(given.fetch, start, length, answer), name="far-piece", daemon=True
        ).start()
    except RuntimeError as error:  # no more threads
        _fetching.release()
        raise Busy(BUSY) from error
    try:
        piece = answer.result(timeout=max(0.0, until - time.monotonic()))
    except TimeoutError as error:
        raise Busy(SLOW) from error
    os.pwrite(given.file, piece, start)


def _fetch(fetch: Callable[[int, int], bytes], start: int, length: int, answer: Future[bytes]) -> None:
    try:
        answer.set_result(fetch(start, length))
    except BaseException as error:  # noqa: BLE001 - raised again where the answer is taken
        answer.set_exception(error)
    finally:
        _fetching.release()


def understood(answer: bytes) -> dict[str, Any]:
    """Return the answer as plain values. A child that died without one, or says that it was too much, raises TooCostly."""
    try:
        told = plain(json.loads(answer))
    except (ValueError, RecursionError) as error:
        raise TooCostly(COSTLY) from error
    if not isinstance(told, dict) or told.get("costly"):
        raise TooCostly(COSTLY)
    return told


def plain(value: Any) -> Any:
    """Return the value with U+FFFD for signs that no page or store takes: NUL, half a surrogate pair, marks that turn text.

    All text from tenants' files passes here.
    """
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").translate(ODD)
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {plain(name): plain(each) for name, each in value.items()}
    return value
