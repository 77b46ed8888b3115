"""Rights to follow a live stream, by the stream's kind.

Apart from `live_rights`, since rooms above add their kinds as Django starts: every process that sets Django up reads
this, and not each of them needs the board and all that it imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from portal.cluster.selectors import node_get
from portal.work.jobs.selectors import job_get

if TYPE_CHECKING:
    from collections.abc import Callable

    from portal.people.tenants.models import User

SEEN_BY: dict[str, Callable[[User, str], object]] = {
    "job": lambda user, number: job_get(user=user, job_id=number),
    "node": lambda user, name: node_get(user=user, name=name),
}
"""Kind of stream -> what raises BerthError unless the user may see what it is of. Rooms above add theirs in `apps.ready()`."""
