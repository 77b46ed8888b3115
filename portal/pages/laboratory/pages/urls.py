"""The laboratory's paths."""

from django.urls import path

from portal.pages.laboratory.pages import views

urlpatterns = [
    path("laboratory/", views.laboratory, name="laboratory"),
    path("laboratory/new", views.new, name="laboratory-new"),
    path("laboratory/compare", views.compare, name="laboratory-compare"),
    path("laboratory/compare/figures/<slug:name>", views.compare_figure, name="laboratory-compare-figure"),
    path("laboratory/traces/", views.traces, name="laboratory-traces"),
    path("laboratory/traces/<int:number>/<slug:verb>", views.trace_act, name="laboratory-trace-act"),
    path("laboratory/<int:number>/", views.detail, name="laboratory-detail"),
    path("laboratory/<int:number>/figures/<slug:name>", views.figure, name="laboratory-figure"),
    path("laboratory/<int:number>/answer.json", views.answer, name="laboratory-answer"),
    path("laboratory/<int:number>/<slug:verb>", views.act, name="laboratory-act"),
]
