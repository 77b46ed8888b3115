"""Takes messages from a socket of the portal, and notices when the portal is gone."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from berth_client.errors import AwayError

if TYPE_CHECKING:
    from berth_client.duplex import Duplex

PING_S, SILENCE_S = 15.0, 45.0


class Heart:
    def __init__(self, talk: Duplex) -> None:
        self._talk = talk
        self._heard_s = self._asked_s = time.monotonic()

    def take(self) -> list[bytes | str]:
        """Return the messages that came. Asks a silent portal, and raises AwayError when it says nothing for long."""
        messages, heard = self._talk.take()
        now = time.monotonic()
        if heard:
            self._heard_s = self._asked_s = now
        elif now - self._heard_s > SILENCE_S:
            raise AwayError(
                f"the portal has said nothing for {SILENCE_S:g} s, so the connection is lost; the job runs on"
            )
        elif now - self._asked_s > PING_S:
            self._asked_s = now
            self._talk.ping()
        return messages
