"""`python -m research.screenshots OUT`: the program behind `./berth screenshots`."""

from __future__ import annotations

import argparse
import html
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import django

from portal.foundation.errors import LaunchError
from research.screenshots.camera import Taken, browser_find, guide_take, pictures_take
from research.screenshots.pages import pages_all
from research.screenshots.seeded import seeded

if TYPE_CHECKING:
    from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _parser(names: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./berth screenshots",
        allow_abbrev=False,
        description="Take every page of a demo of its own in light, dark and at phone width. Exit code 1: a page erred, "
        "asked another host, or scrolls sideways.",
    )
    parser.add_argument(
        "out", type=Path, metavar="OUT", help="a folder for the pictures and index.html; made when missing"
    )
    parser.add_argument("--only", metavar="NAME", action="append", choices=names, help="these pages alone")
    parser.add_argument(
        "--guide", action="store_true", help="the pictures of docs/first-job.md alone; OUT is docs/images"
    )
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - progress of a command


def sheet_write(out: Path, taken: Taken) -> Path:
    """Write one page with all pictures and what was found, to be looked through."""
    faults = "".join(f"<li><b>{html.escape(where)}</b>: {html.escape(fault)}</li>" for where, fault in taken.faults)
    pictures = "".join(
        f'<figure><a href="{path.name}"><img src="{path.name}" loading="lazy" width="420" alt=""></a>'
        f"<figcaption>{path.stem}</figcaption></figure>"
        for path in sorted(taken.files)
    )
    style = "body{font:14px sans-serif}main{display:flex;flex-wrap:wrap;gap:16px;align-items:start}figure{margin:0}"
    index = out / "index.html"
    index.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Berth, every page</title><style>{style}</style>'
        f"<h1>{len(taken.files)} pictures</h1><ul>{faults or '<li>nothing wrong was noticed</li>'}</ul>"
        f"<main>{pictures}</main></html>",
        encoding="utf-8",
    )
    return index


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    for each in STOPPING:  # a second one is not to cut short the end of the demo
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main(argv: list[str]) -> int:
    """Take the pictures. Whatever ends this, a signal included, ends the demo that it started."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "research.settings")
    django.setup()
    known = tuple(page for page in pages_all() if "{engine_number}" not in page.path)  # the demo has none
    arguments = _parser([page.name for page in known]).parse_args(argv)
    for number in STOPPING:
        signal.signal(number, _stop)
    pages = tuple(page for page in known if not arguments.only or page.name in arguments.only)
    try:
        browser_find()
        arguments.out.mkdir(parents=True, exist_ok=True)
        with seeded(_say) as berth:
            if arguments.guide:
                _say(f"{len(guide_take(berth, arguments.out))} pictures")
                return 0
            taken = pictures_take(berth, arguments.out, _say, pages)
    except (LaunchError, OSError) as error:
        _say(f"berth: {error}")
        return 1
    for where, words, height_px, kb in sorted(taken.measures):
        _say(f"{where:44}{words:6} words {height_px:6} px {kb:6} kB")
    for where, fault in taken.faults:
        _say(f"  {where}: {fault}")
    print(f"{len(taken.files)} pictures, {len(taken.faults)} faults: {sheet_write(arguments.out, taken)}")  # noqa: T201
    return 1 if taken.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
