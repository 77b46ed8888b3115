"""Learned policies that are proposed: asked for, trained one at a time, accepted or rejected by an operator with a record."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from portal.foundation.errors import BerthError, Conflict, Forbidden, NotFound
from portal.foundation.events.services import page_event
from portal.people.tenants.models import User
from portal.people.tenants.services import audit_record
from portal.planning.rounds.planning.sharing import NAME
from portal.planning.rounds.settings.knobs import knobs_current
from portal.planning.sharing.models import Proposal

S = Proposal.State
STALE = timedelta(minutes=30)
"""The age at which a training has lost its worker."""
KEPT = 10
"""The number of proposals that are kept."""


@transaction.atomic
def proposal_ask(*, actor: User | None) -> Proposal:
    """Ask for a training. Raises Conflict while one waits or is trained."""
    if actor is not None and not actor.is_operator:
        raise Forbidden("Only an operator may ask for a training.")
    if Proposal.objects.filter(state__in=(S.WAITING, S.TRAINING)).exists():
        raise Conflict("already_training", "A training waits or runs already; wait until it has ended.")
    made = Proposal.objects.create(asked_by_name=actor.username if actor else "")
    if actor is not None:
        audit_record(actor=actor, action="sharing.train", target=f"proposal:{made.pk}")
    page_event(stream="cluster", topic="sharing")
    return made


def proposal_wanted() -> bool:
    """Say whether `proposal_take` has anything to do: a training was asked for, is due, or may have lost its worker."""
    return Proposal.objects.filter(state__in=(S.WAITING, S.TRAINING)).exists() or _is_due()


@transaction.atomic
def proposal_take() -> Proposal | None:
    """Return the proposal to be trained now, for only one worker; None: there is none. One that is due is made."""
    now = timezone.now()
    lost = Proposal.objects.filter(state=S.TRAINING, begun_at__lt=now - STALE)
    lost.update(state=S.FAILED, ended_at=now, error="its worker ended")
    if Proposal.objects.filter(state=S.TRAINING).exists():
        return None
    if _is_due():
        proposal_ask(actor=None)
    first = Proposal.objects.filter(state=S.WAITING).order_by("pk").first()
    if first is None or not Proposal.objects.filter(pk=first.pk, state=S.WAITING).update(
        state=S.TRAINING, begun_at=now
    ):
        return None
    first.refresh_from_db()
    return first


def _is_due() -> bool:
    days = knobs_current()["sharing_retrain_days"]
    if not days or Proposal.objects.filter(state=S.WAITING).exists():
        return False
    last = Proposal.objects.order_by("-created_at").values_list("created_at", flat=True).first()
    return last is None or last <= timezone.now() - timedelta(days=days)


@transaction.atomic
def proposal_ready(
    *, proposal: Proposal, content: bytes, about: Mapping[str, Any], curve: Sequence[float], judged: Mapping[str, Any]
) -> bool:
    """Store what came of a training; False where it is no longer this worker's."""
    told = {"about": dict(about), "curve": list(curve), "judged": dict(judged), "content": content}
    return _end(proposal, S.READY, **told)


@transaction.atomic
def proposal_fail(*, proposal: Proposal, error: str) -> bool:
    return _end(proposal, S.FAILED, error=error[:500])


def _end(proposal: Proposal, state: str, **told: Any) -> bool:
    mine = Proposal.objects.filter(pk=proposal.pk, state=S.TRAINING, begun_at=proposal.begun_at)
    ended = mine.update(state=state, ended_at=timezone.now(), **told)
    old = Proposal.objects.order_by("-pk").values_list("pk", flat=True)[KEPT:]
    Proposal.objects.filter(pk__in=list(old)).exclude(state__in=(S.WAITING, S.TRAINING)).delete()
    page_event(stream="cluster", topic="sharing")
    return bool(ended)


def proposal_decide(*, number: int, verb: str, actor: User) -> Proposal:
    """Accept a proposal, whose file takes the present one's place, or reject it; once. The knob stays as it is."""
    if not actor.is_operator:
        raise Forbidden("Only an operator may decide about a learned policy.")
    if verb not in ("accept", "reject"):
        raise BerthError("invalid_choice", "One accepts a proposal or rejects it.", field="verb")
    return _decide(number=number, state=S.ACCEPTED if verb == "accept" else S.REJECTED, actor=actor)


@transaction.atomic
def _decide(*, number: int, state: str, actor: User) -> Proposal:
    found = Proposal.objects.select_for_update(no_key=True).filter(pk=number).first()
    if found is None:
        raise NotFound("proposal")
    if found.state != S.READY:
        raise Conflict("not_ready", f"Proposal {number} {found.get_state_display()}; there is nothing to decide.")
    content = bytes(found.content)
    found.state, found.content = state, b""
    found.decided_by_name, found.decided_at = actor.username, timezone.now()
    found.save()
    detail = {"judged": found.judged, "about": found.about}
    audit_record(actor=actor, action=f"sharing.{state}", target=f"proposal:{number}", detail=detail)
    page_event(stream="cluster", topic="sharing")
    if state == S.ACCEPTED:
        policy_write(content)
    return found


def policy_write(content: bytes) -> None:
    """Put a policy's file in the place of the present one: whole, or not at all. Raises BerthError where it cannot be written."""
    folder = Path(settings.DATA_DIR)
    beside = None
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=f".{NAME}.", delete=False) as file:
            beside = Path(file.name)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(folder / NAME)
    except OSError as error:
        if beside is not None:
            beside.unlink(missing_ok=True)
        detail = f"{NAME} could not be written into the data directory ({error.strerror}); nothing was changed."
        raise BerthError("not_written", detail, status=507) from error
