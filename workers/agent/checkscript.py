"""The operator's own check: a program that says with its exit code whether the node is well, within a time limit.

0: well. Anything else, a time-out or a program that does not start: no new jobs here until it is well again. The first line
of its output says why; a line `gpu:3: reason` blames one GPU, and then the others go on.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import stat
import tempfile
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from workers.agent.health import NodeHealth

CHECK = "script"
_GPU = re.compile(r"^gpu:(\d{1,4}):\s*(.+)$")
REMEDY = "Runs the node's own check script and reads its findings."


class CheckScript:
    """Runs the program and tells `health` what it found."""

    def __init__(self, path: Path, *, limit_s: float, health: NodeHealth) -> None:
        self._path, self._limit_s, self._health = path, limit_s, health
        self._blamed: set[str] = set()

    async def run(self) -> None:
        code, output = await self._output()
        found = {} if code == 0 else _blame(output, code)
        for subject in self._blamed - set(found):
            self._health.clear(subject, CHECK)
        for subject, detail in found.items():
            self._health.note(subject, CHECK, "drain", detail, REMEDY)
        self._blamed = set(found)

    async def _output(self) -> tuple[int | None, str]:
        """Return its exit code (None: it gave none) and its output."""
        if (why := _refusal(self._path)) is not None:
            return None, why
        try:
            with tempfile.TemporaryFile() as output:  # a process that the program leaves behind would keep a pipe open
                code = await self._ended(output)
                output.seek(0)
                text = output.read(8192).decode(errors="replace")
        except OSError as error:
            return None, f"The check script does not start: {error}."
        return (None, f"The check script did not end within {self._limit_s:g} s.") if code is None else (code, text)

    async def _ended(self, output: IO[bytes]) -> int | None:
        """Run it to its end, and end whatever it left; None when it took too long."""
        process = await asyncio.create_subprocess_exec(
            self._path,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(self._limit_s):
                return await process.wait()
        except TimeoutError:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _refusal(path: Path) -> str | None:
    """Say why a program must not be run: somebody else could have written it."""
    try:
        seen = path.stat()
    except OSError as error:
        return f"The check script cannot be found: {error.strerror}."
    if seen.st_uid not in {0, os.geteuid()} or seen.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "The check script is not run: others than root and the agent's account may write it."
    return None


def _blame(output: str, code: int | None) -> dict[str, str]:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    gpus = {f"gpu:{int(match[1])}": match[2] for line in lines if (match := _GPU.match(line))}
    if gpus:
        return gpus
    return {"node": lines[0] if lines else f"The check script ended with {code}."}
