"""What the account page's templates are given; `parts.context` has the rules, and what pages share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from portal.pages.dashboard.parts.context import FieldContext


class TokenRow(TypedDict):
    id: int
    name: str
    prefix: str
    tenant: str
    scopes: str
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked: bool


class TokensContext(TypedDict):
    """The account page. `fresh` is the secret, given once, in the answer to the POST that made it."""

    tokens: list[TokenRow]
    fresh: str | None
    fields: dict[str, FieldContext]  # name, tenant, scopes, expires
