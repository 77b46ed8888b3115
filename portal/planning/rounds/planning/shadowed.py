"""A planning tells of its sharing step those who ask another policy the same. They register themselves; nobody is waited for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from portal.planning.rounds.models import Planning
    from scheduler.model import Plan

    Teller = Callable[[Planning, Any], None]

log = logging.getLogger(__name__)
_followers: list[Teller] = []


def shadow_follow(teller: Teller) -> None:
    """From now on call this with each planning's record, and with question and answer of its sharing step. It must not wait."""
    _followers.append(teller)


def shadow_tell(record: Planning, made: Plan) -> None:
    """Hand the step on. A failure there is no part of the planning."""
    if made.sharing is None:
        return
    for teller in _followers:
        try:
            teller(record, made.sharing)
        except Exception:
            log.exception("planning %s: its shadow could not be asked", record.number)
