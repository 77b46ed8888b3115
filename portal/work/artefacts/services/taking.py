"""Take what a node tells and sends of a part's files."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from portal.foundation.environment import env
from portal.foundation.errors import BerthError, Conflict, NotFound
from portal.foundation.events.services import live_event
from portal.work.artefacts import store
from portal.work.artefacts.models import Artefact
from portal.work.artefacts.selectors import GIB, quota_gib, room_require
from portal.work.artefacts.services.removing import Account
from portal.work.artefacts.store import is_at_or_below, path_problem, path_shown
from portal.work.jobs.models import Allocation, Attempt, Job
from portal.work.jobs.services.logs import OffsetMismatch

if TYPE_CHECKING:
    from portal.cluster.models import Node

PIECE_BYTES = 2 * 1024 * 1024
FILES_AT_ONCE = 500
MOST_NOTES = 20
MOST_REFUSALS, MOST_COUNTED = 50, 10_000
REFUSED = "refused"
"""The key in a job's notes, beside ranks, for files that the portal itself does not take."""
MOST_NUMBER = 2**62


@dataclass(frozen=True)
class Part:
    """A node's part of a run, with its job; `prefix` goes before its paths where the run has several parts."""

    job: Job
    epoch: int
    rank: int
    prefix: str


@dataclass(frozen=True)
class Told:
    """A file as its node has it: the path as it is kept, bytes, and when it was last written."""

    path: str
    size: int
    modified_ns: int

    @property
    def problem(self) -> str | None:
        """Why no file is like this; None where one may be."""
        numbers = {"size": self.size, "time": self.modified_ns}
        return next((f"its {name} is impossible" for name, n in numbers.items() if not 0 <= n <= MOST_NUMBER), None)

    def is_kept(self, row: Artefact) -> bool:
        return (row.size, row.modified_ns) == (self.size, self.modified_ns)

    def is_coming(self, row: Artefact) -> bool:
        return bool(row.incoming) and (row.told_size, row.told_ns) == (self.size, self.modified_ns)


def _part(*, node: Node, key: str, epoch: int, rank: int) -> Part:
    rows = Allocation.objects.filter(attempt__key=key, attempt__epoch=epoch, rank=rank, node=node)
    row = rows.filter(attempt__kind=Attempt.Kind.RUN).select_related("attempt__job__tenant").first()
    if row is None:
        raise NotFound("part of a run on this node")
    alone = not Allocation.objects.filter(attempt=row.attempt_id).exclude(pk=row.pk).exists()
    return Part(row.attempt.job, epoch, rank, "" if alone else f"part-{rank}/")


def artefacts_told(
    *,
    node: Node,
    key: str,
    epoch: int,
    rank: int,
    files: Sequence[dict[str, Any]],
    gone: Sequence[str] = (),
    notes: Sequence[Sequence[str]] | None = None,
    notes_more: int = 0,
) -> list[dict[str, Any]]:
    """Take note of files (`path, size, modified_ns`); return `path, state, offset, detail` of each.

    `state`: "send" from byte `offset` on, "kept", or "refused", `detail` saying why. `gone`: files that went before they
    were sent. `notes`: what the node does not send, [path, why] each, and `notes_more` others; None leaves them. Raises
    NotFound, DiskLow.
    """
    part = _part(node=node, key=key, epoch=epoch, rank=rank)
    if files:
        room_require()
    names = {part.prefix + each["path"] for each in files} | {part.prefix + path for path in gone}
    with transaction.atomic():
        account = Account(part.job)
        rows = {row.path: row for row in Artefact.objects.filter(job=part.job, path__in=names)}
        for path in gone:
            _drop_coming(account, rows.pop(part.prefix + path, None), part)
        answers = [_tell(account, part, rows, each) for each in files]
        account.job.looked_at = timezone.now()
        _note_refusals(account, part, rows, answers)
        if notes is not None:
            listed = [[path_shown(part.prefix + path), why] for path, why in notes[:MOST_NOTES]]
            account.job.notes = {**account.job.notes, str(rank): listed}
            account.job.left_out = {**account.job.left_out, str(rank): notes_more}
        account.save()
    if files or gone:
        live_event(stream=f"job:{part.job.pk}", topic="artefacts", id=part.job.pk)
    return answers


def _note_refusals(account: Account, part: Part, rows: dict[str, Artefact], answers: Sequence[dict[str, Any]]) -> None:
    """Keep why files are refused whose rows do not say it: the first MOST_REFUSALS paths, each until it is taken.

    Each other one leaves a sign, so that a file which is reported again is not counted again.
    """
    listed = dict(account.job.notes.get(REFUSED, []))
    others = set(account.job.left_out.get(REFUSED, []))
    for answer in answers:
        path = part.prefix + answer["path"]
        row, shown, sign = rows.get(path), path_shown(path), zlib.crc32(path.encode())
        if answer["state"] != "refused" or (row is not None and row.reason == answer["detail"]):
            listed.pop(shown, None)
            others.discard(sign)
        elif shown in listed or (sign not in others and len(listed) < MOST_REFUSALS):
            listed[shown] = answer["detail"]
        elif len(others) < MOST_COUNTED:
            others.add(sign)
    notes = {name: told for name, told in account.job.notes.items() if name != REFUSED}
    account.job.notes = notes | ({REFUSED: [list(each) for each in listed.items()]} if listed else {})
    account.job.left_out = {**account.job.left_out, REFUSED: sorted(others)}


def _tell(account: Account, part: Part, rows: dict[str, Artefact], each: dict[str, Any]) -> dict[str, Any]:
    told = Told(part.prefix + each["path"], each["size"], each["modified_ns"])
    if (why := path_problem(told.path) or told.problem) is not None:
        return _answer(each, "refused", why)
    row = rows.get(told.path)
    if row is not None and row.epoch > part.epoch:
        return _answer(each, "refused", "a later attempt wrote it again")
    if row is not None and told.is_kept(row):
        if store.is_there(part.job.key, row.blob, row.size or 0):
            _stop_coming(account, row, part)
            return _answer(each, "kept")
        row.size, row.sha256, row.blob = None, "", ""  # a backup came back without its files
        account.count(row)
    if row is not None and told.is_coming(row):
        return _answer(each, "send", offset=store.length(part.job.key, row.incoming))
    if any(at >= told.modified_ns and is_at_or_below(told.path, path) for path, at in account.job.removed.items()):
        return _answer(each, "refused", "a user removed it")
    if row is None:
        most = env("BERTH_ARTEFACT_FILES")
        if account.job.files >= most:
            return _answer(each, "refused", f"the job has {most} files already, and may have no more")
        row = rows[told.path] = Artefact(job=part.job, path=told.path, rank=part.rank, epoch=part.epoch)
        account.enter(row)
    return _begin(account, part, row, told, each)


def _begin(account: Account, part: Part, row: Artefact, told: Told, each: dict[str, Any]) -> dict[str, Any]:
    """Make room for a new content of a row, if the quota has it."""
    _stop_coming(account, row, part, save=False)
    row.rank, row.epoch = part.rank, part.epoch
    gib = quota_gib(part.job.tenant)
    if account.tenant.counted + told.size > gib * GIB:
        row.reason = f"with its {told.size / GIB:.3g} GiB it would be over the tenant's {gib} GiB"
        row.told_ns = told.modified_ns
        row.save()
        return _answer(each, "refused", row.reason)
    row.told_size, row.told_ns, row.incoming, row.reason = told.size, told.modified_ns, store.name_new(), ""
    account.count(row)
    row.save()
    return _answer(each, "send")


def _stop_coming(account: Account, row: Artefact, part: Part, *, save: bool = True) -> None:
    """Give up what was on its way, and why something was not kept."""
    if row.incoming:
        transaction.on_commit(partial(store.drop, part.job.key, [row.incoming]))
    elif not row.reason:
        return
    row.told_size, row.incoming, row.reason = None, "", ""
    account.count(row)
    if save:
        row.save()


def _drop_coming(account: Account, row: Artefact | None, part: Part) -> None:
    """The file went before it was sent: its kept content stays, else there is none."""
    if row is None or row.epoch > part.epoch:
        return
    _stop_coming(account, row, part)
    if row.size is None:
        account.forget(row)


def _answer(each: dict[str, Any], state: str, detail: str = "", *, offset: int = 0) -> dict[str, Any]:
    return {"path": each["path"], "state": state, "offset": offset, "detail": detail}


def artefact_append(
    *,
    node: Node,
    key: str,
    epoch: int,
    rank: int,
    told: dict[str, Any],
    offset: int,
    data: bytes,
    digests: dict[str, str],
) -> tuple[int, bool]:
    """Append a piece of the content `told` (`path, size, modified_ns`). Returns the next offset, and whether it is kept.

    `digests`: `piece`, the piece's SHA-256, and with the last piece `whole`, the file's. Raises OffsetMismatch, NotFound,
    DiskLow; Conflict `not_told` where this content is not awaited, `checksum` where something arrived that was not sent.
    """
    part = _part(node=node, key=key, epoch=epoch, rank=rank)
    content = Told(part.prefix + told["path"], told["size"], told["modified_ns"])
    row = Artefact.objects.filter(job=part.job, path=content.path).first()
    if row is not None and content.is_kept(row):
        return content.size, True
    if row is None or not content.is_coming(row):
        raise Conflict("not_told", "This content is not awaited; tell of it first.")
    if offset + len(data) > content.size:
        raise BerthError("too_long", "There are more bytes than were told of.", field="offset")
    if hashlib.sha256(data).hexdigest() != digests["piece"]:
        raise Conflict("checksum", "The piece is not what its checksum says; send it again.")
    room_require()
    length = store.append(part.job.key, row.incoming, data, at=offset)
    if length != offset + len(data):
        raise OffsetMismatch(length)
    if length < content.size:
        return length, False
    return _finish(part, content, row.incoming, whole=digests["whole"]), True


def _finish(part: Part, content: Told, name: str, *, whole: str) -> int:
    """Put a whole content in its place, unless a newer one is awaited by now."""
    found = store.seal(part.job.key, name)
    if found != whole:
        store.drop(part.job.key, [name])
        raise OffsetMismatch(0)
    with transaction.atomic():
        account = Account(part.job)
        row = Artefact.objects.filter(job=part.job, path=content.path, incoming=name).first()
        if row is None:
            raise Conflict("not_told", "This content is no longer awaited; tell of it again.")
        transaction.on_commit(partial(store.drop, part.job.key, [row.blob]))
        row.size, row.modified_ns, row.sha256, row.blob = content.size, content.modified_ns, found, name
        row.told_size, row.incoming, row.reason, row.kept_at = None, "", "", timezone.now()
        account.count(row)
        row.save()
        account.save()
    live_event(stream=f"job:{part.job.pk}", topic="artefacts", id=part.job.pk)
    return content.size
