"""The parts that all pages of the operator's console share: read-only at first, and commands that call services.

The console never saves a row itself. What changes something is either a form whose `save_model` calls a service, or a
`Command`: a button and a bulk action that lead to one page which says what will happen, asks what is needed (a reason),
and calls a service for each chosen object. So every change is checked where the REST API's are, and is in the audit trail.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.admin import ModelAdmin, ShowFacets, TabularInline
from django.contrib.admin.helpers import ActionForm
from django.contrib.admin.options import BaseModelAdmin
from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.forms.models import BaseInlineFormSet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import path, reverse

from portal.foundation.console.fields import ConsoleForm, dress, with_times
from portal.foundation.errors import BerthError, NotFound

MANY = 500
"""The most objects that a command is applied to at once; each is a transaction of its own."""


def _too_many(count: int) -> str:
    return f"{count} were chosen; a command is applied to at most {MANY} at once. Nothing was done: choose fewer."


class Confirm(ConsoleForm):
    """A form without fields: the page asks for nothing but a confirmation."""


class ReasonForm(ConsoleForm):
    reason = forms.CharField(max_length=200, help_text="Shown to whoever meets the consequences.")


class DescribeForm(ConsoleForm):
    rack = forms.CharField(max_length=100, required=False)
    label = forms.CharField(max_length=100, required=False)


class HeartbeatForm(ConsoleForm):
    heartbeat_s = forms.FloatField(min_value=0.001, max_value=10.0, help_text="In seconds, 0.001 to 10.")


class GpuForm(ConsoleForm):
    index = forms.IntegerField(min_value=0, max_value=1023, help_text="Which GPU.")


class GpuReasonForm(GpuForm, ReasonForm):
    field_order = ("index", "reason")


@dataclass(frozen=True)
class Command:
    """Something an operator does to objects of one model.

    `run(obj, actor, **fields of the form)` calls a service and may return a sentence to show (a secret, once).
    `applies(obj)` says whether it makes sense now; `meaning` tells what will happen.
    """

    name: str
    label: str
    meaning: str
    run: Callable[..., str | None]
    applies: Callable[[Any], bool]
    form: type[forms.Form] = Confirm
    is_destructive: bool = False


def calls(service: Callable[..., object], subject: str, **fixed: Any) -> Callable[..., None]:
    """Return a command's `run`: it calls a service with the object as `subject`, and shows nothing of the answer."""

    def run(obj: Any, actor: Any, **values: Any) -> None:
        service(**{subject: obj}, actor=actor, **fixed, **values)

    return run


def is_operator(request: HttpRequest) -> bool:
    """Say whether the caller is an operator. On the sign-in page there is no caller yet."""
    return request.user.is_authenticated and request.user.is_operator


class OperatorOnly(BaseModelAdmin):
    """Every operator may look at everything here; changing is allowed page by page. No row is ever deleted by hand."""

    may_add = False
    may_change = False

    def has_module_permission(self, request: HttpRequest) -> bool:
        return is_operator(request)

    def has_view_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return is_operator(request)

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may_add and is_operator(request)

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return self.may_change and is_operator(request)

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        field = super().formfield_for_dbfield(db_field, request, **kwargs)
        if field is not None:
            dress(field)
        return field

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[Any, ...]:
        return with_times(self.model, super().get_readonly_fields(request, obj))

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> list[Any]:
        groups = super().get_fieldsets(request, obj)
        return [(title, {**group, "fields": with_times(self.model, group["fields"])}) for title, group in groups]


class Paged(BaseInlineFormSet):
    """A page of the rows that belong to an object; nobody edits them."""

    per_page: int | None = None
    asked: str | None = None
    page: Page | None = None

    def get_queryset(self) -> QuerySet:
        if self.per_page and self.page is None:
            self.page = Paginator(super().get_queryset(), self.per_page).get_page(self.asked)
            self._queryset = self.page.object_list
        return super().get_queryset()


class ConsoleInline(OperatorOnly, TabularInline):
    template = "admin/rows.html"
    formset = Paged
    extra = 0
    per_page: int | None = None

    def get_formset(self, request: HttpRequest, obj: Model | None = None, **kwargs: Any) -> Any:
        made = super().get_formset(request, obj, **kwargs)
        made.per_page, made.asked = self.per_page, request.GET.get(self.opts.model_name)
        return made


class DressedActions(ActionForm, ConsoleForm): ...


class ConsoleAdmin(OperatorOnly, ModelAdmin):
    commands: tuple[Command, ...] = ()
    action_form = DressedActions
    list_per_page = 50
    show_full_result_count = False
    show_facets = ShowFacets.NEVER

    def get_list_display(self, request: HttpRequest) -> tuple[Any, ...]:
        return with_times(self.model, super().get_list_display(request))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return one bulk action for each command. It opens the command's page with the chosen rows."""
        return {command.name: (self._bulk(command), command.name, command.label) for command in self.commands}

    @staticmethod
    def _bulk(command: Command) -> Callable[..., HttpResponse]:
        def go(model_admin: ConsoleAdmin, request: HttpRequest, queryset: QuerySet) -> HttpResponse | None:
            ids = list(queryset.values_list("pk", flat=True))
            if len(ids) > MANY:
                messages.error(request, _too_many(len(ids)))
                return None
            chosen = "&".join(f"id={pk}" for pk in ids)
            return HttpResponseRedirect(f"{model_admin.command_url(command)}?{chosen}")

        return go

    def command_url(self, command: Command) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_do", args=[command.name])

    def get_urls(self) -> list[Any]:
        name = f"{self.opts.app_label}_{self.opts.model_name}_do"
        view = self.admin_site.admin_view(self.command_view)
        return [path("do/<slug:name>/", view, name=name), *super().get_urls()] if self.commands else super().get_urls()

    def command_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """Show what a command would do (GET), or do it to each chosen object and say how it went (POST)."""
        command = next((each for each in self.commands if each.name == name), None)
        if command is None or not is_operator(request):
            raise NotFound("command")
        given = request.GET.getlist("id")
        if len(given) > MANY:
            messages.error(request, _too_many(len(given)))
            return HttpResponseRedirect(self._list_url())
        ids = [each for each in given if each.isascii() and each.isdigit() and len(each) < 19]
        objects = list(self.get_queryset(request).filter(pk__in=ids))
        if not objects:
            messages.error(request, "Nothing was chosen, or it is gone.")
            return HttpResponseRedirect(self._list_url())
        form = command.form(request.POST if request.method == "POST" else None)
        if request.method == "POST" and form.is_valid():
            for obj in objects:
                self._apply(request, command, obj, form.cleaned_data)
            return HttpResponseRedirect(self._after(objects))
        return self._command_page(request, command, objects, form)

    def _apply(self, request: HttpRequest, command: Command, obj: Model, values: Mapping[str, Any]) -> None:
        try:
            said = command.run(obj, request.user, **values)
        except BerthError as error:
            messages.error(request, f"{obj}: {error.detail}")
        else:
            messages.success(request, said or f"{obj}: {command.label.lower()}, done.")

    def _command_page(self, request: HttpRequest, command: Command, objects: list[Model], form: forms.Form) -> Any:
        context = {
            **self.admin_site.each_context(request),
            "title": f"{command.label}: {self.opts.verbose_name_plural}",
            "command": command,
            "objects": [(obj, command.applies(obj)) for obj in objects],
            "form": form,
            "back": self._after(objects),
        }
        return TemplateResponse(request, "admin/command.html", context)

    def _list_url(self) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")

    def _after(self, objects: list[Model]) -> str:
        if len(objects) > 1:
            return self._list_url()
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[objects[0].pk])

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        """Offer the commands that apply; a refusal by a service comes back as a sentence, and nothing is changed."""
        obj = self.get_object(request, object_id) if object_id else None
        offered = [
            (each, f"{self.command_url(each)}?id={obj.pk}") for each in self.commands if obj and each.applies(obj)
        ]
        extra = {"commands": offered, **self.page_context(request, obj), **(extra_context or {})}
        try:
            return super().changeform_view(request, object_id, form_url, extra)
        except BerthError as error:
            messages.error(request, f"{error.field}: {error.detail}" if error.field else error.detail)
            return HttpResponseRedirect(request.get_full_path())

    def page_context(self, request: HttpRequest, obj: Model | None) -> dict[str, Any]:
        """Return more values for the object's page; models override this."""
        return {}

    # The audit trail, written by the services, is the record of changes; Django's own log would be a second, poorer one.
    def log_addition(self, *args: Any) -> None: ...

    def log_change(self, *args: Any) -> None: ...

    def log_deletions(self, *args: Any) -> None: ...


def adopt(obj: Model, made: Model) -> None:
    """Make the form's unsaved object stand for the row that a service made, since Django goes on with it after saving."""
    obj.__dict__.update(made.__dict__)


def always(_: Any) -> bool:
    """For commands that make sense at any time."""
    return True
