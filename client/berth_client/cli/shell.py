"""`berth shell`: a terminal inside a running job, from one's own terminal."""

from __future__ import annotations

import json
import os
import select
import shlex
import sys
from contextlib import closing, nullcontext
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from berth_client.cli.options import job_add, rank_add
from berth_client.errors import AwayError, ClientError

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth
    from berth_client.cli.raw import RawTerminal
    from berth_client.websocket import Duplex

ABOUT = """\
Open a shell inside a running job, or run one command in it: `berth shell 41 -- nvidia-smi`.
Ctrl-C and all other keys go to the job; `exit` or Ctrl-D ends the shell. The exit code is the shell's, or the command's."""
READ_BYTES, WRITE_BYTES = 4096, 4096
MOST_TYPED, MOST_SHOWN = 64 * 1024, 8 * 1024 * 1024
"""Typed, it waits for the portal; shown, for one's own terminal or pipe. Only then is no more taken."""
NO_TERMINAL = (
    "a shell needs a terminal on standard input and output. From a script run one command: `berth shell JOB -- COMMAND`"
)


def shell_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT
    job_add(parser, "running")
    rank_add(parser)
    parser.set_defaults(command=None)


def shell(asked: Any, berth: Berth) -> int:
    if find_spec("termios") is None:
        raise ClientError("`berth shell` does not work on Windows; use WSL there, or the terminal on the job's page")
    command = asked.command
    both = sys.stdin.isatty() and sys.stdout.isatty()
    if command is None and not both:
        raise ClientError(NO_TERMINAL)
    if command is not None:
        command = command[0] if len(command) == 1 else shlex.join(command)
    size = os.get_terminal_size(sys.stdin.fileno()) if both else os.terminal_size((80, 24))
    talk = berth.jobs_terminal(
        asked.number, rank=asked.rank, command=command, plain=not both, columns=size.columns, rows=size.lines
    )
    with closing(talk):
        return Session(talk, is_terminal=both).run()


class Session:
    """Carries between the socket and the user's terminal, or only standard output."""

    def __init__(self, talk: Duplex, *, is_terminal: bool) -> None:
        from berth_client.websocket import Heart

        self._talk, self._is_terminal = talk, is_terminal
        self._shown = bytearray()
        self._end: Any = None
        self._heart = Heart(talk)

    def run(self) -> int:
        from berth_client.cli.raw import RawTerminal
        from berth_client.terminal import terminal_end
        from berth_client.websocket import BrokenError

        with RawTerminal(sys.stdin.fileno()) if self._is_terminal else nullcontext() as raw:
            try:
                while self._end is None or self._shown:
                    self._turn(raw)
            except BrokenError as error:
                raise AwayError(f"{error} The shell in the job has ended with it; the job runs on.") from None
        return terminal_end(self._end)

    def _turn(self, raw: RawTerminal | None) -> None:
        """Wait until something can be done, and do it. Raises AwayError when the connection is lost."""
        talk, typed, shown = self._talk, sys.stdin.fileno(), sys.stdout.fileno()
        reading: list[Any] = [raw.changed] if raw else []
        if self._end is None and len(self._shown) < MOST_SHOWN:
            reading.append(talk)
        if raw and self._end is None and talk.waiting < MOST_TYPED:
            reading.append(typed)
        writing: list[Any] = [talk] if talk.waiting and self._end is None else []
        ready, free, _ = select.select(reading, writing + ([shown] if self._shown else []), [], 1.0)
        if raw and raw.changed in ready and (size := raw.size()):
            talk.send(json.dumps({"columns": size.columns, "rows": size.lines}))
        if typed in ready:
            self._type(typed)
        if shown in free:
            del self._shown[: os.write(shown, self._shown[:WRITE_BYTES])]
        if talk in reading:
            self._hear()
        if self._end is None:
            talk.flush()

    def _type(self, typed: int) -> None:
        data = os.read(typed, READ_BYTES)
        if not data:
            raise AwayError("the terminal was closed")
        self._talk.send(data)

    def _hear(self) -> None:
        for message in self._heart.take():
            if isinstance(message, bytes):
                self._shown += message
            elif (said := json.loads(message)).get("state") == "ended":
                self._end = said
        if self._talk.is_over and self._end is None:
            raise AwayError("the portal has closed the terminal; the job runs on")
