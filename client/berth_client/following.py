"""A log that is followed: by a WebSocket where one opens, else by requests that wait; on after every break."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from berth_client.jobs import FINAL, POLL_S, Jobs
from berth_client.rest import part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from berth_client.shapes import LogPiece

FOLLOW_S = 20


class Following(Jobs):
    def jobs_follow(
        self,
        number: int | str,
        *,
        attempt: int | None = None,
        rank: int | None = None,
        stream: Literal["stdout", "stderr"] | None = None,
        tail: int | None = None,
        since: str | None = None,
    ) -> Iterator[LogPiece]:
        """Yield the output as it comes, from attempt to attempt, until the job has ended; of `attempt`: until that has.

        Through a connection that breaks it goes on where it was: no line is missing and none comes twice.
        """
        only = attempt is not None
        query: dict[str, Any] = {"attempt": attempt, "rank": rank, "stream": stream, "tail": tail, "since": since}
        while True:
            asked_s = time.monotonic()
            piece = None
            for piece in self._pieces(number, dict(query)):
                if (
                    piece["attempt"] is not None
                ):  # from here on it is this attempt's, also when another begins meanwhile
                    query |= {"attempt": piece["attempt"], "cursor": piece["next"], "tail": None, "since": None}
                if piece["text"] or piece.get("open"):
                    yield piece
            if piece is not None and piece["complete"]:
                following = None if only else self._attempt_after(number, piece["attempt"])
                if following is None:
                    return
                query |= {"attempt": following, "cursor": None}
            elif time.monotonic() - asked_s < POLL_S and not (piece and piece["text"]):
                time.sleep(POLL_S)  # too many follow logs: it was answered at once

    def _pieces(self, number: int | str, query: dict[str, Any]) -> Iterator[LogPiece]:
        """Yield the messages of one connection: a WebSocket until it ends or breaks, else one answer."""
        heard = False
        for text in self.heard(f"/ws/jobs/{part(number)}/logs", query=query):
            heard = True
            yield cast("LogPiece", json.loads(text))
        if not heard:  # the portal's answer says what is wrong, if anything is
            yield self._patiently(partial(self.jobs_logs, number, follow=True, wait=FOLLOW_S, **query))

    def _attempt_after(self, number: int | str, attempt: int | None) -> int | None:
        """Return the attempt that follows once it has begun; None when the job ends without another."""
        while True:
            job = self._patiently(lambda: self.jobs_show(number))
            if attempt is not None and job["epoch"] > attempt:
                return attempt + 1
            if job["state"] in FINAL:
                return None
            time.sleep(POLL_S)
