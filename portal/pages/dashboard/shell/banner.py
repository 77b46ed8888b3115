"""The one line above a page: an operator's announcement; for a tenant, once, the meaning of a single account."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.db.models import Count, Value

from portal.cluster.models import Node
from portal.foundation.disk import disk_state
from portal.foundation.events.shared import Sharing
from portal.planning.rounds.models import OperatorSetting
from portal.work.notifications.announcing import FRAME, announcements_current

if TYPE_CHECKING:
    from django.http import HttpRequest

    from portal.pages.dashboard.parts.context import Banner

BANNER_EVERY_S = 10.0
DISMISSED = "berth-dismissed"
"""The cookie of the lines that the reader has put away, as base.js writes it: keys with a dot between them."""
ACCOUNTS = "accounts"


def frame_told() -> dict[str, Any]:
    """Return `announced`, a banner or None, and `shown`, the settings by which tenants see more entries in the menu."""
    return Sharing().get(FRAME, _told, every_s=BANNER_EVERY_S)


def _told(_: Sharing) -> dict[str, Any]:
    """One query for both: a setting's row has 0 in place of an announcement's number."""
    on = OperatorSetting.objects.filter(name__in=("figures_shown", "laboratory_shown"), value="on").order_by()
    rows = list(announcements_current().values_list("pk", "text").union(on.values_list(Value(0), "name")))
    last = max(rows, default=(0, ""))
    return {
        "announced": {"key": f"a{last[0]}", "text": last[1]} if last[0] else None,
        "shown": [name for number, name in rows if not number],
    }


def banner_of(request: HttpRequest, announced: Banner | None) -> Banner | None:
    """Return the first line that the reader has not put away. Operators have the accounts among their problems."""
    if (disk := disk_state()).low:
        return {"key": "", "text": f"{disk.sentence}."}
    put_away = request.COOKIES.get(DISMISSED, "").split(".")
    if announced and announced["key"] not in put_away:
        return announced
    if request.user.is_operator or settings.DEMO or ACCOUNTS in put_away:
        return None
    text = accounts_words()
    return {"key": ACCOUNTS, "text": text} if text else None


def _accounts(_: Sharing) -> list[tuple[bool, bool | None, int]]:
    """Return (all jobs share one account, its walls stand, how many nodes). It reads each node's row, so not for every page."""
    told = Node.objects.alive().order_by().values_list("single_account", "isolation__files")  # no order: it would group
    return list(told.annotate(nodes=Count("pk")))


def accounts_words() -> str | None:
    """Say where jobs of all tenants run as one account, and how far they are apart there; None: nowhere."""
    told = Sharing().get("accounts", _accounts, every_s=BANNER_EVERY_S)
    found = {files for alone, files, _ in told if alone}
    if not found:
        return None
    nodes, shared = sum(count for *_, count in told), sum(count for alone, _, count in told if alone)
    where = "" if shared == nodes else f" on {shared} of {nodes} nodes"
    begin = f"All jobs run as one account{where}"
    if found == {True}:
        return f"{begin} and can read its other files, but neither Berth's own nor each other's directories."
    return f"{begin} and can read each other's files; where a node does not keep them out, Berth's own as well."
