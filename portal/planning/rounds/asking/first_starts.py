"""When a job could start, by GPU type and count: dry runs in the background, kept in Redis for all readers of a tenant.

Beat asks for it; a lease keeps two workers from doing it twice. Only tenants with a reader lately are worked out, the oldest
answers first, within a limit of processor time; each run is followed by a rest. Readers are given what is there.
"""

from __future__ import annotations

import json
import logging
import time
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.db.models import Count

from portal.cluster.models import Gpu, Node
from portal.foundation.errors import BerthError
from portal.foundation.events.services import page_event
from portal.foundation.events.shared import Away, client
from portal.people.tenants.models import Membership, Tenant
from portal.planning.rounds.asking.dryrun import Present, answer
from portal.planning.rounds.asking.forecasting import SHARE, own_clock
from portal.planning.rounds.endless import within
from portal.planning.rounds.planning.lease import errand, errand_rest
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.services.submission import submission_check

if TYPE_CHECKING:
    from collections.abc import Mapping

    from portal.people.tenants.models import User

log = logging.getLogger(__name__)

SIZES = (1, 2, 4, 8)
TYPES_MOST = 6
"""The types with the most GPUs have a row."""
FRESH_S = 30.0
ASKED_S = 600.0
"""How long after its last reader a tenant's answers are worked out, and kept."""
LIMIT_S, ENDLESS_S, LEASE_S = 8.0, 60.0, 120.0
"""Processor time after which a run begins no further answer, and counts as endless; when a killed worker is replaced."""
ASKED = "berth:first-starts:asked"
TOPIC = "first-starts"

NOW, AT, LATER, NEVER = "now", "at", "later", "never"
Answer = dict[str, Any]
"""`says`: one of these words; `at`: of an `AT` the ISO time; `made`: the Unix time of the answer."""
Question = tuple[str | None, int]
"""The GPU type (None: any) and how many."""
NEVER_MADE = {"made": 0.0}


def first_starts(tenant_id: int) -> list[tuple[Question, Answer]] | None:
    """Return the tenant's answers, and have them worked out anew; None before the first, or while Redis is away."""
    try:
        broker = client(settings.REDIS_URL)
        broker.zadd(ASKED, {str(tenant_id): time.time()})
        stored = broker.get(_key(tenant_id))
    except Away as error:
        log.debug("first starts: Redis is away (%s)", error)
        return None
    return None if stored is None else first_known(stored)


def first_starts_refresh() -> int | None:
    """Work out the answers that readers asked for; return how many answers, None while another worker does."""
    broker = client(settings.REDIS_URL)
    broker.zremrangebyscore(ASKED, 0, time.time() - ASKED_S)
    asked = [int(each) for each in cast("list[bytes]", broker.zrange(ASKED, 0, -1))]
    if not asked:
        return 0
    with errand(TOPIC, limit_s=LEASE_S) as mine:
        if not mine:
            return None
        own_s, wall_s = time.thread_time(), time.monotonic()
        count = within(ENDLESS_S, lambda: _refresh(asked))
        rest_s = max((time.thread_time() - own_s) * (1.0 / SHARE - 1.0), time.monotonic() - wall_s)
    errand_rest(TOPIC, rest_s=rest_s)
    return count


def _key(tenant_id: int) -> str:
    return f"berth:first-starts:{tenant_id}"


def _refresh(asked: list[int]) -> int:
    broker, now_s, clock = client(settings.REDIS_URL), time.time(), own_clock()
    tenants, workers, questions = Tenant.objects.in_bulk(asked), _workers(asked), _questions()
    stored = {pk: broker.get(_key(pk)) for pk in tenants.keys() & workers}
    kept = {pk: dict(first_known(own)) for pk, own in stored.items()}
    due = [(own.get(each, NEVER_MADE)["made"], pk, each) for pk, own in kept.items() for each in questions]
    due = sorted((each for each in due if abs(now_s - each[0]) > FRESH_S), key=lambda each: each[:2])
    present, done, changed = None, 0, False
    for _, pk, question in due:
        if clock() > LIMIT_S:
            break
        present, done = present or Present.read(), done + 1
        kept[pk][question] = {**answered(present, workers[pk], tenants[pk], question), "made": now_s}
    for pk, own in kept.items():
        if questions and not own:
            continue
        rows = json.dumps([(*each, own[each]) for each in questions if each in own]).encode()
        broker.set(_key(pk), rows, ex=round(ASKED_S))
        changed |= rows != stored[pk]
    if changed:
        page_event(stream="cluster", topic=TOPIC)
    return done


def first_known(stored: bytes | str | None) -> list[tuple[Question, Answer]]:
    return [((kind, size), answer) for kind, size, answer in json.loads(stored or "[]")]


def _workers(tenant_ids: list[int]) -> Mapping[int, User]:
    """Return of each tenant the member who is there longest and may submit: the answers are the same for all its readers."""
    rows = Membership.objects.filter(tenant__in=tenant_ids).exclude(role=Membership.Role.VIEWER)
    return {row.tenant_id: row.user for row in rows.select_related("user").order_by("-pk")}


def _questions() -> list[Question]:
    """Return the questions: each size up to the most GPUs of one type, of any type and of each type."""
    present = Gpu.objects.present().filter(node__in=Node.objects.alive()).with_type().exclude(type_name=None)
    counts = dict(present.order_by().values_list("type_name").annotate(n=Count("pk")))
    types = sorted(sorted(counts, key=lambda name: -counts[name])[:TYPES_MOST])
    most = max(counts.values(), default=0)
    return [(kind, size) for kind in (None, *types) for size in SIZES if size <= most]


def answered(present: Present, user: User, tenant: Tenant, question: Question) -> Answer:
    """Return the submit form's dry run of a job of this size, as one word or a time."""
    kind, size = question
    description = {"command": "true", "gpus": size, **({"gpu_types": [kind]} if kind else {})}
    try:
        _, parsed = submission_check(user=user, tenant=tenant, description=description, r_num=knobs_current()["r_num"])
    except BerthError:
        return {"says": NEVER}
    told = answer(present, description=parsed, tenant=tenant, user=user)
    if told["placeable"]:
        return {"says": NOW}
    if told["start"] is None:
        return {"says": NEVER if told["place"] is None else LATER}
    median = told["start"]["median_at"]
    return {"says": AT, "at": median.isoformat()} if median else {"says": LATER}
