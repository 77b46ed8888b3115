"""What Django's resolver knows, flat: (name with namespace, its pattern, the view)."""

from __future__ import annotations

from django.urls import URLResolver, get_resolver, reverse

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")


def routes():
    return list(_walk(get_resolver().url_patterns, "", ""))


def _walk(patterns, prefix, namespace):
    for each in patterns:
        pattern = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            inner = f"{namespace}{each.namespace}:" if each.namespace else namespace
            yield from _walk(each.url_patterns, pattern, inner)
        else:
            yield f"{namespace}{each.name or ''}", pattern, each.callback


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
