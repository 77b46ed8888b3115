"""A tenant's members, invitations and usage, over REST."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth_client.rest import Rest, part

if TYPE_CHECKING:
    from collections.abc import Iterator

    from berth_client.shapes import Invitation, Member, NewInvitation, Page, Usage


class Tenants(Rest):
    def members_list(
        self,
        name: str,
        *,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Member]:
        found: Page[Member] = self.ask(
            "GET", _of(name, "members"), query={"after": after, "page": page, "page_size": page_size}
        )
        return found

    def members_each(self, name: str) -> Iterator[Member]:
        yield from self.each(_of(name, "members"), query={})  # type: ignore[misc] # rows are what REST says they are

    def members_change(self, name: str, username: str, *, role: str) -> Member:
        found: Member = self.ask("PATCH", _of(name, "members", username), body={"role": role})
        return found

    def members_remove(self, name: str, username: str) -> None:
        """Remove a member; the person's tokens for the tenant and browser sessions end at once."""
        self.ask("DELETE", _of(name, "members", username))

    def invitations_list(
        self,
        name: str,
        *,
        after: str | None = None,
        page: int | None = None,
        page_size: int | None = None,
    ) -> Page[Invitation]:
        query = {"after": after, "page": page, "page_size": page_size}
        found: Page[Invitation] = self.ask("GET", _of(name, "invitations"), query=query)
        return found

    def invitations_make(self, name: str, *, role: str, days: int | None = None) -> NewInvitation:
        """Make a link that works once; only this answer has its `url`."""
        body: dict[str, Any] = {"role": role} | ({} if days is None else {"days": days})
        found: NewInvitation = self.ask("POST", _of(name, "invitations"), body=body)
        return found

    def invitations_withdraw(self, name: str, number: int | str) -> None:
        self.ask("DELETE", _of(name, "invitations", number))

    def usage_show(
        self,
        name: str,
        *,
        since: str | None = None,
        until: str | None = None,
        format: str | None = None,  # noqa: A002 - as in REST
    ) -> Usage | str:
        """Return the members' use; with `format` csv that text."""
        query = {"since": since, "until": until, "format": format}
        if format == "csv":
            return self.call("GET", _of(name, "usage"), query=query).decode()
        found: Usage = self.ask("GET", _of(name, "usage"), query=query)
        return found


def _of(name: str, *parts: object) -> str:
    return "/".join(["/tenants", *map(part, (name, *parts))])
