"""`berth secrets`: list the names of a tenant's secrets, set one from standard input or a prompt, remove one."""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING, Any

from berth_client.cli.options import act_add, live_add, most_add, output_add
from berth_client.cli.output import Columns, format_page, when
from berth_client.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth

COLUMNS = Columns(
    short=(
        ("secret", lambda row: row["name"]),
        ("tenant", lambda row: row["tenant"]),
        ("set", lambda row: when(row["changed_at"])),
        ("by", lambda row: row["changed_by"]),
    ),
    wide=(),
    name=lambda row: str(row["name"]),
)
ABOUT = """\
Secrets of a tenant, for example
    berth secrets ls                         list their names; no command shows a value
    berth secrets set hf-token               asks for the value, and does not show it
    berth secrets set deploy-key < id_ed25519
    berth secrets rm hf-token
    berth submit --secret HF_TOKEN=hf-token -- python train.py
A value never stands on a command line, where others could read it."""


def secrets_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT
    act_add(parser, ACTS)
    live_add(parser, "secrets", "name", metavar="NAME", nargs="?", help="the secret")
    live_add(parser, "tenants", "--tenant", metavar="T", help="of this tenant")
    most_add(parser)
    output_add(parser)


def secrets(asked: Any, berth: Berth) -> int:
    if (asked.name is None) != (asked.act_on == "ls"):
        takes = "takes no name" if asked.act_on == "ls" else "needs the secret's name"
        raise ClientError(f"berth secrets {asked.act_on} {takes}.")
    return ACTS[asked.act_on](asked, berth)


def _list(asked: Any, berth: Berth) -> int:
    empty = "no secret yet; `berth secrets set NAME` makes one"
    sys.stdout.write(format_page(asked, berth, berth.secrets_list, columns=COLUMNS, empty=empty, tenant=asked.tenant))
    return 0


def _set(asked: Any, berth: Berth) -> int:
    found = berth.secrets_set(name=asked.name, value=_value(asked.name), tenant=asked.tenant)
    print(f"secret {found['name']} of {found['tenant']} is set; jobs that start from now on get it")
    return 0


def _value(name: str) -> str:
    """Read a value typed without echo, or standard input without its last line end."""
    if sys.stdin.isatty():
        return getpass.getpass(f"Value of {name} (it is not shown): ")
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise ClientError("Standard input is no UTF-8 text; encode it first, for example with base64.") from None


def _remove(asked: Any, berth: Berth) -> int:
    berth.secrets_remove(asked.name, tenant=asked.tenant)
    print(f"secret {asked.name} is removed; jobs that name it fail when they start the next time")
    return 0


ACTS = {"ls": _list, "set": _set, "rm": _remove}
