"""Search in the guides: sections with any word of the question. Rare words and words in headings count for more."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString

from portal.pages.dashboard.help.guides import groups_for
from portal.pages.dashboard.help.rendering import guide_render

LONGEST_QUESTION, MOST_WORDS, MOST_FOUND = 100, 8, 30
AROUND = 110
IN_HEADING, IN_TEXT = 12, 16
SHORT_TEXT = 1500  # in a text that has this number of characters a word counts half as much as in one of a line
WHOLE_WORD_MAX_CHARS = 3
WORTH = {"words": 8, "concepts": 4, "users-guide": 4, "evidence": -12, "changes": -12}
"""Where people look for an answer first, and where rows of figures are."""


@dataclass(frozen=True)
class Found:
    guide: str
    heading: str
    url: str
    excerpt: SafeString


def help_search(question: str, *, operator: bool = False) -> list[Found]:
    """Return at most `MOST_FOUND` sections, best first. A question is cut to 100 characters and eight words."""
    words = list(dict.fromkeys(question[:LONGEST_QUESTION].lower().split()))[:MOST_WORDS]
    guides = [guide for group in groups_for(operator=operator).values() for guide in group]
    sections = [(guide, section) for guide in guides for section in guide_render(guide).sections]
    matches = {word: re.compile(pattern_of(word), re.IGNORECASE) for word in words}
    counts = [
        {
            word: (len(match.findall(section.heading.text)), len(match.findall(section.text)))
            for word, match in matches.items()
        }
        for _, section in sections
    ]
    weights = rarities(words, counts)
    found: list[tuple[float, int, Found]] = []
    for place, ((guide, section), counted) in enumerate(zip(sections, counts, strict=True)):
        if not any(map(any, counted.values())):
            continue
        length = SHORT_TEXT / (SHORT_TEXT + len(section.text))
        score = sum(
            weights[word] * (IN_HEADING * bool(heading) + length * (IN_TEXT * bool(text) + min(text, 4)))
            for word, (heading, text) in counted.items()
        )
        score += 16 * (section.heading.text.lower() == " ".join(words)) + WORTH.get(guide.name, 0)
        url = reverse("help-guide", args=[guide.name]) + f"#{section.heading.slug}"
        best = sorted(words, key=lambda word: -weights[word])
        found.append((-score, place, Found(guide.title, section.heading.text, url, excerpt(section.text, best))))
    return [shown for *_, shown in sorted(found, key=lambda each: each[:2])[:MOST_FOUND]]


def pattern_of(word: str) -> str:
    """Return a pattern for words that begin with this one; for a short one the whole word."""
    return r"(?<!\w)" + re.escape(word) + (r"(?!\w)" if len(word) <= WHOLE_WORD_MAX_CHARS else "")


def rarities(words: list[str], counts: list[dict[str, tuple[int, int]]]) -> dict[str, float]:
    """Return each word's weight: 1 for the rarest word of the question that stands anywhere, near 0 for a common one."""
    stands = {word: sum(any(counted[word]) for counted in counts) for word in words}
    rare = {word: math.log((1 + len(counts)) / (1 + count)) for word, count in stands.items() if count}
    most = max(rare.values(), default=0) or 1
    return {word: rare.get(word, 0) / most for word in words}


def excerpt(text: str, words: list[str]) -> SafeString:
    """Return the text around the first of the words that stands in it, with all of them marked."""
    text = " ".join(text.split())
    patterns = [pattern_of(word) for word in words]
    place = next((match.start() for each in patterns if (match := re.search(each, text, re.IGNORECASE))), 0)
    begin = max(0, place - AROUND // 2)
    begin = text.rfind(" ", 0, begin) + 1 if begin else 0
    end = min(len(text), begin + 2 * AROUND)
    end = text.rfind(" ", begin, end) if end < len(text) and " " in text[begin:end] else end
    marked = re.split("(" + "|".join(patterns) + ")", text[begin:end], flags=re.IGNORECASE)
    parts = [f"<mark>{escape(part)}</mark>" if at % 2 else escape(part) for at, part in enumerate(marked)]
    return SafeString(("… " if begin else "") + "".join(parts) + (" …" if end < len(text) else ""))
