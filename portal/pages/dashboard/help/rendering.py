"""A guide's Markdown as HTML, with a place to link to at each heading and at each row of the table of words.

The text is ours, yet no HTML in it is let through. A link to another guide leads to that guide's page; a link to a file
that the portal does not show stays plain text.
"""

from __future__ import annotations

import functools
import itertools
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils.safestring import SafeString
from markdown_it import MarkdownIt

from portal.pages.dashboard.help.guides import GUIDES, NAMES_BY_FILE, guide_find

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

    from portal.pages.dashboard.help.guides import Guide

NOT_IN_A_SLUG = re.compile(r"[^\w\- ]")


@dataclass(frozen=True)
class Heading:
    level: int
    text: str
    slug: str


@dataclass(frozen=True)
class Section:
    """A heading with the text up to the next one; a table's row of words is one too. For the search."""

    heading: Heading
    text: str


@dataclass(frozen=True)
class Rendered:
    html: SafeString
    headings: tuple[Heading, ...]
    sections: tuple[Section, ...]


def slug_of(text: str) -> str:
    """Return a heading's anchor, as code hosts make it: lower case, no punctuation, hyphens for spaces."""
    return NOT_IN_A_SLUG.sub("", text.strip().lower()).replace(" ", "-")


@functools.cache
def _markdown() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@functools.lru_cache(maxsize=128)
def guide_render(guide: Guide) -> Rendered:
    """Read and render a guide. Its file belongs to the program, so it is read once in a process's life."""
    markdown = _markdown()
    tokens = markdown.parse(guide.path.read_text(encoding="utf-8"))
    headings = _headings_mark(tokens)
    _tables_wrap(tokens)
    for token in tokens:
        if token.type == "inline":
            _links_lead(token.children or [], guide)
        elif token.type == "fence":
            token.info = ""
    html = markdown.renderer.render(tokens, markdown.options, {})
    html = html.replace("<table>", '<div class="b-table-wrap" tabindex="0"><table class="b-table">')
    html = html.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
    return Rendered(SafeString(html), tuple(headings), tuple(_sections(tokens, headings)))


def _headings_mark(tokens: Sequence[Token]) -> list[Heading]:
    """Give each heading its anchor, a number behind it where two are equal; return them in order."""
    found: list[Heading] = []
    seen: dict[str, int] = {}
    for opening, inline in itertools.pairwise(tokens):
        if opening.type != "heading_open":
            continue
        text = plain(inline)
        slug = slug_of(text)
        count = seen[slug] = seen.get(slug, -1) + 1
        slug = f"{slug}-{count}" if count else slug
        opening.attrSet("id", slug)
        found.append(Heading(int(opening.tag[1]), text, slug))
    return found


def _tables_wrap(tokens: Sequence[Token]) -> None:
    """Give each row of a table an anchor after its first cell, so that a word can be linked to."""
    for row, cell, inline in zip(tokens, tokens[1:], tokens[2:], strict=False):
        if row.type == "tr_open" and cell.type == "td_open" and plain(inline):
            row.attrSet("id", f"word-{slug_of(plain(inline))[:60]}")


def plain(inline: Token) -> str:
    """Return an inline token's text without its marks."""
    return "".join(
        " " if child.type in ("softbreak", "hardbreak") else child.content for child in inline.children or []
    ).strip()


def _links_lead(children: list[Token], guide: Guide) -> None:
    dead = False
    for token in children:
        if token.type == "link_open":
            address = link_of(str(token.attrGet("href") or ""), guide)
            dead = address is None
            if address is None:
                token.tag, token.attrs = "span", {}
            else:
                token.attrs = {"href": address}
                if "://" in address:
                    token.attrs["rel"] = "noopener noreferrer"
        elif token.type == "link_close" and dead:
            token.tag, dead = "span", False
        elif token.type == "image":
            source = posixpath.basename(str(token.attrGet("src") or ""))
            token.attrSet("src", reverse("help-image", args=[source]))
            token.attrSet("loading", "lazy")


def link_of(address: str, guide: Guide) -> str | None:
    """Return where a guide's link leads in the portal, or None where the portal has no such page."""
    if address.startswith(("https://", "http://", "#")):
        return address
    path, _, fragment = address.partition("#")
    file = posixpath.normpath(posixpath.join(posixpath.dirname(guide.file), path))
    name = NAMES_BY_FILE.get(file)
    if name is None and guide_find(shown := file.removeprefix("docs/").removesuffix(".md")):
        name = shown
    if name is None:
        return None
    return reverse("help-guide", args=[name]) + (f"#{fragment}" if fragment else "")


def _sections(tokens: Sequence[Token], headings: Sequence[Heading]) -> list[Section]:
    """Cut the text at its headings; a row of a table stands for itself, under its first cell's words."""
    sections: list[Section] = []
    at = iter(headings)
    heading, texts = Heading(1, "", ""), [""]
    row: list[str] | None = None
    row_slug = ""
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            sections.append(Section(heading, " ".join(texts)))
            heading, texts = next(at), []
        elif token.type == "tr_open" and token.attrGet("id"):
            row, row_slug = [], str(token.attrGet("id"))
        elif token.type == "tr_close" and row is not None:
            sections.append(Section(Heading(heading.level + 1, row[0], row_slug), " | ".join(row[1:])))
            row = None
        elif token.type == "inline" and tokens[index - 1].type != "heading_open":
            (texts if row is None else row).append(plain(token))
        elif token.type in ("fence", "code_block"):
            texts.append(token.content)
    sections.append(Section(heading, " ".join(texts)))
    return [section for section in sections if section.heading.text]


@functools.cache
def words() -> dict[str, tuple[str, str]]:
    """Return {word in lower case: (its meaning, the row's address)}. A row of several words stands under each."""
    page = reverse("help-guide", args=["words"])
    found: dict[str, tuple[str, str]] = {}
    for section in guide_render(GUIDES["words"]).sections:
        if not section.heading.slug.startswith("word-"):
            continue
        meaning = section.text.split(" | ")[0]
        for word in section.heading.text.split(", "):
            found.setdefault(word.lower(), (meaning, f"{page}#{section.heading.slug}"))
    return found
