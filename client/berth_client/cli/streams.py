"""Standard input, output and error, also as a closed pipe, a full disk, or a terminal with few letters."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from berth_client.errors import ClientError


class Unwritable(ClientError):
    """A verb's output could not be written."""

    exit_code = 1


def streams_prepare() -> None:
    """Write a letter that the terminal lacks as its number, and close no stream early.

    Raises Unwritable where standard output is closed: the output would be lost.
    """
    nothing = Path(os.devnull)
    if sys.stdin is None:
        sys.stdin = nothing.open()
    if sys.stderr is None:
        sys.stderr = nothing.open("w")
    if sys.stdout is None:
        sys.stdout = nothing.open("w")
        raise Unwritable("standard output is closed; send it to /dev/null where nobody is to read it.")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def silence(stream: TextIO) -> None:
    """Drop what is still to be written: Python would try once more when it ends, and complain."""
    with suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


def complain(text: str) -> None:
    """Print an error. Where standard error is closed too, only the exit code tells it."""
    from berth_client.cli.tables import printable

    try:
        sys.stderr.write("".join(f"{printable(line)}\n" for line in f"berth: {text}".splitlines()))
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)
