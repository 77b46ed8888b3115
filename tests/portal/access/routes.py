"""Paths and bodies of the table, filled with the names of a world."""

from __future__ import annotations

from django.urls import reverse

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


def filled(value, names):
    """Put names into braces, in whatever is nested; a whole value that is one name keeps its kind."""
    if isinstance(value, str):
        whole = value[1:-1] if value.startswith("{") and value.endswith("}") else None
        return names[whole] if whole in names else _format(value, names)
    if isinstance(value, dict):
        return {key: filled(item, names) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(filled(item, names) for item in value)
    return value


def _format(text, names):
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def path_of(row, names):
    path = reverse(row.route, kwargs=filled(row.args, names))
    return f"{path}?{_format(row.query, names)}" if row.query else path
