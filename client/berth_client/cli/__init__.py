"""The command `berth`: verbs that ask a portal over REST. docs/command-line.md describes them and their exit codes."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from berth_client.cli.streams import Unwritable, complain, silence, streams_prepare
from berth_client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth_client.transport import Transport

INTERRUPTED = 130
CLOSED = 141
"""The exit code of a program that SIGPIPE ended: its reader left before the work was done."""
READING = frozenset({"ps", "show", "logs", "explain", "nodes", "usage", "completion"})
"""Verbs that only print. A reader that closes the pipe early (`| head`) is no failure."""


def run(*, prog: str = "berth") -> int:
    code = 0
    try:
        streams_prepare()
        try:
            code = main(sys.argv[1:], prog=prog)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # all was done by then
        silence(sys.stdout)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Unwritable as error:
        complain(str(error))
        code = error.exit_code
    except OSError as error:
        silence(sys.stdout)
        what = f"{error.filename}: " if error.filename else "what this prints cannot be written: "
        complain(f"{what}{error.strerror}")
        code = Unwritable.exit_code
    return code


def main(arguments: Sequence[str], *, prog: str = "berth", transport: Transport | None = None) -> int:
    """Do what `arguments` say. `transport`: how requests are sent, where not by urllib."""
    from berth_client.cli.parser import parser_make

    parser = parser_make(prog)
    if "_ARGCOMPLETE" in os.environ:
        from berth_client.cli.completion import complete

        complete(parser)
    own, command = split(arguments)
    asked, unknown = parser.parse_known_args(own)
    if hasattr(asked, "arguments") and not any(word.startswith("-") for word in unknown):
        asked.arguments += unknown  # argparse takes words behind an option for none of a script's
    elif unknown:
        parser.error(f"{asked.verb} knows no {' '.join(unknown)}; `{prog} {asked.verb} -h` lists what it knows")
    if command is not None and not hasattr(asked, "command"):
        parser.error(f"{asked.verb} takes no command after --")
    if command:
        asked.command = command
    try:
        return _acted(asked, transport)
    except ClientError as error:
        try:
            sys.stdout.flush()
        finally:
            complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        silence(sys.stdout)
        return 0 if asked.verb in READING or getattr(asked, "act_on", "") == "ls" else CLOSED


def _acted(asked: Any, transport: Transport | None) -> int:
    if not asked.asks_portal:
        return int(asked.act(asked))
    from berth_client.portal import Berth

    return int(asked.act(asked, Berth.from_environment(portal=asked.portal, transport=transport)))


def split(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Split the words at the first `--`; None: there is no `--`. A command may hold another `--`."""
    if "--" not in arguments:
        return list(arguments), None
    place = list(arguments).index("--")
    return list(arguments[:place]), list(arguments[place + 1 :])
