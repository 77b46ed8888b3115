"""Secrets of a tenant over REST: it shows their names, and never their values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth_client.rest import Rest, part

if TYPE_CHECKING:
    from berth_client.shapes import Page, Secret


class Secrets(Rest):
    def secrets_list(
        self,
        *,
        tenant: str | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Secret]:
        query = {"tenant": tenant, "ordering": ordering, "after": after, "page": page, "page_size": page_size}
        found: Page[Secret] = self.ask("GET", "/secrets", query=query)
        return found

    def secrets_set(self, *, name: str, value: str, tenant: str | None = None) -> Secret:
        """Set a secret, a new one or another value of the one with its name."""
        body: dict[str, Any] = {"name": name, "value": value} | ({"tenant": tenant} if tenant else {})
        found: Secret = self.ask("POST", "/secrets", body=body)
        return found

    def secrets_remove(self, name: str, *, tenant: str | None = None) -> None:
        self.call("DELETE", f"/secrets/{part(name)}", query={"tenant": tenant})
