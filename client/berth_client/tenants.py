"""A tenant's members, invitations, usage and secrets, over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth_client.rest import Rest, operation, part

if TYPE_CHECKING:
    from berth_client.shapes import Invitation, Member, NewInvitation, Page, Secret, Usage


class Tenants(Rest):
    @operation("GET", "/tenants/{name}/members")
    def members_list(
        self, name: str, *, after: str | None = None, page: int | None = None, page_size: int | None = None
    ) -> Page[Member]: ...

    @operation("PATCH", "/tenants/{name}/members/{username}")
    def members_change(self, name: str, username: str, *, role: str) -> Member: ...

    @operation("DELETE", "/tenants/{name}/members/{username}")
    def members_remove(self, name: str, username: str) -> None:
        """Remove a member; the person's tokens for the tenant and browser sessions end at once."""

    @operation("GET", "/tenants/{name}/invitations")
    def invitations_list(
        self, name: str, *, after: str | None = None, page: int | None = None, page_size: int | None = None
    ) -> Page[Invitation]: ...

    @operation("POST", "/tenants/{name}/invitations")
    def invitations_make(self, name: str, *, role: str, days: int | None = None) -> NewInvitation:
        """Make a link that works once; only this answer has its `url`."""

    @operation("DELETE", "/tenants/{name}/invitations/{number}")
    def invitations_withdraw(self, name: str, number: int | str) -> None: ...

    def usage_show(
        self,
        name: str,
        *,
        since: str | None = None,
        until: str | None = None,
        format: str | None = None,  # noqa: A002 - as in REST
    ) -> Usage | str:
        """Return the members' use; with `format` csv that text."""
        path, query = f"/tenants/{part(name)}/usage", {"since": since, "until": until, "format": format}
        if format == "csv":
            return self.call("GET", path, query=query).decode()
        found: Usage = self.ask("GET", path, query=query)
        return found

    @operation("GET", "/secrets")
    def secrets_list(
        self,
        *,
        tenant: str | None = None,
        ordering: str | None = None,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Secret]:
        """List the names of secrets; no operation shows a value."""

    @operation("POST", "/secrets")
    def secrets_set(self, *, name: str, value: str, tenant: str | None = None) -> Secret:
        """Set a secret, a new one or another value of the one with its name."""

    @operation("DELETE", "/secrets/{name}")
    def secrets_remove(self, name: str, *, tenant: str | None = None) -> None: ...
