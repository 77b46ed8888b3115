"""`berth templates`: list job templates, show one, import and export them as YAML, delete one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from berth_client.cli.files import files_read, named, text_read
from berth_client.cli.options import act_add, live_add, most_add, output_add
from berth_client.cli.output import Columns, facts, format_one, format_page, table, when
from berth_client.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from berth_client import Berth
    from berth_client.shapes import TemplateDetail

COLUMNS = Columns(
    short=(
        ("template", lambda row: row["name"]),
        ("of", lambda row: row["tenant"] or "operators"),
        ("version", lambda row: row["version"]),
        ("title", lambda row: row["title"]),
    ),
    wide=(("changed", lambda row: when(row["changed_at"])), ("about", lambda row: row["about"])),
    name=lambda row: str(row["name"]),
)
ABOUT = """\
Job templates, for example
    berth templates ls                              list them
    berth templates show train                      its parameters, with defaults and limits
    berth submit --template train --set lr=0.1      a job from it
    berth templates export train > train.yaml
    berth templates import train.yaml --file train.py
An import under a name that there is makes its next version."""


def templates_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT
    act_add(parser, ACTS)
    words = "the template; of import the file"
    live_add(parser, "templates", "name", metavar="NAME|FILE", nargs="?", help=words)
    live_add(parser, "tenants", "--tenant", metavar="T", help="of, or for, this tenant")
    parser.add_argument("--operators", action="store_true", help="the operators', which all tenants see")
    parser.add_argument("--version", type=int, metavar="N", help="show or export this version; else the last one")
    parser.add_argument(
        "--file", action="append", metavar="PATH[:NAME]", help="of import: a file that comes along with its jobs"
    )
    parser.add_argument("--folder", metavar="DIR", help="of import: all files below it come along")
    most_add(parser)
    output_add(parser)


def templates(asked: Any, berth: Berth) -> int:
    if asked.act_on != "ls" and asked.name is None:
        raise ClientError(
            f"berth templates {asked.act_on}: name the {'file' if asked.act_on == 'import' else 'template'}."
        )
    if asked.act_on == "ls" and asked.name is not None:
        raise ClientError(f"berth templates ls takes no name; `berth templates show {asked.name}` shows one.")
    return ACTS[asked.act_on](asked, berth)


def _list(asked: Any, berth: Berth) -> int:
    empty = "no template yet; `berth templates import FILE` makes one"
    sys.stdout.write(format_page(asked, berth, berth.templates_list, columns=COLUMNS, empty=empty, tenant=asked.tenant))
    return 0


def _get(asked: Any, berth: Berth) -> TemplateDetail:
    return berth.templates_show(asked.name, version=asked.version, tenant=asked.tenant, operators=asked.operators)


def _show(asked: Any, berth: Berth) -> int:
    sys.stdout.write(_format(asked, _get(asked, berth)))
    return 0


def _format(asked: Any, found: TemplateDetail) -> str:
    if (plain := format_one(asked, found, [found], COLUMNS)) is not None:
        return plain
    text = facts(
        [
            ("template", found["name"]),
            ("of", found["tenant"] or "operators"),
            ("version", f"{found['shown_version']}, by {found['made_by']}, {when(found['made_at'])}"),
            ("title", found["title"]),
            ("about", found["about"]),
        ]
    )
    rows = [
        (each["name"], each["type"], _default(each), _limits(each), each.get("help") or each.get("label"))
        for each in found["parameters"]
    ]
    return f"{text}\n" + (table(("parameter", "type", "default", "limits", "help"), rows) + "\n" if rows else "")


def _default(parameter: dict[str, Any]) -> str:
    value = parameter.get("default")
    if "default" not in parameter:
        return "(needed)"
    return ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


def _limits(parameter: dict[str, Any]) -> str:
    if "choices" in parameter:
        return ", ".join(map(str, parameter["choices"]))
    least, most = parameter.get("least"), parameter.get("most")
    return " ".join(f"{word} {value:g}" for word, value in (("from", least), ("to", most)) if value is not None)


def _import(asked: Any, berth: Berth) -> int:
    text = text_read(asked.name)
    files = files_read(asked) if asked.file or asked.folder else None
    with named(asked.name):
        found = berth.templates_save(text=text, files=files, tenant=asked.tenant, operators=asked.operators)
    if asked.output == "table" and not asked.parsable:
        print(f"template {found['name']}: version {found['version']}")
    else:
        sys.stdout.write(_format(asked, found))
    return 0


def _export(asked: Any, berth: Berth) -> int:
    sys.stdout.write(_get(asked, berth)["text"])
    return 0


def _delete(asked: Any, berth: Berth) -> int:
    berth.templates_delete(asked.name, tenant=asked.tenant, operators=asked.operators)
    print(f"template {asked.name} is deleted")
    return 0


ACTS = {"ls": _list, "show": _show, "import": _import, "export": _export, "delete": _delete}
