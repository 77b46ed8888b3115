"""The visible words of a page, and those that never stand before a tenant (pictures of the pages, "Words")."""

from __future__ import annotations

import re
from html.parser import HTMLParser

from scheduler.model import Reason

CODES = "|".join(re.escape(str(reason)) for reason in Reason if "-" in reason)
BANNED = re.compile(
    rf"\b(?:{CODES}|RAQLR|LRs?|latency ratios?|windows?|backfill|re-?plans?|plannings?|rounds?|reserved|reservations?"
    r"|fragments?|fragmentation|blocks?|elastic|configurations?|placements?|allocated|attempts?|artefacts?|stdout|stderr"
    r"|cordon(?:ed)?|preempted|idle now|more idle|(?:is|are) idle|idle GPUs?(?! hours?))\b"
    r"|\{\d+(?:, ?\d+)+\}",
    re.IGNORECASE,
)
EXACT = re.compile(r"\bfront\b|\bsolver\b", re.IGNORECASE)
SAID = ("aria-label", "placeholder", "alt", "data-confirm")
"""Attributes that are read out or shown. A title may carry a code."""
SILENT = {"script", "style", "template", "code", "pre", "kbd"}
"""Elements whose text is no word of ours: scripts; commands, variables, logs and keys as they are typed."""
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
FIGURES = "The scheduler's figures"
"""The folded row where the scheduler's own words may stand."""


class Words(HTMLParser):
    """Collects the texts and read-out attributes of a page, but for silent ones."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []
        self.folds: list[list] = []  # depth, where its words begin

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        if not SILENT.intersection(self.open):
            self.found += [told[name] for name in SAID if told.get(name)]
        if tag not in VOID:
            self.open.append(tag)
            if tag == "details":
                self.folds.append([len(self.open), len(self.found)])

    def handle_endtag(self, tag):
        while self.open and tag in self.open:
            closed = self.open.pop()
            if closed == "details":
                _, begin = self.folds.pop()
                if FIGURES in " ".join(self.found[begin:])[:200]:
                    del self.found[begin:]
            if closed == tag:
                break

    def handle_data(self, data):
        if data.strip() and not SILENT.intersection(self.open):
            self.found.append(data.strip())


def banned_in(html: str) -> list[str]:
    """Return the banned words that a page shows, each with the words around it."""
    words = Words()
    words.feed(html)
    text = " ".join(" ".join(words.found).split())
    places = [found for rule in (BANNED, EXACT) for found in rule.finditer(text)]
    return [text[max(0, found.start() - 30) : found.end() + 30] for found in places]
