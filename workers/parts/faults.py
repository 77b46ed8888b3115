"""Which parts an agent failed at, so that one part does not end agent after agent, and with their leases all jobs of its node."""

from __future__ import annotations

import contextlib
import errno
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workers.parts.journal import Journal
    from workers.parts.part import Part

MOST_FAULTS, WITHIN_S = 3, 3600.0
OF_THE_MACHINE = frozenset(
    {None, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN}
)
"""Errors that any part would meet just now. OSErrors of our own, as of files that do not answer, have no number."""


@contextlib.contextmanager
def faults_noted(key: str, journal: Journal) -> Iterator[None]:
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
