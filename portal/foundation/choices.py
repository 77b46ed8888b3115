"""Django's text choices, with types that a checker understands: Django ships none, so it sees a member as a plain tuple."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from enum import StrEnum
    from typing import Self

    class TextChoices(StrEnum):
        """`django.db.models.TextChoices` for the checker: a member is its value, and has a label."""

        _value_: str
        value: str
        values: list[str]
        choices: list[tuple[str, str]]

        def __new__(cls, value: str, label: str = "") -> Self: ...

        @property
        def label(self) -> str: ...

else:
    from django.db.models import TextChoices

__all__ = ["TextChoices"]
