"""Problems of this node that the operator should know, and the parts that agents failed at.

A few sentences go with each report, the newest first. A part at which agents failed is given up, so that it does not end agent
after agent, and with their leases all jobs of its node.
"""

from __future__ import annotations

import contextlib
import errno
import time
from typing import TYPE_CHECKING

from workers.protocol.names import clean
from workers.system import log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workers.parts.journal import Journal
    from workers.parts.part import Part
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


MOST_FAULTS, WITHIN_S = 3, 3600.0
OF_THE_MACHINE = frozenset(
    {None, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN}
)
"""Errors that any part would meet just now. OSErrors of our own, as of files that do not answer, have no number."""


@contextlib.contextmanager
def note_faults(key: str, journal: Journal) -> Iterator[None]:
    """Note in the part's record that handling it failed; the error passes on, and ends the agent."""
    try:
        yield
    except Exception as error:
        part = journal.parts.get(key)
        of_the_machine = isinstance(error, OSError) and error.errno in OF_THE_MACHINE
        if part is not None and not of_the_machine and not isinstance(error, MemoryError):
            part.faults = [*part.faults, time.time()][-MOST_FAULTS:]
            journal.save(part)
        raise


def is_faulty(part: Part) -> bool:
    """Say whether enough agents failed at it within an hour that the next would too."""
    now = time.time()
    return sum(isinstance(at, float) and abs(now - at) < WITHIN_S for at in part.faults) >= MOST_FAULTS
