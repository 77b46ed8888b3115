"""Leases for background errands: one row each, so that no two workers do one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import timedelta

from django.utils import timezone

from portal.foundation.leases import lease_held
from portal.planning.rounds.models import ErrandLease

REST_MOST_S = 900.0
"""No rest is longer: a later moment was written before the clock was set back."""


def errand(name: str, *, limit_s: float) -> AbstractContextManager[bool]:
    """Hold the errand's lease; the context is False, and nothing is to be done, while another holds it.

    A killed holder is replaced after `limit_s`.
    """
    ErrandLease.objects.get_or_create(name=name)
    return lease_held(ErrandLease.objects.filter(name=name), limit_s=limit_s, longest_s=REST_MOST_S)


def errand_rest(name: str, *, rest_s: float) -> None:
    """Keep everybody from the errand for this time (REST_MOST_S at most), unless somebody has begun it anew."""
    until = timezone.now() + timedelta(seconds=min(rest_s, REST_MOST_S))
    ErrandLease.objects.filter(name=name, until=None).update(until=until)
