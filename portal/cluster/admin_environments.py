"""Named software environments, for operators: added, changed and removed; each shows which nodes have it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from portal.cluster.selectors import software_told
from portal.cluster.services import environments
from portal.foundation.console.base import Command, ConsoleAdmin, adopt, always

if TYPE_CHECKING:
    from django import forms
    from django.db.models import Model
    from django.http import HttpRequest

    from portal.cluster.named import NamedEnvironment

SHOWN = 20


def _remove(environment: NamedEnvironment, actor: Any) -> None:
    environments.environment_remove(environment=environment, actor=actor)


class NamedEnvironmentAdmin(ConsoleAdmin):
    may_add = may_change = True
    list_display = ("name", "directory", "note", "offered_by")
    search_fields = ("name",)
    commands = (
        Command(
            "remove",
            "Remove",
            "Jobs can ask for it no more. What lies on nodes stays there, and what runs in it runs on.",
            _remove,
            always,
            is_destructive=True,
        ),
    )

    def get_fields(self, request: HttpRequest, obj: NamedEnvironment | None = None) -> tuple[str, ...]:
        return ("name", "directory", "note", *(("offered_by", "not_offered_by") if obj else ()))

    def get_readonly_fields(self, request: HttpRequest, obj: NamedEnvironment | None = None) -> tuple[str, ...]:
        return ("name", "offered_by", "not_offered_by") if obj else ()

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found = super().get_changelist_instance(request)
        told = software_told()
        for row in found.result_list:
            row.told = told
        return found

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        found = super().get_object(request, object_id, from_field)
        if found is not None:
            found.told = software_told()
        return found

    def _after(self, objects: list[Model]) -> str:
        return self._list_url()  # its own page may be gone

    @admin.display(description="Nodes that have it")
    def offered_by(self, obj: Any) -> str:
        having = [name for name, told in obj.told.items() if obj.name in told.get("environments", ())]
        more = f" and {len(having) - SHOWN} more" if len(having) > SHOWN else ""
        return f"{len(having)}: {', '.join(having[:SHOWN])}{more}" if having else "none yet"

    @admin.display(description="Nodes that do not, and why")
    def not_offered_by(self, obj: Any) -> str:
        key = f"environment:{obj.name}"
        lacking = [(name, told["missing"][key]) for name, told in obj.told.items() if key in told.get("missing", ())]
        said = [f"{name}: {why}" for name, why in lacking[:SHOWN]]
        more = [f"and {len(lacking) - SHOWN} more"] if len(lacking) > SHOWN else []
        return "; ".join([*said, *more]) or "none"

    def save_model(self, request: HttpRequest, obj: NamedEnvironment, form: forms.ModelForm, change: bool) -> None:
        values = {name: form.cleaned_data[name] for name in ("directory", "note")}
        if change:
            made = environments.environment_change(environment=obj, actor=request.user, **values)
        else:
            made = environments.environment_add(name=form.cleaned_data["name"], actor=request.user, **values)
        adopt(obj, made)
