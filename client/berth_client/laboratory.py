"""The laboratory's simulations and traces, over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth_client.rest import Rest, operation, part

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from berth_client.shapes import Page

Found = dict[str, Any]


class Laboratory(Rest):
    def simulations_ask(self, order: Mapping[str, Any], *, idempotency_key: str | None = None) -> Found:
        """Ask for a simulation, once only: when no answer comes it is sent again under one key."""
        found: Found = self.ask_once("/simulations", order, idempotency_key)
        return found

    @operation("GET", "/simulations")
    def simulations_list(
        self,
        *,
        name: str | None = None,
        owner: str | None = None,
        state: str | Sequence[str] | None = None,
        tenant: str | None = None,
        trace: int | None = None,
        since: str | None = None,
        until: str | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Found]: ...

    @operation("GET", "/simulations/{number}")
    def simulations_show(self, number: int | str) -> Found: ...

    def simulations_report(self, number: int | str, *, format: str | None = None) -> bytes:  # noqa: A002 - as in REST
        """Return the report as JSON, or with `format="csv"` as CSV."""
        return self.call("GET", f"/simulations/{part(number)}/report", query={"format": format})

    @operation("POST", "/simulations/{number}/cancel")
    def simulations_cancel(self, number: int | str) -> Found: ...

    @operation("POST", "/simulations/{number}/share")
    def simulations_share(self, number: int | str, *, shared_with: str) -> Found: ...

    @operation("DELETE", "/simulations/{number}")
    def simulations_delete(self, number: int | str) -> None: ...

    @operation("GET", "/simulations/traces")
    def traces_list(
        self,
        *,
        format: str | None = None,  # noqa: A002 - as in REST
        name: str | None = None,
        origin: str | None = None,
        owner: str | None = None,
        tenant: str | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Found]: ...

    def traces_upload(
        self,
        content: bytes,
        *,
        format: str,  # noqa: A002 - as in REST
        name: str | None = None,
        tenant: str | None = None,
    ) -> Found:
        query = {"format": format, "name": name, "tenant": tenant}
        found: Found = self.ask("POST", "/simulations/traces", query=query, content=content)
        return found

    @operation("POST", "/simulations/traces/history")
    def traces_history(self, *, days: float, name: str | None = None, tenant: str | None = None) -> Found: ...

    @operation("GET", "/simulations/traces/{number}")
    def traces_show(self, number: int | str) -> Found: ...

    @operation("POST", "/simulations/traces/{number}/share")
    def traces_share(self, number: int | str, *, shared_with: str) -> Found: ...

    @operation("DELETE", "/simulations/traces/{number}")
    def traces_delete(self, number: int | str) -> None: ...
