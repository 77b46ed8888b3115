"""The table of words (docs/words.md) for pages: a word's meaning, and the address of its row."""

from __future__ import annotations

import functools

from django.urls import reverse

from portal.pages.dashboard.help.guides import GUIDES
from portal.pages.dashboard.help.rendering import guide_render


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
