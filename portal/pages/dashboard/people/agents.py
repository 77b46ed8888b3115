"""A browser's name in plain words, from the text that it sends of itself (User-Agent)."""

from __future__ import annotations

NAMES = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("HeadlessChrome/", "Chrome without a window"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("python-requests/", "a Python script"),
    ("berth", "the berth command"),
)
"""Marks and names. A browser also names those that it is like, so the order counts."""
SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("CrOS", "ChromeOS"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
    ("X11", "Unix"),
)


def agent_words(sent: str) -> str:
    """Return as: Firefox on Linux; curl; an unknown browser on Windows. `sent`: what a browser or a script sent."""
    name = next((name for mark, name in NAMES if mark in sent), "")
    system = next((system for mark, system in SYSTEMS if mark in sent), "")
    return f"{name or 'an unknown browser'}{' on ' if system else ''}{system}"
