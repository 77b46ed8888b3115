"""Work on files that never comes back costs a thread, not the loop; and a cancelled waiter always ends."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from workers.system.filework import FileWork, SlowFilesError


def test_what_does_not_answer_stops_nobody_else(tmp_path):
    os.mkfifo(pipe := tmp_path / "pipe")

    async def story():
        slow, answered = [], []
        files = FileWork(on_slow=slow.append)
        files.on_answered = answered.append
        with pytest.raises(SlowFilesError):
            await files.run("a", pipe.read_bytes, limit_s=0.2)
        began = time.monotonic()
        with pytest.raises(SlowFilesError, match="still waits"):
            await files.run("a", pipe.read_bytes, limit_s=60)
        assert time.monotonic() - began < 30, "the same is not tried again while it waits"
        assert await files.run("b", lambda: 7) == 7
        assert answered == []
        pipe.open("wb").close()  # now the reader comes back
        while slow == ["a"] and files._stuck:  # noqa: ASYNC110 - set by another thread
            await asyncio.sleep(0.01)
        assert await files.run("a", lambda: 8) == 8
        assert slow == answered == ["a"]

    asyncio.run(story())


def test_slow_files_are_an_error_of_files():
    """The agent's steps outlive an OSError and try again; they must outlive this one."""
    with pytest.raises(OSError, match="no answer within"):
        asyncio.run(FileWork().run("a", lambda: time.sleep(5), limit_s=0.05))


def test_errors_come_where_they_are_awaited():
    async def story():
        with pytest.raises(ZeroDivisionError):
            await FileWork().run("a", lambda: 1 / 0)
        with pytest.raises(TimeoutError, match="its own"):
            await FileWork().run("a", _timed_out)

    asyncio.run(story())


def _timed_out():
    raise TimeoutError("its own")


def test_a_cancellation_that_meets_the_answer_is_not_lost():
    async def story():
        files = FileWork()
        for _ in range(300):
            done = threading.Event()
            task = asyncio.create_task(_forever(files, done))
            while not done.is_set():  # noqa: ASYNC110 - as above
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task], timeout=20)
            assert task.cancelled()

    asyncio.run(story())


async def _forever(files, done):
    while True:
        await files.run("a", done.set)


def test_threads_are_reused():
    async def story():
        files = FileWork()
        for _ in range(50):
            await files.run("a", int)
        return files._threads

    assert asyncio.run(story()) == 1
