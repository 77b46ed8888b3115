"""Leases for background errands: one row each, taken and given back by conditional UPDATE, so that no two workers do one."""

from __future__ import annotations

import os
import socket
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Q
from django.utils import timezone

from portal.rounds.models import ErrandLease

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(slots=True)
class Errand:
    """An errand as its holder sees it; false while another holds it, or it rests."""

    mine: bool
    rest_s: float = 0.0

    def __bool__(self) -> bool:
        return self.mine


@contextmanager
def errand(name: str, *, limit_s: float) -> Iterator[Errand]:
    """Hold the errand's lease; yields a false one, and nothing is to be done, while another holds it or it rests.

    A killed holder is replaced after `limit_s`. A holder that sets `rest_s` keeps everybody from it for so long afterwards.
    """
    ErrandLease.objects.get_or_create(name=name)
    holder = f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns()}"
    now = timezone.now()
    free = ErrandLease.objects.filter(Q(until=None) | Q(until__lt=now), name=name)
    taken = bool(free.update(holder=holder, until=now + timedelta(seconds=limit_s)))
    own = Errand(mine=taken)
    try:
        yield own
    finally:
        if taken:
            until = timezone.now() + timedelta(seconds=own.rest_s) if own.rest_s else None
            ErrandLease.objects.filter(name=name, holder=holder).update(holder="", until=until)
