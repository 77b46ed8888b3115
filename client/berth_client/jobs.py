"""Jobs over REST: submit, list, show, act, read logs; and waiting for an end, which needs several requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from berth_client.errors import AwayError
from berth_client.rest import Rest, part, path_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from berth_client.fields import JobDescription
    from berth_client.shapes import (
        Artefact,
        ArtefactPage,
        Explanation,
        Imported,
        Job,
        JobDetail,
        LogPiece,
        Offers,
        Page,
        Plan,
    )

T = TypeVar("T")
FINAL = frozenset({"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL"})

POLL_S = 1.0
PATIENCE_S = 600.0
"""How long a waiting call retries a portal that does not answer."""


class Jobs(Rest):
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
    ) -> Page[Job]:
        query = {
            "state": state,
            "tenant": tenant,
            "owner": owner,
            "category": category,
            "label": label,
            "node": node,
            "name": name,
            "array": array,
            "since": since,
            "until": until,
            "started_since": started_since,
            "started_until": started_until,
            "ended_since": ended_since,
            "ended_until": ended_until,
            "ordering": ordering,
            "after": after,
            "page": page,
            "page_size": page_size,
        }
        found: Page[Job] = self.ask("GET", "/jobs", query=query)
        return found

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

    def jobs_show(self, number: int | str) -> JobDetail:
        return self._job("GET", number)

    def jobs_description(self, number: int | str, *, begin_with: str | None = None) -> JobDescription:
        """Return the job's description; `begin_with`: an artefact of it, or folder with a / at its end, as `inputs`."""
        found: JobDescription = self.ask("GET", f"/jobs/{part(number)}/description", query={"begin_with": begin_with})
        return found

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
        wanted = {"priority": priority, "name": name, "labels": labels, "time_limit_s": time_limit_s, "gpus": gpus}
        return self._job("PATCH", number, body={key: value for key, value in wanted.items() if value is not None})

    def jobs_explain(self, number: int | str, *, what_if: bool = False) -> Explanation:
        query = {"what_if": True} if what_if else None
        found: Explanation = self.ask("GET", f"/jobs/{part(number)}/explain", query=query)
        return found

    def jobs_offers(self, number: int | str) -> Offers:
        found: Offers = self.ask("GET", f"/jobs/{part(number)}/offers")
        return found

    def jobs_offer_accept(self, number: int | str, *, change: str, value: Any) -> JobDetail:
        """Take an offer of `jobs_offers`: it is planned again first, and changes nothing where it no longer holds (409)."""
        return self._job("POST", number, "/offers", body={"change": change, "value": value})

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
        query = {"under": under, "after": after, "page": page, "page_size": page_size}
        found: ArtefactPage = self.ask("GET", f"/jobs/{part(number)}/artefacts", query=query)
        return found

    def jobs_artefacts_each(self, number: int | str, *, under: str | None = None) -> Iterator[Artefact]:
        path = f"/jobs/{part(number)}/artefacts"
        yield from self.each(path, query={"under": under})  # type: ignore[misc] # rows are what REST says they are

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

    def jobs_cancel(self, number: int | str) -> JobDetail:
        return self._job("POST", number, "/cancel")

    def jobs_hold(self, number: int | str) -> JobDetail:
        return self._job("POST", number, "/hold")

    def jobs_release(self, number: int | str) -> JobDetail:
        return self._job("POST", number, "/release")

    def jobs_keep(self, number: int | str) -> JobDetail:
        """Let the idle time of a running job with an idle time-out begin anew."""
        return self._job("POST", number, "/keep")

    def jobs_requeue(self, number: int | str) -> JobDetail:
        return self._job("POST", number, "/requeue")

    def jobs_retry(self, number: int | str, *, state: str | Sequence[str] | None = None) -> JobDetail:
        return self._job("POST", number, "/retry", query={"state": state})

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
    ) -> LogPiece:
        query = {
            "attempt": attempt,
            "profile": profile,
            "rank": rank,
            "stream": stream,
            "cursor": cursor,
            "offset": offset,
            "tail": tail,
            "since": since,
            "follow": True if follow else None,
            "wait": wait,
        }
        found: LogPiece = self.ask("GET", f"/jobs/{part(number)}/logs", query=query)
        return found

    def jobs_each(self, *, most: int | None = None, **filters: Any) -> Iterator[Job]:
        """Yield the jobs of `jobs_list(**filters)`, page by page, at most `most`."""
        yield from self.each("/jobs", query=filters, most=most)  # type: ignore[misc] # rows are what REST says they are

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

    def _job(self, method: str, number: int | str, verb: str = "", **more: Any) -> JobDetail:
        found: JobDetail = self.ask(method, f"/jobs/{part(number)}{verb}", **more)
        return found
