"""The pages under /help: the list of guides, the search, a guide, and the pictures in the guides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.http import FileResponse, Http404
from django.shortcuts import render

from portal import VERSION
from portal.pages.dashboard.help.guides import groups_for, guide_find, image_find
from portal.pages.dashboard.help.rendering import guide_render
from portal.pages.dashboard.help.search import LONGEST_QUESTION, MOST_FOUND, help_search

if TYPE_CHECKING:
    from django.http import HttpRequest, HttpResponse

OUTLINE_LEVELS = (2, 3)
MOST_OUTLINED = 60


def help_index(request: HttpRequest) -> HttpResponse:
    question = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST_QUESTION]
    operator = request.user.is_operator
    found = help_search(question, operator=operator)
    groups = groups_for(operator=operator)
    context = {"groups": groups, "question": question, "found": found, "most": MOST_FOUND, "version": VERSION}
    return render(request, "help/index.html", context)


def help_guide(request: HttpRequest, name: str) -> HttpResponse:
    guide = guide_find(name)
    if guide is None:
        raise Http404("guide")
    rendered = guide_render(guide)
    outline = [heading for heading in rendered.headings if heading.level in OUTLINE_LEVELS]
    if len(outline) > MOST_OUTLINED:
        outline = [heading for heading in outline if heading.level == OUTLINE_LEVELS[0]]
    context = {
        "guide": guide,
        "rendered": rendered,
        "outline": outline,
        "version": VERSION,
    }
    return render(request, "help/guide.html", context)


def help_image(request: HttpRequest, name: str) -> FileResponse:
    path = image_find(name)
    if path is None:
        raise Http404("image")
    return FileResponse(path.open("rb"), content_type="image/png")
