"""How many sockets a person may hold open at one portal process; a page's tab is one, and so is a log that is followed."""

from __future__ import annotations

from collections import Counter

MOST_SOCKETS = 40
SIGNED_OUT, TOO_MANY = 4401, 4429
"""Codes with which a socket is closed."""

_open: Counter[int] = Counter()


def socket_take(user_id: int) -> bool:
    """Count a new socket of a person; False when the person has the most allowed already."""
    if _open[user_id] >= MOST_SOCKETS:
        return False
    _open[user_id] += 1
    return True


def socket_give(user_id: int) -> None:
    _open[user_id] -= 1
    if _open[user_id] <= 0:
        del _open[user_id]
