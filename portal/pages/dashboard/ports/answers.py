"""Answers of these origins themselves: short pages without a script, which show nothing of the portal but an address."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

HEADERS = [
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">{more}
<title>{title}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:15vh auto;padding:0 20px;color-scheme:light dark}}</style>
</head>
<body><p>{words}</p>{link}</body></html>
"""


async def page(
    send: Any,
    status: int,
    words: str,
    *,
    link: tuple[str, str] | None = None,
    again_s: int | None = None,
    to: str = "",
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> None:
    """Send a page. `link`: an address with its words. `again_s`: seconds after which it loads again, or `to`."""
    onward = f"; url={escape(to)}" if to else ""
    more = f'<meta http-equiv="refresh" content="{again_s}{onward}">' if again_s is not None else ""
    anchor = f'<p><a href="{escape(link[0])}">{escape(link[1])}</a></p>' if link else ""
    body = _PAGE.format(more=more, title=escape(words.partition(".")[0]), words=escape(words), link=anchor).encode()
    length = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*HEADERS, *length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def plain(scope: dict[str, Any], send: Any, status: int, words: str) -> None:
    """Refuse in plain text, a WebSocket before it is one."""
    kind = "http.response" if scope["type"] == "http" else "websocket.http.response"
    body = f"{words}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    await send({"type": f"{kind}.start", "status": status, "headers": headers})
    await send({"type": f"{kind}.body", "body": body})
