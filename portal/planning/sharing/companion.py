"""The child process in which a shadow decides, as its parent sees it: ask, wait so long at most, end it if it does not answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("child.py")
MOST_ANSWER = 64 * 2**20
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}


class ShadowFailed(Exception):
    """The shadow gave no answer; a sentence that says why."""


class Companion:
    """Starts its process when it is asked, and again after it failed. For one thread at a time."""

    def __init__(self, path: Path = CHILD) -> None:
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, content: bytes, *, limit_s: float) -> dict[str, Any]:
        """Return the answer. Raises ShadowFailed; the process has then ended."""
        process, late = self._there(), threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(limit_s, give_up)
        timer.daemon = True
        timer.start()
        try:
            body = _exchange(process, content)
        except OSError:
            body = b""
        finally:
            timer.cancel()
        if late.is_set() or not body:
            self.close()
            ended = f"its process ended with {process.returncode}"
            raise ShadowFailed(f"it gave no answer within {limit_s:g} s" if late.is_set() else ended)
        found = json.loads(body)
        if "error" in found:
            raise ShadowFailed(found["error"])
        return found

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:  # what was not read by a process that is gone
                    continue

    def _there(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            pipe, known = subprocess.PIPE, {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
            argv = [sys.executable, "-I", str(self._path)]
            self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, env=known | ONE_THREAD)  # noqa: S603 - our own file
        return self._process


def _exchange(process: subprocess.Popen[bytes], content: bytes) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(len(content).to_bytes(8, "big") + content)
    process.stdin.flush()
    head = process.stdout.read(8)
    size = int.from_bytes(head, "big") if len(head) == 8 else 0
    return process.stdout.read(size) if 0 < size <= MOST_ANSWER else b""
