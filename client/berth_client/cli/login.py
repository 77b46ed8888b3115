"""`berth login`: ask for a token once, check it, and save it readable only by its owner."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from berth_client.errors import ClientError
from berth_client.settings import DEFAULT, Chosen, login_write

if TYPE_CHECKING:
    import argparse

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
ABOUT = """\
Write down a portal's address and a token for it, in a file that only you may read. The token is made on the portal
under your name (/account/tokens/). It is asked for; where standard input is no terminal, it is read from there."""


def login_options(parser: argparse.ArgumentParser) -> None:
    parser.description = ABOUT
    parser.add_argument("url", metavar="URL", help="the portal's address, for example https://berth.example.org")
    parser.add_argument(
        "--name", default=DEFAULT, help=f"what to call this login (default: {DEFAULT}); --portal chooses it"
    )
    parser.add_argument("--ca", metavar="FILE", help="certificate authorities of the portal, if they are its own")


def login(asked: Any) -> int:
    from pathlib import Path

    from berth_client import Berth
    from berth_client.rest import address_check

    url = asked.url.rstrip("/")
    address_check(url)
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in LOOPBACK:
        print("berth: http:// sends your token unencrypted; anyone on the way can read it", file=sys.stderr)
    ca_file = str(Path(asked.ca).resolve()) if asked.ca else None
    token = _token(url)
    me = Berth(url, token, ca_file=ca_file).me()
    path = login_write(asked.name, Chosen(url, token, ca_file))
    tenants = ", ".join(each["name"] for each in me["tenants"]) or "no tenant yet"
    print(f"{me['username']} ({tenants}) on {url}; written to {path}")
    return 0


def _token(url: str) -> str:
    if sys.stdin.isatty():
        from getpass import getpass

        found = getpass(f"Token, made at {url}/account/tokens/: ").strip()
    else:
        found = sys.stdin.readline().strip()
    if not found or not found.isascii() or not found.isprintable():
        raise ClientError("No token was given." if not found else "A token holds no such characters.")
    return found
