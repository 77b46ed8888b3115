"""Problems of this node that the operator should know: a few sentences, sent with each report, the newest first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from workers.protocol.names import clean
from workers.system import log

if TYPE_CHECKING:
    from workers.protocol.wire import Problem

MOST, SUBJECT_CHARACTERS, DETAIL_CHARACTERS = 20, 200, 300
KEEP_S = 86400.0


class Problems:
    """One sentence for each subject. It is forgotten when it is over, or one day after it was noted last.

    The day goes by no clock that anybody sets: of a node whose clock was a year ahead it would last a year.
    """

    def __init__(self) -> None:
        self._found: dict[str, tuple[float, Problem]] = {}

    def note(self, subject: str, detail: str) -> None:
        """Write it into the log, and tell the portal with the next report."""
        subject = clean(subject[-SUBJECT_CHARACTERS:], SUBJECT_CHARACTERS)
        if subject not in self._found:
            log.error("problem", subject=subject, detail=detail)
        self._found.pop(subject, None)
        told: Problem = {"at": time.time(), "subject": subject, "detail": clean(detail, DETAIL_CHARACTERS)}
        self._found[subject] = (time.monotonic(), told)

    def note_remains(self, name: str, error: OSError) -> None:
        """Note that files of a job cannot be removed. `name`: a part's key or a path."""
        self.note(f"remains {name}", f"Files that a job left cannot be removed: {error}")

    def clear(self, subject: str) -> None:
        self._found.pop(clean(subject[-SUBJECT_CHARACTERS:], SUBJECT_CHARACTERS), None)

    def current(self) -> list[Problem]:
        oldest = time.monotonic() - KEEP_S
        self._found = {name: found for name, found in self._found.items() if found[0] > oldest}
        newest = reversed(self._found.values())
        return [told for (_, told), _ in zip(newest, range(MOST), strict=False)]
