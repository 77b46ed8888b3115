"""Leases for background errands: one row each, taken and given back by conditional UPDATE, so that no two workers do one."""

from __future__ import annotations

import os
import socket
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Q
from django.utils import timezone

from portal.rounds.models import ErrandLease

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def errand(name: str, *, limit_s: float) -> Iterator[bool]:
    """Hold the errand's lease; yields False, and nothing is to be done, while another holds it.

    A killed holder is replaced after `limit_s`.
    """
    ErrandLease.objects.get_or_create(name=name)
    holder = f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns()}"
    now = timezone.now()
    free = ErrandLease.objects.filter(Q(until=None) | Q(until__lt=now), name=name)
    taken = bool(free.update(holder=holder, until=now + timedelta(seconds=limit_s)))
    try:
        yield taken
    finally:
        if taken:
            ErrandLease.objects.filter(name=name, holder=holder).update(holder="", until=None)
