"""The command `berth`: verbs that ask a portal over REST. docs/command-line.md describes them and their exit codes."""

from __future__ import annotations

import argparse
import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from berth_client import Berth, __version__
from berth_client.cli.verbs import VERBS
from berth_client.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from berth_client.transport import Transport

INTERRUPTED = 130
CLOSED = 141
"""The exit code of a program that SIGPIPE ended: its reader left before the work was done."""
DESCRIPTION = """\
Asks a Berth over REST. Which one: BERTH_URL and BERTH_TOKEN, else what `login` wrote down.
Exit codes: 0 done; 2 the portal says no, or the command is wrong; 1 the portal does not answer, or the
awaited job did not end well; with --wait and --follow the job's own."""


class Unwritable(ClientError):
    """A verb's output could not be written."""

    exit_code = 1


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
        what = f"{error.filename}: " if error.filename else "the output cannot be written: "
        complain(f"{what}{error.strerror}")
        code = Unwritable.exit_code
    return code


def main(arguments: Sequence[str], *, prog: str = "berth", transport: Transport | None = None) -> int:
    """Do what `arguments` say. `transport`: how requests are sent, where not by urllib."""
    own, command = split(arguments)
    is_completed = "_ARGCOMPLETE" in os.environ
    parser = parser_make(prog, None if is_completed else own[0] if own else "")
    if is_completed:
        from berth_client.cli.completion import complete

        complete(parser)
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
        if not VERBS[asked.verb].asks_portal:
            return int(asked.act(asked))
        return int(asked.act(asked, Berth.from_environment(portal=asked.portal, transport=transport)))
    except ClientError as error:
        try:
            sys.stdout.flush()
        finally:
            complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        silence(sys.stdout)
        return 0 if VERBS[asked.verb].reads or getattr(asked, "act_on", "") == "ls" else CLOSED


def parser_make(prog: str = "berth", only: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of all verbs. Those that are not `only` get no arguments, and their modules are not loaded."""
    parser = argparse.ArgumentParser(
        prog=prog, description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(required=True, metavar="VERB", dest="verb")
    for verb in VERBS.values():
        own = verbs.add_parser(
            verb.name,
            help=verb.help,
            description=f"{verb.help[0].upper()}{verb.help[1:]}.",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if only in {None, verb.name}:
            room, _, act = verb.act.partition(":")
            module = import_module(f"berth_client.cli.{room}")
            own.set_defaults(act=getattr(module, act))
            if verb.asks_portal:
                own.add_argument("--portal", metavar="NAME", help="ask the portal of this login (`login --name`)")
            getattr(module, f"{act}_options")(own)
    return parser


def split(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Split the words at the first `--`; None: there is no `--`. A command may hold another `--`."""
    if "--" not in arguments:
        return list(arguments), None
    place = list(arguments).index("--")
    return list(arguments[:place]), list(arguments[place + 1 :])


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
    from berth_client.cli.output import printable

    try:
        sys.stderr.write("".join(f"{printable(line)}\n" for line in f"berth: {text}".splitlines()))
        sys.stderr.flush()
    except OSError:
        silence(sys.stderr)
