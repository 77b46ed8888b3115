"""`berth members`: list a tenant's members; its managers change roles, remove and invite."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from berth_client.cli.options import act_add, count, live_add, output_add
from berth_client.cli.output import Columns, one_told, rows_told, when
from berth_client.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth

MOST = 100
"""Invitations of one tenant that can be open at one time."""
ROLES = ("viewer", "member", "manager")
MEMBERS = Columns(
    short=(("user", lambda row: row["username"]), ("role", lambda row: row["role"])),
    wide=(),
    name=lambda row: str(row["username"]),
)
INVITATIONS = Columns(
    short=(
        ("number", lambda row: row["number"]),
        ("role", lambda row: row["role"]),
        ("by", lambda row: row["made_by"]),
        ("works until", lambda row: when(row["expires_at"])),
    ),
    wide=(),
    name=lambda row: str(row["number"]),
)
ABOUT = """\
A tenant's members, for example
    berth members ls                            list them
    berth members role viktor viewer            make one a viewer
    berth members remove viktor                 tokens for the tenant and browser sessions end at once
    berth members invite --role member --days 7 print a link that works once
    berth members invitations                   list the open ones
    berth members withdraw 12                   its link works no more
All but the first are for the tenant's managers, and need a token with the scope members:write."""


def members_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT
    act_add(parser, ACTS)
    parser.add_argument("who", metavar="USER|NUMBER", nargs="?", help="the member; of withdraw the invitation's number")
    parser.add_argument("new_role", metavar="ROLE", nargs="?", choices=ROLES, help=f"of role: {', '.join(ROLES)}")
    live_add(parser, "tenants", "--tenant", metavar="T", help="of this tenant; needed where you have several")
    parser.add_argument("--role", choices=ROLES, default="member", help="of invite: the new member's role (member)")
    parser.add_argument("--days", type=count, metavar="N", help="of invite: days that the link works: 1, 7 or 30 (7)")
    output_add(parser)


def tenant_asked(asked: Any, berth: Berth) -> str:
    """Return the tenant that was named, or the only one that there is."""
    if asked.tenant:
        return str(asked.tenant)
    own = [each["name"] for each in berth.me()["tenants"]]
    if len(own) != 1:
        raise ClientError(f"Name the tenant. Yours: {', '.join(own) or 'none'}.")
    return own[0]


def members(asked: Any, berth: Berth) -> int:
    needed = {"role": 2, "remove": 1, "withdraw": 1}.get(asked.act_on, 0)
    if sum(each is not None for each in (asked.who, asked.new_role)) != needed:
        words = {0: "takes no name", 1: "takes one name or number", 2: "takes a user and a role"}[needed]
        raise ClientError(f"berth members {asked.act_on} {words}.")
    ACTS[asked.act_on](asked, berth, tenant_asked(asked, berth))
    return 0


def _list(asked: Any, berth: Berth, tenant: str) -> None:
    sys.stdout.write(rows_told(asked, list(berth.each(berth.members_list, tenant)), MEMBERS, empty="no member yet"))


def _role(asked: Any, berth: Berth, tenant: str) -> None:
    found = berth.members_change(tenant, asked.who, role=asked.new_role)
    _done(asked, found, MEMBERS, f"{found['username']} is a {found['role']} of {tenant} now")


def _remove(asked: Any, berth: Berth, tenant: str) -> None:
    berth.members_remove(tenant, asked.who)
    print(f"{asked.who} is removed from {tenant}: tokens and sessions have ended")


def _invite(asked: Any, berth: Berth, tenant: str) -> None:
    found = berth.invitations_make(tenant, role=asked.role, days=asked.days)
    _done(asked, found, INVITATIONS, found["url"])
    if asked.output in {"table", "wide"} and not asked.parsable:
        until = when(found["expires_at"])
        print(
            f"it makes one person a {found['role']} of {tenant}, until {until}; it is not shown again", file=sys.stderr
        )


def _invitations(asked: Any, berth: Berth, tenant: str) -> None:
    rows = berth.invitations_list(tenant, page_size=MOST)["results"]
    sys.stdout.write(rows_told(asked, rows, INVITATIONS, empty="no invitation is open"))


def _withdraw(asked: Any, berth: Berth, tenant: str) -> None:
    berth.invitations_withdraw(tenant, asked.who)
    print(f"invitation {asked.who} is withdrawn")


def _done(asked: Any, row: Any, columns: Columns, words: str) -> None:
    """Say what was done in a sentence, or the thing itself in the form that was asked for."""
    plain = one_told(asked, row, [row], columns)
    sys.stdout.write(f"{words}\n" if plain is None else plain)


ACTS = {
    "ls": _list,
    "role": _role,
    "remove": _remove,
    "invite": _invite,
    "invitations": _invitations,
    "withdraw": _withdraw,
}
