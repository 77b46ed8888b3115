"""`berth members` and `berth usage`: a tenant's members, quota and use; its managers change roles, remove and invite."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from berth_client.cli.options import act_add, count, live_add, output_add
from berth_client.cli.output import Columns, facts, format_one, format_rows, format_value, print_again, when
from berth_client.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth
    from berth_client.shapes import Me, MyTenant, Use

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
ABOUT_MEMBERS = """\
A tenant's members, for example
    berth members ls                            list them
    berth members role viktor viewer            make one a viewer
    berth members remove viktor                 tokens for the tenant and browser sessions end at once
    berth members invite --role member --days 7 print a link that works once
    berth members invitations                   list the open ones
    berth members withdraw 12                   its link works no more
All but the first are for the tenant's managers, and need a token with the scope members:write."""


def members_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT_MEMBERS
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
    sys.stdout.write(format_rows(asked, list(berth.each(berth.members_list, tenant)), MEMBERS, empty="no member yet"))


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
    sys.stdout.write(format_rows(asked, rows, INVITATIONS, empty="no invitation is open"))


def _withdraw(asked: Any, berth: Berth, tenant: str) -> None:
    berth.invitations_withdraw(tenant, asked.who)
    print(f"invitation {asked.who} is withdrawn")


def _done(asked: Any, row: Any, columns: Columns, words: str) -> None:
    """Say what was done in a sentence, or the thing itself in the form that was asked for."""
    plain = format_one(asked, row, [row], columns)
    sys.stdout.write(f"{words}\n" if plain is None else plain)


ACTS = {
    "ls": _list,
    "role": _role,
    "remove": _remove,
    "invite": _invite,
    "invitations": _invitations,
    "withdraw": _withdraw,
}
ABOUT_USAGE = """\
Without a tenant: my account, this token's scopes, and present quota and use of my tenants. With one: which members used
how many GPU hours in the last 30 days, and how many of them were idle. For example
    berth usage
    berth usage vision-lab --since 2026-10-01T00:00:00Z --until 2026-11-01T00:00:00Z
    berth usage vision-lab -o csv > october.csv"""


def _format_use(use: Use) -> str:
    used = f"{use['used']:g}"  # of a GPU that jobs share, a part
    return used if use["quota"] is None else f"{used} of {use['quota']}"


TENANTS = Columns(
    short=(
        ("tenant", lambda tenant: tenant["name"]),
        ("role", lambda tenant: tenant["role"]),
        ("GPUs", lambda tenant: _format_use(tenant["gpus"])),
        ("cores", lambda tenant: _format_use(tenant["cores"])),
        ("waiting jobs", lambda tenant: _format_use(tenant["queued_jobs"])),
    ),
    wide=(
        ("weight", lambda tenant: tenant["weight"]),
        ("open", lambda tenant: "yes" if tenant["is_active"] else "no"),
    ),
    name=lambda tenant: str(tenant["name"]),
)


PEOPLE = Columns(
    short=(
        ("user", lambda row: row["user"] or "all"),
        ("jobs", lambda row: row["category"] or ("" if row["user"] is None else "not said")),
        ("attempts", lambda row: row["attempts"]),
        ("GPU h", lambda row: row["gpu_hours"]),
        ("of them idle", lambda row: row["idle_gpu_hours"]),
        ("not measured", lambda row: row["unmeasured_gpu_hours"]),
        ("core h", lambda row: row["core_hours"]),
    ),
    wide=(),
    name=lambda row: str(row["user"]),
)


def usage_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT_USAGE
    live_add(parser, "tenants", "tenant", metavar="TENANT", nargs="?", help="its members' use")
    parser.add_argument("--since", metavar="TIME", help="from then on, for example 2026-10-01T00:00:00Z (30 days ago)")
    parser.add_argument("--until", metavar="TIME", help="until then (now)")
    output_add(parser, watch=True, more=("csv",))


def usage(asked: Any, berth: Berth) -> int:
    act = _format_people if asked.tenant or asked.since or asked.until or asked.output == "csv" else _format_mine
    return print_again(asked, lambda: act(asked, berth))


def _format_people(asked: Any, berth: Berth) -> str:
    form = "csv" if asked.output == "csv" else None
    found = berth.usage_show(tenant_asked(asked, berth), since=asked.since, until=asked.until, format=form)
    if isinstance(found, str):
        if asked.parsable:
            raise ClientError("Choose --parsable or -o csv.")
        return found
    if (plain := format_one(asked, found, found["rows"], PEOPLE)) is not None:
        return plain
    stretch = facts([("tenant", found["tenant"]), ("from", when(found["since"])), ("until", when(found["until"]))])
    rows = [*found["rows"], found["total"]] if found["rows"] else []
    return f"{stretch}\n{format_rows(asked, rows, PEOPLE, empty='nothing was used in that time')}"


def _format_mine(asked: Any, berth: Berth) -> str:
    me = berth.me()
    if asked.output in {"json", "yaml"}:
        return format_value(asked, me)
    rows: list[MyTenant] = me["tenants"]
    text = format_rows(asked, rows, TENANTS, empty="no tenant yet; an operator adds you to one")
    if asked.parsable or asked.output == "name":
        return text
    return f"{_format_me(me)}\n{text}"


def _format_me(me: Me) -> str:
    rows = [("user", me["username"] + (", operator" if me["is_operator"] else ""))]
    if token := me["token"]:
        rows += [
            ("token", token["name"]),
            ("may", ", ".join(token["scopes"])),
            ("only for", token["tenant"] or ""),
            ("until", when(token["expires_at"]) or ""),
        ]
    return facts(rows)
