"""Keep modules that a process has loaded for good out of the garbage collector's full passes.

Such a pass walks every object there is. Of a portal's nearly all are modules, classes and compiled patterns, which stay
until it ends: a pass over them costs a tenth of a second, in the middle of somebody's request. And a page of five hundred rows
makes so many objects that the collector, as Python sets it, would pass over them again and again while they are made.
"""

import gc

from django.urls import get_resolver

SELDOM = (10_000, 20, 50)
"""How many new objects bring a pass over the young ones, and how many passes over those one over the older ones."""


def portal_loaded() -> None:
    """Load the views, as the first request would, and let the collector pass over all that stands then."""
    get_resolver().url_patterns  # noqa: B018 - reading them imports the views
    stays()
    gc.set_threshold(*SELDOM)


def stays() -> None:
    """Let the collector pass over whatever there is now."""
    gc.collect()
    gc.freeze()
