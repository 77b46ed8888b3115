"""The learned sharing policy's file, as plannings use it: `sharing-policy.npz` in the data directory (`./berth train-sharing`).

It is read when it is new or has changed. Without one that can be used every job goes by CBP+PP, and the operator is told why.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings

from portal.planning.rounds.settings.knobs import knobs_current, scheduler_parameters
from scheduler.sharing.learned.record import PolicyFileError, Stored, unpacked

log = logging.getLogger(__name__)

NAME = "sharing-policy.npz"


@dataclass(slots=True)
class _Read:
    """A policy that was read, and the file as it then was."""

    key: tuple[str, int, int] | None = None
    stored: Stored | None = None
    why: str = ""


_read = _Read()


def policy_learned() -> Stored | None:
    """Return the learned policy (`dqn`) if its file can be used."""
    return _looked().stored


def policy_why() -> str:
    """Return why the learned policy cannot be used; empty: it can."""
    return _looked().why


def policy_problems(_now: datetime) -> list[str]:
    """Return why the learned policy is not used although a knob names it."""
    parameters = scheduler_parameters(knobs_current())
    named = [name for name in ("sharing_policy", "sharing_shadow") if getattr(parameters, name) == "dqn"]
    if not named or not (why := _looked().why):
        return []
    instead = "jobs share GPUs by cbp-pp" if "sharing_policy" in named else "its shadow decides as cbp-pp"
    return [f"{named[0]} is dqn, but {why}; {instead}"]


def _looked() -> _Read:
    global _read  # noqa: PLW0603 - one file a process, read again when it has changed
    path = Path(settings.DATA_DIR) / NAME
    try:
        seen = path.stat()
        key = (str(path), seen.st_mtime_ns, seen.st_size)
        if _read.key != key:
            _read = _Read(key, *_usable(path))
    except FileNotFoundError:
        _read = _Read(None, None, f"there is no {NAME} in the data directory: ./berth train-sharing writes it")
    except OSError as error:
        _read = _Read(None, None, f"{NAME} cannot be read ({error.strerror})")
    return _read


def _usable(path: Path) -> tuple[Stored | None, str]:
    try:
        stored = unpacked(path.read_bytes())
    except PolicyFileError as error:
        log.warning("%s cannot be used: %s", path, error)
        return None, f"{NAME} cannot be used: {error}"
    if not stored.over:
        return None, f"the training of {NAME} is not finished: the same ./berth train-sharing goes on with it"
    return stored, ""
