"""The laboratory's simulations and traces, over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth_client.rest import Rest, part

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from berth_client.shapes import Page

Found = dict[str, Any]


class Laboratory(Rest):
    def simulations_ask(self, order: Mapping[str, Any], *, idempotency_key: str | None = None) -> Found:
        """Ask for a simulation, once only: when no answer comes it is sent again under one key."""
        found: Found = self.ask_once("/simulations", order, idempotency_key)
        return found

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
    ) -> Page[Found]:
        query = {
            "name": name,
            "owner": owner,
            "state": state,
            "tenant": tenant,
            "trace": trace,
            "since": since,
            "until": until,
            "ordering": ordering,
            "after": after,
            "page": page,
            "page_size": page_size,
        }
        found: Page[Found] = self.ask("GET", "/simulations", query=query)
        return found

    def simulations_each(self, *, most: int | None = None, **filters: Any) -> Iterator[Found]:
        return self.each("/simulations", query=filters, most=most)

    def simulations_show(self, number: int | str) -> Found:
        return self._found("GET", f"/simulations/{part(number)}")

    def simulations_report(self, number: int | str, *, format: str | None = None) -> bytes:  # noqa: A002 - as in REST
        """Return the report as JSON, or with `format="csv"` as CSV."""
        return self.call("GET", f"/simulations/{part(number)}/report", query={"format": format})

    def simulations_cancel(self, number: int | str) -> Found:
        return self._found("POST", f"/simulations/{part(number)}/cancel")

    def simulations_share(self, number: int | str, *, shared_with: str) -> Found:
        return self._found("POST", f"/simulations/{part(number)}/share", body={"shared_with": shared_with})

    def simulations_delete(self, number: int | str) -> None:
        self.call("DELETE", f"/simulations/{part(number)}")

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
    ) -> Page[Found]:
        query = {
            "format": format,
            "name": name,
            "origin": origin,
            "owner": owner,
            "tenant": tenant,
            "ordering": ordering,
            "after": after,
            "page": page,
            "page_size": page_size,
        }
        found: Page[Found] = self.ask("GET", "/simulations/traces", query=query)
        return found

    def traces_each(self, *, most: int | None = None, **filters: Any) -> Iterator[Found]:
        return self.each("/simulations/traces", query=filters, most=most)

    def traces_upload(
        self,
        content: bytes,
        *,
        format: str,  # noqa: A002 - as in REST
        name: str | None = None,
        tenant: str | None = None,
    ) -> Found:
        query = {"format": format, "name": name, "tenant": tenant}
        return self._found("POST", "/simulations/traces", query=query, content=content)

    def traces_history(self, *, days: float, name: str | None = None, tenant: str | None = None) -> Found:
        return self._found("POST", "/simulations/traces/history", body={"days": days, "name": name, "tenant": tenant})

    def traces_show(self, number: int | str) -> Found:
        return self._found("GET", f"/simulations/traces/{part(number)}")

    def traces_share(self, number: int | str, *, shared_with: str) -> Found:
        return self._found("POST", f"/simulations/traces/{part(number)}/share", body={"shared_with": shared_with})

    def traces_delete(self, number: int | str) -> None:
        self.call("DELETE", f"/simulations/traces/{part(number)}")

    def _found(self, method: str, path: str, **more: Any) -> Found:
        found: Found = self.ask(method, path, **more)
        return found
