"""`berth usage`: the user, quota and use of the user's tenants; for one tenant, GPU hours by member."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth_client.cli.members import tenant_asked
from berth_client.cli.options import live_add, output_add
from berth_client.cli.output import Columns, facts, one_told, repeated, rows_told, value_text, when
from berth_client.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth
    from berth_client.shapes import Me, MyTenant, Use

ABOUT = """\
Without a tenant: my account, this token's scopes, and present quota and use of my tenants. With one: which members used
how many GPU hours in the last 30 days, and how many of them were idle. For example
    berth usage
    berth usage vision-lab --since 2026-10-01T00:00:00Z --until 2026-11-01T00:00:00Z
    berth usage vision-lab -o csv > october.csv"""


def _used(use: Use) -> str:
    used = f"{use['used']:g}"  # of a GPU that jobs share, a part
    return used if use["quota"] is None else f"{used} of {use['quota']}"


TENANTS = Columns(
    short=(
        ("tenant", lambda tenant: tenant["name"]),
        ("role", lambda tenant: tenant["role"]),
        ("GPUs", lambda tenant: _used(tenant["gpus"])),
        ("cores", lambda tenant: _used(tenant["cores"])),
        ("waiting jobs", lambda tenant: _used(tenant["queued_jobs"])),
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
    parser.description = ABOUT
    live_add(parser, "tenants", "tenant", metavar="TENANT", nargs="?", help="its members' use")
    parser.add_argument("--since", metavar="TIME", help="from then on, for example 2026-10-01T00:00:00Z (30 days ago)")
    parser.add_argument("--until", metavar="TIME", help="until then (now)")
    output_add(parser, watch=True, more=("csv",))


def usage(asked: Any, berth: Berth) -> int:
    act = _people_told if asked.tenant or asked.since or asked.until or asked.output == "csv" else _mine_told
    return repeated(asked, lambda: act(asked, berth))


def _people_told(asked: Any, berth: Berth) -> str:
    told_as = "csv" if asked.output == "csv" else None
    name = tenant_asked(asked, berth)
    found = berth.usage_show(name, since=asked.since, until=asked.until, format=told_as)
    if isinstance(found, str):
        if asked.parsable:
            raise ClientError("Choose --parsable or -o csv.")
        return found
    if (plain := one_told(asked, found, found["rows"], PEOPLE)) is not None:
        return plain
    stretch = facts([("tenant", found["tenant"]), ("from", when(found["since"])), ("until", when(found["until"]))])
    rows = [*found["rows"], found["total"]] if found["rows"] else []
    return f"{stretch}\n{rows_told(asked, rows, PEOPLE, empty='nothing was used in that time')}"


def _mine_told(asked: Any, berth: Berth) -> str:
    me = berth.me()
    if asked.output in {"json", "yaml"}:
        return value_text(asked, me)
    rows: list[MyTenant] = me["tenants"]
    text = rows_told(asked, rows, TENANTS, empty="no tenant yet; an operator adds you to one")
    if asked.parsable or asked.output == "name":
        return text
    return f"{_me_told(me)}\n{text}"


def _me_told(me: Me) -> str:
    told = [("user", me["username"] + (", operator" if me["is_operator"] else ""))]
    if token := me["token"]:
        told += [
            ("token", token["name"]),
            ("may", ", ".join(token["scopes"])),
            ("only for", token["tenant"] or ""),
            ("until", when(token["expires_at"]) or ""),
        ]
    return facts(told)
