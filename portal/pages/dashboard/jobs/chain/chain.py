"""A chain of jobs: reads those that a job waits for and those that wait for it, and draws them as SVG."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.urls import reverse
from django.utils.html import format_html, format_html_join

from portal.work.jobs.models import Job, JobDependency
from portal.work.jobs.states import FINAL, JobState

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from django.utils.safestring import SafeString

STEPS = 4
"""Steps that are followed in each direction."""
MOST = 40
"""Jobs that are drawn; a wider chain says that there are more."""

Edge = tuple[int, int, str]
"""The job that is waited for, the one that waits, and the kind."""


@dataclass
class Chain:
    """`jobs`: those of the job's own tenant, by their keys; other keys in `edges` are another tenant's."""

    own: int
    jobs: dict[int, Job] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    more: bool = False

    def levels(self) -> dict[int, int]:
        """Return each job's column: one more than the furthest that it waits for. A job only waits for older ones."""
        found: dict[int, int] = {}
        for key in sorted({self.own} | {key for edge in self.edges for key in edge[:2]}):
            before = [found[on] for on, job, _ in self.edges if job == key and on in found]
            found[key] = max(before, default=-1) + 1
        return found


def chain_of(job: Job) -> Chain | None:
    """Return the chain of a job (of a task: of its array); None where it neither waits nor is waited for."""
    own = job.array_id or job.pk
    edges: set[Edge] = set()
    known = {own}
    more = False
    for back in (True, False):
        front = {own}
        for _ in range(STEPS):
            found = _edges(front, tenant_id=job.tenant_id, back=back)
            beyond = {edge[0 if back else 1] for edge in found} - known
            if not beyond and found <= edges:
                break
            room = MOST - len(known)
            more = more or len(beyond) > room
            front = set(sorted(beyond)[: max(0, room)])
            known |= front
            edges |= {edge for edge in found if edge[0] in known and edge[1] in known}
            if not front:
                break
    if not edges:
        return None
    jobs = Job.objects.filter(pk__in=known, tenant_id=job.tenant_id).in_bulk()
    return Chain(own, jobs, sorted(edges), more)


def _edges(front: Iterable[int], *, tenant_id: int, back: bool) -> set[Edge]:
    """Return the dependencies of these jobs (`back`), or on them. Another tenant's jobs lead no further."""
    rows = JobDependency.objects.filter(job__in=front) if back else JobDependency.objects.filter(on__in=front)
    rows = rows.filter(job__tenant_id=tenant_id) if back else rows.filter(on__tenant_id=tenant_id)
    return set(rows.order_by("-pk").values_list("on_id", "job_id", "kind")[: 4 * MOST])


WIDE, HIGH, ACROSS, DOWN, EDGE = 176, 46, 268, 62, 8
"""Pixels: a box, from one box to the next, and the margin."""
LETTERS = 20
S = JobState
TONES = {
    **dict.fromkeys((S.RUNNING, S.STARTING), "run"),
    **dict.fromkeys((S.HELD, S.PREEMPTED), "stop"),
    **dict.fromkeys((S.FAILED, S.TIMEOUT, S.OUT_OF_MEMORY, S.NODE_FAIL), "fail"),
    S.PENDING: "wait",
}
KINDS = {
    JobDependency.Kind.OK: "completed",
    JobDependency.Kind.ANY: "ended",
    JobDependency.Kind.NOT_OK: "failed",
    JobDependency.Kind.SINGLE: "same name",
}


def drawing(chain: Chain, levels: Mapping[int, int]) -> SafeString:
    """Return the SVG. Its text says all that colours and arrows do."""
    places = _places(levels)
    width = EDGE * 2 + ACROSS * max(levels.values(), default=0) + WIDE
    height = EDGE * 2 + DOWN * max(y for _, y in places.values()) + HIGH
    arrows = format_html_join("", "{}", ((_arrow(chain, edge, places),) for edge in chain.edges))
    boxes = format_html_join("", "{}", ((_box(chain, key, places[key]),) for key in sorted(places)))
    return format_html(
        '<svg class="b-chain" width="{}" height="{}" viewBox="0 0 {} {}" role="group" aria-label="Jobs of this chain">{}{}</svg>',
        width,
        height,
        width,
        height,
        arrows,
        boxes,
    )


def _places(levels: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Return each job's column and row."""
    filled: dict[int, int] = defaultdict(int)
    places = {}
    for key in sorted(levels):
        places[key] = (levels[key], filled[levels[key]])
        filled[levels[key]] += 1
    return places


def _corner(place: tuple[int, int]) -> tuple[int, int]:
    return EDGE + ACROSS * place[0], EDGE + DOWN * place[1]


def _box(chain: Chain, key: int, place: tuple[int, int]) -> SafeString:
    x, y = _corner(place)
    job = chain.jobs.get(key)
    tone = TONES.get(job.state, "neutral") if job else "neutral"
    number, name = (f"#{key}", job.name) if job else ("", "of another tenant")
    word = JobState(job.state).label if job else "not shown to you"
    shown = name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}\u2026"
    inside = format_html(
        '<rect class="b-chain-box b-chain-{}{}" x="{}" y="{}" width="{}" height="{}" rx="6"></rect>'
        '<text class="b-chain-name" x="{}" y="{}">{} {}</text><text class="b-chain-state b-chain-{}" x="{}" y="{}">{}</text>',
        tone,
        " b-chain-own" if key == chain.own else "",
        x,
        y,
        WIDE,
        HIGH,
        x + 10,
        y + 19,
        number,
        shown,
        tone,
        x + 10,
        y + 36,
        word,
    )
    if job is None:
        return inside
    said = f"{number} {name}, {word}{', this job' if key == chain.own else ''}"
    return format_html(
        '<a class="b-chain-link" href="{}" aria-label="{}">{}</a>', reverse("job-detail", args=[key]), said, inside
    )


def _arrow(chain: Chain, edge: tuple[int, int, str], places: Mapping[int, tuple[int, int]]) -> SafeString:
    on, job, kind = edge
    (x1, y1), (x2, y2) = _corner(places[on]), _corner(places[job])
    x1, y1, y2 = x1 + WIDE, y1 + HIGH // 2, y2 + HIGH // 2
    half = (x2 - x1) // 2 if places[job][0] - places[on][0] == 1 else (ACROSS - WIDE) // 2
    middle = x2 - half
    broken = _is_broken(chain, edge)
    many = sum(each[1] == job for each in chain.edges) > 1  # its words then stand where the arrow begins
    said = (x1 + (ACROSS - WIDE) // 2, y1) if many else (x2 - (ACROSS - WIDE) // 2, y2)
    return format_html(
        '<g class="b-chain-arrow{}"><path d="M{} {} H{} V{} H{}" fill="none"></path>'
        '<path class="b-chain-tip" d="M{} {} l-7 -4 v8 z"></path><text x="{}" y="{}" text-anchor="middle">{}</text></g>',
        " b-chain-broken" if broken else "",
        x1,
        y1,
        middle,
        y2,
        x2 - 6,
        x2,
        y2,
        said[0],
        said[1] - 5,
        KINDS[JobDependency.Kind(kind)],
    )


def _is_broken(chain: Chain, edge: tuple[int, int, str]) -> bool:
    """Whether what is waited for can no longer come true."""
    job = chain.jobs.get(edge[0])
    if job is None or job.state not in FINAL:
        return False
    wrong = JobDependency.Kind.NOT_OK if job.state == JobState.COMPLETED else JobDependency.Kind.OK
    return edge[2] == wrong
