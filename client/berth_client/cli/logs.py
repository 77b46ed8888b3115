"""`berth logs`: a job's output, once or as it comes."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

from berth_client.cli.options import count, job_add
from berth_client.cli.output import wide_of

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from berth_client import Berth
    from berth_client.shapes import LogPiece

ANEW = "\r\x1b[K"
"""Begins the line of a terminal anew."""


def logs_options(parser: argparse.ArgumentParser) -> None:
    job_add(parser)
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="go on as it comes, also over later attempts, until the job has ended",
    )
    parser.add_argument("--tail", type=count, metavar="N", help="only the last N lines, and later ones")
    parser.add_argument(
        "--since", metavar="TIME", help="only lines of this time or later, for example 2026-01-31T12:00:00Z"
    )
    parser.add_argument(
        "--stream", choices=["stdout", "stderr"], help="only this stream, byte by byte as it was written"
    )
    parser.add_argument("--attempt", type=count, metavar="N", help="of this attempt; else the last")
    parser.add_argument("--rank", type=int, metavar="N", help="of a job on several nodes: of this one, from 0")


def logs(asked: Any, berth: Berth) -> int:
    query = {name: getattr(asked, name) for name in ("attempt", "rank", "stream", "tail", "since")}
    print_pieces(berth.jobs_follow(asked.number, **query) if asked.follow else _once(berth, asked.number, query))
    return 0


def print_pieces(pieces: Iterable[LogPiece]) -> None:
    """Print the lines; one that has not ended as it stands, again and again, on a terminal, and else once they are over.

    Standard error names each attempt after the first.
    """
    attempt, on_screen, drawn, unended = None, sys.stdout.isatty(), "", ""
    for piece in pieces:
        if attempt not in {None, piece["attempt"]}:
            print(f"berth: attempt {piece['attempt']} begins", file=sys.stderr, flush=True)
        attempt = piece["attempt"]
        unended = "\n".join(line["text"] for line in piece.get("open", ()))
        sys.stdout.write(ANEW * bool(drawn) + piece["text"])
        drawn = _cut(unended.rpartition("\n")[2]) if on_screen else ""
        sys.stdout.write(drawn)
        sys.stdout.flush()
    sys.stdout.write(ANEW * bool(drawn) + unended)


def _cut(text: str) -> str:
    """Cut a line to the terminal, so that it can be drawn anew."""
    most = shutil.get_terminal_size().columns - 1
    while wide_of(text) > most:
        text = text[: -max(1, (wide_of(text) - most) // 2)]
    return text


def _once(berth: Berth, number: str, query: dict[str, Any]) -> Iterator[LogPiece]:
    while True:
        piece = berth.jobs_logs(number, **query)
        yield piece
        if not piece["text"]:
            return
        query |= {"attempt": piece["attempt"], "cursor": piece["next"], "tail": None, "since": None}
