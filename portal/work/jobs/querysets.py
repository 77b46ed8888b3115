"""Filters of jobs and attempts that services and selectors share."""

from __future__ import annotations

from django.db import models

from portal.people.tenants.models import OfTenants
from portal.work.jobs.states import FINAL


class JobQuerySet(OfTenants):
    def runnable(self) -> JobQuerySet:
        """Leave out array parents: they stand for their tasks and never run themselves."""
        return self.filter(array_size=None)

    def top_level(self) -> JobQuerySet:
        """Leave out array tasks: lists show their parent."""
        return self.filter(array=None)

    def unfinished(self) -> JobQuerySet:
        return self.exclude(state__in=FINAL)


class AttemptQuerySet(models.QuerySet):
    def runs(self) -> AttemptQuerySet:
        """Leave out profiles: a profile is not a run of its job."""
        return self.filter(kind="run")

    def profiles(self) -> AttemptQuerySet:
        return self.filter(kind="profile")

    def live(self) -> AttemptQuerySet:
        return self.filter(ended_at=None)
