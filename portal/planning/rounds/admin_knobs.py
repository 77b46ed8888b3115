"""The console's page of knobs: ten in front, the others folded by subject, each with the effect of its last change."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone

from portal.foundation.console.base import ConsoleAdmin, is_operator
from portal.foundation.console.fields import ConsoleForm, dress
from portal.foundation.errors import BerthError, Forbidden
from portal.planning.rounds.models import OperatorSetting
from portal.planning.rounds.read.lengths import lengths_record
from portal.planning.rounds.services import settings_update
from portal.planning.rounds.settings.effects import effects_of
from portal.planning.rounds.settings.knobs import KNOBS, knobs_current
from portal.planning.rounds.settings.plain import FRONT, SUBJECTS, Plain, label_of
from scheduler.parameters import PARAMETERS
from scheduler.setting import ON_OFF, Setting, value_words

if TYPE_CHECKING:
    from collections.abc import Mapping

TRIED = {each.name for each in PARAMETERS}
"""The knobs that the laboratory has too: those of the scheduler."""
AUTOMATIC = {"reserved_cores_per_gpu": "auto", "large_array_share": "auto", "sharing_slowdown": "no limit"}
"""The meaning of an empty field; of the others: never."""
REASON_MOST = 200


def value_shown(value: Any) -> str:
    """A knob's value in its field: 30, not 30.0; None is empty."""
    return "" if value is None else value_words(value)


def _field(knob: Setting) -> forms.Field:
    if knob.choices:
        widget = forms.HiddenInput() if knob.choices == ON_OFF else forms.Select()
        return forms.ChoiceField(choices=[(word, word) for word in knob.choices], widget=widget)
    kind = forms.IntegerField if isinstance(knob.default, int) else forms.FloatField
    # The range is the service's to check, in one place.
    shown = {"inputmode": "decimal", "maxlength": 40} | (
        {"placeholder": AUTOMATIC.get(knob.name, "never")} if knob.optional else {}
    )
    return kind(required=not knob.optional, widget=forms.TextInput(attrs=shown))


class KnobsForm(ConsoleForm):
    """A field a knob, named as the knob, and why."""

    reason = forms.CharField(
        max_length=REASON_MOST,
        required=False,
        label="Why",
        widget=forms.TextInput(attrs={"placeholder": "Why? It stands in Changes"}),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields |= {knob.name: _field(knob) for knob in KNOBS}
        for name, field in self.fields.items():
            dress(field)
            field.widget.attrs["aria-label"] = field.label or label_of(name)


class PolicyAdmin(ConsoleAdmin):
    """There is nothing to list: the list's URL is the one page with all knobs."""

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not is_operator(request):
            raise Forbidden("Only an operator may do this.", code="operator_only")
        values = knobs_current()
        shown = {name: value_shown(value) for name, value in values.items()}
        form = KnobsForm(initial=shown)
        if request.method == "POST":
            # A knob that is not sent stays as it is: another operator may have changed it meanwhile.
            form = KnobsForm(shown | {name: request.POST[name] for name in request.POST})
            if self._save(request, form, values):
                return HttpResponseRedirect(request.path)
        context = {**self.admin_site.each_context(request), "title": "Knobs", "form": form, **_page(form, values)}
        context["lengths"] = lengths_record()
        return TemplateResponse(request, "admin/knobs.html", context, status=400 if form.errors else 200)

    def _save(self, request: HttpRequest, form: KnobsForm, before: Mapping[str, Any]) -> bool:
        """Set the knobs that were sent; a refusal is shown at its field, and then nothing is set."""
        if not form.is_valid():
            return False
        sent = {name: form.cleaned_data[name] for name in before if name in request.POST}
        changed = {name: value for name, value in sent.items() if value != before[name]}
        if changed and not form.cleaned_data["reason"].strip():
            form.add_error("reason", "Say why. It stands in Changes, for those who find the change.")
            return False
        try:
            after = settings_update(actor=request.user, reason=form.cleaned_data["reason"].strip(), **sent)
        except BerthError as error:
            form.add_error(error.field if error.field in form.fields else None, error.detail)
            return False
        told = [f"{label_of(name)}, {value_words(before[name])} to {value_words(after[name])}" for name in changed]
        messages.success(request, f"Changed: {'; '.join(told)}." if told else "Nothing was changed.")
        return True


def _page(form: KnobsForm, values: Mapping[str, Any]) -> dict[str, Any]:
    now = timezone.now()
    changes = {row.name: row for row in OperatorSetting.objects.select_related("updated_by")}
    known = {knob.name: knob for knob in KNOBS}
    effects = effects_of({name: row.updated_at for name, row in changes.items() if name in known}, now)
    rows = {name: _row(knob, form, values, changes.get(name), effects.get(name)) for name, knob in known.items()}
    folded = sorted(
        (knob for knob in KNOBS if knob.name not in FRONT),
        key=lambda knob: list(SUBJECTS.values()).index(SUBJECTS[knob.group]),
    )
    subjects = []
    for title, knobs in groupby(folded, key=lambda knob: SUBJECTS[knob.group]):
        own = [rows[knob.name] for knob in knobs]
        bad = any(row["field"].errors for row in own)
        subjects.append({"title": title, "rows": own, "differ": sum(row["differs"] for row in own), "open": bad})
    return {
        "front": [rows[name] for name in FRONT],
        "subjects": subjects,
        "more": len(folded),
        "differ": sum(row["differs"] for row in rows.values()),
        "try_url": _try_url(values["policy"], {}),
        "tick_s": values["tick_s"],
    }


def _row(
    knob: Setting, form: KnobsForm, values: Mapping[str, Any], change: OperatorSetting | None, effect: Any
) -> dict[str, Any]:
    value, policy = values[knob.name], values["policy"]
    plain = FRONT.get(knob.name) or Plain(knob.name, knob.meaning)
    return {
        "knob": knob,
        "plain": plain,
        "unit": plain.unit if plain.unit is not None else knob.unit,
        "field": form[knob.name],
        "is_switch": knob.choices == ON_OFF,
        "was": value_words(value),
        "differs": value != knob.default,
        "change": change,
        "changed_at": change and change.updated_at.isoformat(),
        "effect": effect,
        "try_url": _try_url(policy, {knob.name: value_shown(value)}) if knob.name in TRIED else "",
    }


def _try_url(policy: str, knobs: Mapping[str, str]) -> str:
    """Return the laboratory's form with last week's jobs of this cluster, under this policy."""
    asked = {"source": "history", "days": 7, "cluster": "here", "name": "Last week", "policies": policy}
    own = {f"knob_{name}": value for name, value in knobs.items() if name != "policy"}
    return f"{reverse('laboratory-new')}?{urlencode(asked | own)}"
