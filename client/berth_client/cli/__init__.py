"""The command `berth`: verbs that ask a portal over REST. What they are and how they end stands in docs/command-line.md."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from berth_client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth_client.wire import Transport

INTERRUPTED = 130


def run(*, prog: str = "berth") -> int:
    """Do what the command line says; return the exit code."""
    try:
        try:
            return main(sys.argv[1:], prog=prog)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # `| head` has read enough; Python would complain once more when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def main(arguments: Sequence[str], *, prog: str = "berth", transport: Transport | None = None) -> int:
    """Do what `arguments` say. `transport`: how requests are sent, where not by urllib."""
    from berth_client.cli.parser import parser_make

    parser = parser_make(prog)
    if "_ARGCOMPLETE" in os.environ:
        from berth_client.cli.completion import complete

        complete(parser)
    own, command = split(arguments)
    asked, unknown = parser.parse_known_args(own)
    if unknown:
        parser.error(f"{asked.verb} knows no {' '.join(unknown)}; `{prog} {asked.verb} -h` lists what it knows")
    if command is not None and not hasattr(asked, "command"):
        parser.error(f"{asked.verb} takes no command after --")
    if command:
        asked.command = command
    try:
        if not asked.asks_portal:
            return int(asked.act(asked))
        from berth_client.portal import Berth

        return int(asked.act(asked, Berth.from_environment(portal=asked.portal, transport=transport)))
    except ClientError as error:
        sys.stdout.flush()
        print(f"berth: {error}", file=sys.stderr)
        return error.exit_code


def split(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Return what stands before the first `--`, and what stands after it; None: there is none. A command may hold another."""
    if "--" not in arguments:
        return list(arguments), None
    place = list(arguments).index("--")
    return list(arguments[:place]), list(arguments[place + 1 :])
