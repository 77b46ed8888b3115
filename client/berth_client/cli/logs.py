"""`berth logs`: a job's output, once or as it comes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from berth_client.cli.jobs import numbers
from berth_client.cli.options import count, verb_add

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from berth_client import Berth
    from berth_client.shapes import LogPiece


def parsers_add(verbs: Any) -> None:
    parser = verb_add(verbs, "logs", logs, "print a job's output: both streams, as the lines came")
    numbers(parser)
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="go on as it comes, also over later attempts, until the job has ended",
    )
    parser.add_argument("--tail", type=count, metavar="N", help="only the last N lines, and what follows")
    parser.add_argument("--since", metavar="TIME", help="what came then or later, for example 2026-01-31T12:00:00Z")
    parser.add_argument("--stream", choices=["stdout", "stderr"], help="only this stream")
    parser.add_argument("--attempt", type=count, metavar="N", help="of this attempt; else the last")
    parser.add_argument("--rank", type=int, metavar="N", help="of a job on several nodes: of this one, from 0")


def logs(asked: Any, berth: Berth) -> int:
    query = {name: getattr(asked, name) for name in ("attempt", "rank", "stream", "tail", "since")}
    printed(berth.jobs_follow(asked.number, **query) if asked.follow else _once(berth, asked.number, query))
    return 0


def printed(pieces: Iterable[LogPiece]) -> None:
    """Print the pieces as they are. Standard error names each attempt after the first."""
    attempt = None
    for piece in pieces:
        if attempt not in {None, piece["attempt"]}:
            print(f"berth: attempt {piece['attempt']} begins", file=sys.stderr, flush=True)
        attempt = piece["attempt"]
        sys.stdout.write(piece["text"])
        sys.stdout.flush()


def _once(berth: Berth, number: str, query: dict[str, Any]) -> Iterator[LogPiece]:
    """Yield what there is by now, piece by piece."""
    while True:
        piece = berth.jobs_logs(number, **query)
        if not piece["text"]:
            return
        yield piece
        query |= {"attempt": piece["attempt"], "cursor": piece["next"], "tail": None, "since": None}
