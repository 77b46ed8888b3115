"""The console's page of neighbours on a GPU: the measured cost of jobs to each other there."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from portal.foundation.console.base import ConsoleAdmin, is_operator
from portal.foundation.errors import Forbidden
from portal.planning.estimation.models import PairSpeed
from portal.planning.estimation.neighbours import matrices


@admin.register(PairSpeed)
class PairSpeedAdmin(ConsoleAdmin):
    """To read only: the list's URL is the matrix."""

    fields = readonly_fields = ("signature", "beside", "gpu_type", "mean", "count", "at")

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        if not is_operator(request):
            raise Forbidden("Only an operator may do this.", code="operator_only")
        context = {
            **self.admin_site.each_context(request),
            "title": "Neighbours on a GPU",
            "matrices": matrices(),
        }
        return TemplateResponse(request, "admin/neighbours.html", context)
