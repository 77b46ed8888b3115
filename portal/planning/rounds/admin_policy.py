"""The policy settings' page: one row a knob of `portal.planning.rounds.settings.knobs`, saved through `settings_update`."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from portal.foundation.console.base import ConsoleAdmin, is_operator
from portal.foundation.errors import BerthError, Forbidden
from portal.planning.rounds.models import OperatorSetting
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.knobs import KNOBS, knobs_current
from scheduler.setting import Setting, value_words


def value_shown(value: Any) -> str:
    """A knob's value in its field: 30, not 30.0; None is empty."""
    return "" if value is None else value_words(value)


def _field(knob: Setting) -> forms.Field:
    if knob.choices:
        return forms.ChoiceField(choices=[(word, word) for word in knob.choices])
    kind = forms.IntegerField if isinstance(knob.default, int) else forms.FloatField
    low, high = knob.bounds or (None, None)
    widget = forms.NumberInput(attrs={"step": "any", "min": low, "max": high})
    # The range is the service's to check, in one place; the browser only helps.
    return kind(required=not knob.optional, widget=widget)


class PolicyForm(forms.Form):
    """A field a knob, named as the knob."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for knob in KNOBS:
            self.fields[knob.name] = _field(knob)


class PolicyAdmin(ConsoleAdmin):
    """There is nothing to list: the list's URL is the one page with all knobs."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not is_operator(request):
            raise Forbidden("Only an operator may do this.", code="operator_only")
        values = knobs_current()
        form = PolicyForm(initial={name: value_shown(value) for name, value in values.items()})
        if request.method == "POST":
            form = PolicyForm(request.POST)
            if self._save(request, form):
                return HttpResponseRedirect(request.path)
        context = {
            **self.admin_site.each_context(request),
            "title": "Policy settings",
            "form": form,
            "groups": _groups(form, values),
        }
        return TemplateResponse(request, "admin/policy.html", context, status=400 if form.errors else 200)

    def _save(self, request: HttpRequest, form: PolicyForm) -> bool:
        """Set one knob back (`reset` names it) or all to the form's values; a refusal is shown at its field."""
        before = knobs_current()
        try:
            if reset := request.POST.get("reset"):
                defaults = {knob.name: knob.default for knob in KNOBS}
                form.errors.clear()
                after = settings_update(actor=request.user, **{reset: defaults.get(reset)})
            elif form.is_valid():
                after = settings_update(actor=request.user, **form.cleaned_data)
            else:
                return False
        except BerthError as error:
            form.add_error(error.field if error.field in form.fields else None, error.detail)
            return False
        changed = [
            f"{name} {value_words(before[name])} to {value_words(after[name])}"
            for name in after
            if before[name] != after[name]
        ]
        messages.success(request, f"Changed: {'; '.join(changed)}." if changed else "Nothing was changed.")
        return True


def _groups(form: PolicyForm, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The knobs as the page shows them: title and rows of each group."""
    changes = {row.name: row for row in OperatorSetting.objects.select_related("updated_by")}
    return [
        {"title": title, "rows": [_row(knob, form, values[knob.name], changes.get(knob.name)) for knob in knobs]}
        for title, knobs in groupby(KNOBS, key=lambda knob: knob.group)
    ]


def _row(knob: Setting, form: PolicyForm, value: Any, change: OperatorSetting | None) -> dict[str, Any]:
    return {
        "knob": knob,
        "field": form[knob.name],
        "is_default": value == knob.default,
        "change": change,
    }
