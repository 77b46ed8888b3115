"""Search in the guides: sections in which every word of the question stands, those with it in their heading first."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString

from portal.pages.dashboard.help.guides import GUIDES
from portal.pages.dashboard.help.rendering import guide_render

LONGEST_QUESTION, MOST_WORDS, MOST_FOUND = 100, 8, 30
AROUND = 110
WORTH = {"words": 8, "concepts": 4, "users-guide": 4, "evidence": -12, "changes": -8}
"""Where people look for an answer first, and where rows of figures are."""


@dataclass(frozen=True)
class Found:
    guide: str
    heading: str
    url: str
    excerpt: SafeString
    score: int


def help_search(question: str) -> list[Found]:
    """Return at most `MOST_FOUND` sections, best first. A question is cut to 100 characters and eight words."""
    words = list(dict.fromkeys(question[:LONGEST_QUESTION].lower().split()))[:MOST_WORDS]
    if not words:
        return []
    found: list[tuple[int, int, int, Found]] = []
    for place, guide in enumerate(GUIDES.values()):
        for section in guide_render(guide).sections:
            heading, text = section.heading.text.lower(), section.text.lower()
            if not all(word in heading or word in text for word in words):
                continue
            score = sum(8 * (word in heading) + min(text.count(word), 4) for word in words)
            score += 16 * (heading == " ".join(words)) + WORTH.get(guide.name, 0)
            url = reverse("help-guide", args=[guide.name]) + f"#{section.heading.slug}"
            shown = Found(guide.title, section.heading.text, url, excerpt(section.text, words), score)
            found.append((-score, place, len(found), shown))
    return [shown for *_, shown in sorted(found, key=lambda each: each[:3])[:MOST_FOUND]]


def excerpt(text: str, words: list[str]) -> SafeString:
    """Return the text around the first of the words, with all of them marked."""
    text = " ".join(text.split())
    places = [place for word in words if (place := text.lower().find(word)) >= 0]
    begin = max(0, min(places, default=0) - AROUND // 2)
    begin = text.rfind(" ", 0, begin) + 1 if begin else 0
    end = min(len(text), begin + 2 * AROUND)
    end = text.rfind(" ", begin, end) if end < len(text) and " " in text[begin:end] else end
    marked = re.split("(" + "|".join(re.escape(word) for word in words) + ")", text[begin:end], flags=re.IGNORECASE)
    parts = [f"<mark>{escape(part)}</mark>" if at % 2 else escape(part) for at, part in enumerate(marked)]
    return SafeString(("… " if begin else "") + "".join(parts) + (" …" if end < len(text) else ""))
