"""One look at the cluster for one answer: each part is read once, when a page or fragment first asks for it.

Values that are the same for every reader (facts, queue) come from the shared values that one process computes for all, and so
does the HTML of fragments. Parts that name jobs are read for the reader, of all nodes or of `names` only.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils import timezone

from portal.cluster.selectors import nodes_with_gpus
from portal.foundation.events.shared import STREAM, Sharing
from portal.pages.dashboard.board.feed import facts_now
from portal.people.tenants.models import Membership
from portal.planning.rounds.models import Planning, Round
from portal.planning.rounds.read.ends import ends_of
from portal.planning.rounds.read.history import plannings_listed
from portal.planning.rounds.read.kept import kept_now
from portal.planning.rounds.settings.knobs import knobs_current
from portal.work.jobs.held_time import active_rates
from portal.work.jobs.node_use import gpu_intervals, parts_live
from portal.work.jobs.queue_counts import QueueCounts, QueueGroup, queue_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from django.http import HttpRequest

    from portal.cluster.models import Node
    from portal.pages.dashboard.board.facts import Facts
    from portal.people.tenants.models import User
    from portal.planning.rounds.read.kept import KeptFor
    from portal.work.jobs.held_time import ActiveRates
    from portal.work.jobs.models import Allocation
    from portal.work.jobs.node_use import Interval

OTHER_TENANT = "another tenant"


@dataclass(frozen=True)
class Reader:
    """The reader. An operator sees all tenants' jobs."""

    user: User
    tenant_ids: frozenset[int]

    @classmethod
    def of(cls, user: User) -> Reader:
        if user.is_operator:
            return cls(user, frozenset())
        return cls(user, frozenset(Membership.objects.filter(user=user).values_list("tenant_id", flat=True)))

    @property
    def key(self) -> str:
        """Readers of an equal key see the same jobs, and may do the same to nodes."""
        return "operator" if self.user.is_operator else ",".join(map(str, sorted(self.tenant_ids))) or "none"

    def sees(self, tenant_id: int) -> bool:
        return self.user.is_operator or tenant_id in self.tenant_ids


CELLS_UP_TO = 64
"""Up to this number of nodes a page shows each GPU's cell in HTML; above, the board draws a strip for each node."""


class Snapshot:
    """The material of a reader's page. `hours` is h: how far back active rates and ratios look."""

    def __init__(
        self,
        user: User,
        *,
        hours: float = 1.0,
        names: Sequence[str] | None = None,
        sharing: Sharing | None = None,
        reader: Reader | None = None,
    ) -> None:
        self.user, self.hours, self.names = user, hours, names
        self.now = timezone.now()
        self.since = self.now - timedelta(hours=hours)
        self.sharing = sharing or Sharing()
        if reader is not None:
            self.reader = reader

    @cached_property
    def reader(self) -> Reader:
        return Reader.of(self.user)

    @cached_property
    def facts(self) -> Facts:
        return facts_now(self.sharing)

    @property
    def is_large(self) -> bool:
        return len(self.facts.names) > CELLS_UP_TO

    @cached_property
    def queue(self) -> QueueCounts:
        rows = self.sharing.get("queue", lambda _: [asdict(group) for group in queue_counts(now=self.now).groups])
        return QueueCounts(tuple(QueueGroup(**row) for row in rows))

    @cached_property
    def nodes(self) -> list[Node]:
        nodes = nodes_with_gpus(self.user)
        return list(nodes.listed() if self.names is None else nodes.filter(name__in=self.names))

    @cached_property
    def parts(self) -> list[Allocation]:
        return parts_live() if self.names is None else parts_live(node_ids=self._node_ids)

    @property
    def _node_ids(self) -> list[int]:
        return [node.pk for node in self.nodes]

    @cached_property
    def parts_by_node(self) -> dict[int, list[Allocation]]:
        found: dict[int, list[Allocation]] = defaultdict(list)
        for part in self.parts:
            found[part.node_id].append(part)
        return found

    @cached_property
    def kept_by_node(self) -> dict[str, list[KeptFor]]:
        """The GPUs that are kept for jobs, by node name, as the reader may see them."""
        found: dict[str, list[KeptFor]] = defaultdict(list)
        for each in kept_now(user=self.user):
            for name in each.nodes:
                found[name].append(each)
        return found

    @cached_property
    def kept_counts(self) -> dict[str, int]:
        """How many free GPUs of each node are kept for a job, by node name."""
        return dict(zip(self.facts.names, self.facts.kept, strict=True))

    @cached_property
    def ends(self) -> dict[int, datetime]:
        """When the jobs that hold something should end, by row id; of an array, the last that is known of its tasks."""
        return ends_of([part.attempt for part in self.parts], self.now)

    @cached_property
    def intervals(self) -> dict[int, list[Interval]]:
        ids = None if self.names is None else self._node_ids
        return gpu_intervals(since=self.since, node_ids=ids)

    @cached_property
    def rates(self) -> dict[int, ActiveRates]:
        """The nodes' active rates over h, by row id."""
        return active_rates(self.nodes, hours=self.hours, now=self.now)

    @cached_property
    def knobs(self) -> dict[str, Any]:
        """The operator's settings in force."""
        return knobs_current()

    @cached_property
    def planning(self) -> Planning | None:
        """The last applied planning, with its decisions."""
        rows = Planning.objects.filter(status=Planning.Status.APPLIED).order_by("-number")
        return rows.first()

    @cached_property
    def last_round(self) -> Round | None:
        """The last round that has ended, with its figures."""
        return Round.objects.exclude(metrics={}).first()

    @cached_property
    def last_plannings(self) -> list[Planning]:
        return list(plannings_listed()[:20])

    @property
    def gpus_total(self) -> int:
        return self.facts.gpus_total

    @property
    def gpus_held(self) -> int:
        return sum(self.facts.gpus_held)


def shared_html(
    snapshot: Snapshot, key: str, template: str, context: Callable[[Snapshot], dict[str, Any]], *, masked: bool
) -> str:
    """Return a fragment's HTML. `masked`: it names jobs, so it is shared by readers of the same tenants only."""
    audience = snapshot.reader.key if masked else "all"

    def make(inner: Sharing) -> str:
        own = Snapshot(snapshot.user, hours=snapshot.hours, sharing=inner, reader=snapshot.reader)
        own.knobs = snapshot.knobs  # the same for all of a page's fragments: one read
        return render_to_string(template, context(own))

    return snapshot.sharing.get(f"html:{key}:{snapshot.hours:g}:{audience}", make)


def fragment_answer(html: str, sharing: Sharing) -> HttpResponse:
    """Answer a fragment; one that is older than the last event says so, and the page asks again in a second."""
    response = HttpResponse(html)
    if sharing.late:
        response["Berth-Late"] = "1"
    return response


def page_numbers(request: HttpRequest, sharing: Sharing) -> None:
    """Tell the page the last event that all its parts know: a later one is then a gap, and it asks for them again."""
    numbers = getattr(request, "live_numbers", None)
    if numbers and sharing.number is not None and STREAM in numbers:
        numbers[STREAM] = min(numbers[STREAM], sharing.number)
