"""Jobs over REST: submit, list, show, act, read logs; and waiting for an end or following a log, by several requests."""

from __future__ import annotations

import json
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from berth_client.errors import AwayError
from berth_client.rest import Rest, operation, part, path_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from berth_client.fields import JobDescription
    from berth_client.shapes import ArtefactPage, Explanation, Imported, Job, JobDetail, LogPiece, Offers, Page, Plan

T = TypeVar("T")
FINAL = frozenset({"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL"})

POLL_S = 1.0
FOLLOW_S = 20
PATIENCE_S = 600.0
"""How long a waiting call retries a portal that does not answer."""


class Jobs(Rest):
    @operation("GET", "/jobs")
    def jobs_list(
        self,
        *,
        state: str | Sequence[str] | None = None,
        tenant: str | None = None,
        owner: str | None = None,
        category: str | None = None,
        label: str | None = None,
        node: str | None = None,
        name: str | None = None,
        array: int | None = None,
        since: str | None = None,
        until: str | None = None,
        started_since: str | None = None,
        started_until: str | None = None,
        ended_since: str | None = None,
        ended_until: str | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Job]: ...

    def jobs_submit(self, description: JobDescription, *, idempotency_key: str | None = None) -> JobDetail:
        """Submit a job, once only: when no answer comes it is sent again under one key (yours, or one made here)."""
        found: JobDetail = self.ask_once("/jobs", description, idempotency_key)
        return found

    def jobs_plan(self, description: JobDescription) -> Plan:
        found: Plan = self.ask("POST", "/jobs/plan", body=description)
        return found

    def jobs_import(
        self,
        text: str,
        *,
        format: str | None = None,  # noqa: A002 - as in REST
        arguments: Sequence[str] = (),
    ) -> Imported:
        """Read a batch script for sbatch, or YAML, as a description; nothing is submitted. `arguments`: the script's."""
        body: dict[str, Any] = {"text": text} | ({"format": format} if format else {})
        body |= {"arguments": list(arguments)} if arguments else {}
        found: Imported = self.ask("POST", "/jobs/import", body=body)
        return found

    @operation("GET", "/jobs/{number}")
    def jobs_show(self, number: int | str) -> JobDetail: ...

    @operation("GET", "/jobs/{number}/description")
    def jobs_description(self, number: int | str, *, begin_with: str | None = None) -> JobDescription:
        """Return the job's description; `begin_with`: an artefact of it, or folder with a / at its end, as `inputs`."""

    @operation("PATCH", "/jobs/{number}")
    def jobs_change(
        self,
        number: int | str,
        *,
        priority: int | None = None,
        name: str | None = None,
        labels: dict[str, str] | None = None,
        time_limit_s: int | None = None,
        gpus: Any = None,
    ) -> JobDetail:
        """Change a waiting job, or make a running one's time limit longer. None leaves a thing as it is."""

    @operation("GET", "/jobs/{number}/similar")
    def jobs_similar(self, number: int | str) -> dict[str, Any]: ...

    @operation("GET", "/jobs/{number}/explain")
    def jobs_explain(self, number: int | str, *, what_if: bool = False) -> Explanation: ...

    @operation("GET", "/jobs/{number}/offers")
    def jobs_offers(self, number: int | str) -> Offers: ...

    @operation("POST", "/jobs/{number}/offers")
    def jobs_offer_accept(self, number: int | str, *, change: str, value: Any) -> JobDetail:
        """Take an offer of `jobs_offers`: it is planned again first, and changes nothing where it no longer holds (409)."""

    @operation("GET", "/jobs/{number}/artefacts")
    def jobs_artefacts(
        self,
        number: int | str,
        *,
        under: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> ArtefactPage:
        """List the files in a job's `$BERTH_ARTEFACTS`, by path; `under`: below that folder."""

    def jobs_artefacts_tar(self, number: int | str, *, under: str | None = None, Range: str | None = None) -> bytes:  # noqa: N803 - the header's name
        """Return all that a job wrote as a tar, or a range of its bytes, in memory."""
        headers = {"Range": Range} if Range else None
        return self.call("GET", f"/jobs/{part(number)}/artefacts.tar", query={"under": under}, headers=headers)

    def jobs_artefact_get(self, number: int | str, path: str, *, Range: str | None = None) -> bytes:  # noqa: N803 - the header's name
        """Return one file that a job wrote, or a range of its bytes, in memory; `downloads.artefact_save` writes to a file."""
        headers = {"Range": Range} if Range else None
        return self.call("GET", f"/jobs/{part(number)}/artefacts/{path_parts(path)}", headers=headers)

    def jobs_artefacts_remove(self, number: int | str) -> int:
        """Remove all that a job wrote; return how many files."""
        return int(self.ask("DELETE", f"/jobs/{part(number)}/artefacts")["removed"])

    def jobs_artefact_remove(self, number: int | str, path: str) -> int:
        """Remove one file that a job wrote, or a folder of them; return how many files."""
        return int(self.ask("DELETE", f"/jobs/{part(number)}/artefacts/{path_parts(path)}")["removed"])

    @operation("POST", "/jobs/{number}/cancel")
    def jobs_cancel(self, number: int | str) -> JobDetail: ...

    @operation("POST", "/jobs/{number}/hold")
    def jobs_hold(self, number: int | str) -> JobDetail: ...

    @operation("POST", "/jobs/{number}/release")
    def jobs_release(self, number: int | str) -> JobDetail: ...

    @operation("POST", "/jobs/{number}/keep")
    def jobs_keep(self, number: int | str) -> JobDetail:
        """Let the idle time of a running job with an idle time-out begin anew."""

    @operation("POST", "/jobs/{number}/requeue")
    def jobs_requeue(self, number: int | str) -> JobDetail: ...

    def jobs_retry(self, number: int | str, *, state: str | Sequence[str] | None = None) -> JobDetail:
        found: JobDetail = self.ask("POST", f"/jobs/{part(number)}/retry", query={"state": state})
        return found

    @operation("GET", "/jobs/{number}/logs")
    def jobs_logs(
        self,
        number: int | str,
        *,
        attempt: int | None = None,
        profile: int | None = None,
        rank: int | None = None,
        stream: Literal["stdout", "stderr"] | None = None,
        cursor: str | None = None,
        offset: int | None = None,
        tail: int | None = None,
        since: str | None = None,
        follow: bool = False,
        wait: int | None = None,
    ) -> LogPiece: ...

    def jobs_wait(self, number: int | str, *, on_state: Callable[[JobDetail], object] | None = None) -> JobDetail:
        """Return the job once it has ended. `on_state` is called with it at first and whenever its state has changed.

        A portal that does not answer is asked again for ten minutes.
        """
        state = None
        while True:
            job = self._patiently(lambda: self.jobs_show(number))
            if on_state is not None and job["state"] != state:
                state = job["state"]
                on_state(job)
            if job["state"] in FINAL:
                return job
            time.sleep(POLL_S)

    def _patiently(self, ask: Callable[[], T]) -> T:
        since_s = time.monotonic()
        while True:
            try:
                return ask()
            except AwayError:
                if time.monotonic() - since_s > PATIENCE_S:
                    raise
            time.sleep(POLL_S)

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
        for text in self.receive(f"/ws/jobs/{part(number)}/logs", query=query):
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
