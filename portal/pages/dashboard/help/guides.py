"""Which documents the portal shows, in which order, and where their files are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from portal.foundation.layout import SOURCE

if TYPE_CHECKING:
    from pathlib import Path

DECISIONS = SOURCE / "docs" / "decisions"
EVIDENCE = SOURCE / "docs" / "evidence"
IMAGES = SOURCE / "docs" / "images"
DECISION = re.compile(r"[0-9]{4}-[a-z0-9-]{1,100}")
CLAIM = re.compile(r"[a-z0-9-]{1,100}")
IMAGE = re.compile(r"[a-z0-9-]{1,100}\.png")


@dataclass(frozen=True)
class Guide:
    name: str  # as in its address, /help/NAME
    file: str  # relative to the repository's root
    title: str
    note: str  # what one finds there, in a line

    @property
    def path(self) -> Path:
        return SOURCE / self.file


def _doc(name: str, title: str, note: str) -> Guide:
    return Guide(name, f"docs/{name}.md", title, note)


GROUPS: dict[str, tuple[Guide, ...]] = {
    "Begin": (
        _doc("first-job", "First job in ten minutes", "from a file on your machine to its results"),
        Guide("readme", "README.md", "README", "start Berth, submit a first job"),
        _doc("concepts", "Concepts", "the ideas, and what each figure on the pages means"),
        _doc("words", "Words", "one word for one thing"),
        Guide("changes", "CHANGELOG.md", "Changes", "what is new in each version"),
    ),
    "Run jobs": (
        _doc("users-guide", "User's guide", "tasks: submit, watch, end, share; then each detail"),
        _doc("command-line", "Command line", "berth submit, ps, logs and the other verbs"),
        _doc("job-templates", "Job templates", "a job with a few values to fill in: make, use, change"),
        _doc("rest-api", "REST", "for scripts; the operations have a page of their own"),
    ),
    "Run a cluster": (
        _doc("operators-guide", "Operator's guide", "when something fails, install, each week, reference"),
        _doc("slurm", "Berth on your Slurm cluster", "use a partition that is there already"),
        _doc("settings", "Settings", "each setting: meaning, unit, default, range"),
    ),
    "Try policies": (
        _doc("simulator", "Simulator", "replay a trace under several policies"),
        _doc("traces", "Traces", "the formats that can be read"),
    ),
    "How it works": (
        _doc("architecture", "Architecture", "the road of a job, the rooms of the code"),
        _doc("algorithms", "Algorithms", "every rule and formula of the scheduler"),
        _doc("bridge-protocol", "Bridge protocol", "what a bridge to Slurm and the portal say to each other"),
        _doc("agent-protocol", "Agent protocol", "what nodes and portal say to each other"),
        _doc("node-files", "Files of a node", "what an agent and its jobs leave on a disk"),
        Guide("decisions", "docs/decisions/README.md", "Decisions", "why things were chosen, by district"),
        Guide("evidence", "docs/evidence/README.md", "Evidence", "measured figures beside published ones"),
    ),
}
OPERATORS_GROUP = "How it works"
"""Lists and the search show it to operators only. A link to one of its pages opens for everybody."""
GUIDES: dict[str, Guide] = {guide.name: guide for group in GROUPS.values() for guide in group}
NAMES_BY_FILE = {guide.file: guide.name for guide in GUIDES.values()}


def groups_for(*, operator: bool) -> dict[str, tuple[Guide, ...]]:
    """Return the guides that lists and the search show."""
    return {title: guides for title, guides in GROUPS.items() if operator or title != OPERATORS_GROUP}


def guide_find(name: str) -> Guide | None:
    """Return a guide, or `decisions/NNNN-words`, or the claim `evidence/words`, or None. No other file is ever opened."""
    if name in GUIDES:
        return GUIDES[name]
    room, _, page = name.partition("/")
    if room == "decisions" and DECISION.fullmatch(page) and (DECISIONS / f"{page}.md").is_file():
        return Guide(name, f"docs/{name}.md", f"Decision {page[:4]}", "")
    if room == "evidence" and CLAIM.fullmatch(page) and (EVIDENCE / f"{page}.md").is_file():
        return Guide(name, f"docs/{name}.md", f"Evidence: {page.replace('-', ' ')}", "")
    return None


def image_find(name: str) -> Path | None:
    path = IMAGES / name
    return path if IMAGE.fullmatch(name) and path.is_file() else None
