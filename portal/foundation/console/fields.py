"""Fields of the console's forms and lists in the portal's look: inputs, times in the reader's zone, a range of times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import DateTimeField
from django.utils.html import format_html

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from datetime import datetime

    from django.db.models import Model, QuerySet
    from django.http import HttpRequest
    from django.utils.safestring import SafeString


def dress(field: forms.Field) -> None:
    """Give a field's input the class of the portal's inputs."""
    widget = getattr(field.widget, "widget", field.widget)  # Django wraps those of relations
    kind = "b-input"
    if isinstance(widget, forms.CheckboxInput):
        kind = "b-check"
    elif isinstance(widget, forms.Select):
        kind = "b-select"
    elif isinstance(widget, forms.Textarea):
        kind = "b-textarea"
        widget.attrs["rows"] = 4
    widget.attrs["class"] = kind


class ConsoleForm(forms.Form):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            dress(field)


def moment(at: datetime | None) -> SafeString:
    """Return a time, which base.js prints in the reader's zone."""
    if at is None:
        return format_html("{}", "\u2013")
    return format_html('<time datetime="{}" data-format="date">{}</time>', at.isoformat(), f"{at:%Y-%m-%d %H:%M}")


COLUMNS: dict[tuple[str, str], Callable[[Any], SafeString]] = {}
"""By model and field; Django compares columns, so each is made once."""


def when(model: type[Model], name: str) -> Callable[[Any], SafeString]:
    """Return the column that shows this time of a model."""
    key = (str(model._meta.label), name)  # noqa: SLF001 - Django's own API
    if key in COLUMNS:
        return COLUMNS[key]

    @admin.display(description=model._meta.get_field(name).verbose_name, ordering=name)  # noqa: SLF001
    def value(obj: Any) -> SafeString:
        return moment(getattr(obj, name))

    value.__name__ = name  # it names the column's class and its place in the order
    COLUMNS[key] = value
    return COLUMNS[key]


def with_times(model: type[Model], names: Iterable[Any]) -> tuple[Any, ...]:
    """Return names of columns or fields, with `when` in the place of each time."""

    def is_time(name: Any) -> bool:
        try:
            return isinstance(name, str) and isinstance(model._meta.get_field(name), DateTimeField)  # noqa: SLF001
        except FieldDoesNotExist:
            return False

    return tuple(when(model, name) if is_time(name) else name for name in names)


class TimeRange(admin.FieldListFilter):
    """Rows from one time until another; console.js writes both into the address with the reader's zone."""

    template = "admin/range.html"

    def __init__(self, *args: Any, field_path: str) -> None:
        self.names = {f"{field_path}__gte": "From", f"{field_path}__lt": "Until"}
        super().__init__(*args, field_path=field_path)

    def expected_parameters(self) -> list[str]:
        return list(self.names)

    def queryset(self, _request: HttpRequest, queryset: QuerySet) -> QuerySet:
        try:
            return queryset.filter(**{name: values[-1] for name, values in self.used_parameters.items() if values[-1]})
        except (ValueError, ValidationError) as error:
            raise IncorrectLookupParameters(error) from error

    def choices(self, changelist: Any) -> Iterator[dict[str, Any]]:
        kept = {name: value for name, value in changelist.get_filters_params().items() if name not in self.names}
        kept |= {"q": [changelist.query]} if changelist.query else {}
        given = {name: (self.used_parameters.get(name) or [""])[-1] for name in self.names}
        yield {
            "inputs": [(name, label, given[name]) for name, label in self.names.items()],
            "kept": [(name, each) for name, values in kept.items() for each in values],
            "selected": not any(given.values()),
            "display": "any time" if not any(given.values()) else "chosen",
            "query_string": changelist.get_query_string(remove=self.expected_parameters()),
        }
