"""The palette meets WCAG AA: 4.5:1 for text, 3:1 for lines and the edges of controls, in both themes."""

import re
from pathlib import Path

import pytest

CSS = Path("static/css/tokens.css").read_text()
GROUNDS = ["bg", "surface", "sunken"]
WEAK = ["accent-weak", "run-weak", "wait-weak", "fail-weak", "stop-weak"]
TEXT = [(text, ground) for text in ("text", "text-2", "text-3", "accent") for ground in GROUNDS]
TEXT += [(text, ground) for text in ("text", "text-2") for ground in WEAK]
TEXT += [(tone, ground) for tone in ("run", "wait", "fail", "stop") for ground in (*GROUNDS, f"{tone}-weak")]
TEXT += [("accent", "accent-weak"), ("accent-on", "accent"), ("run-on", "run-solid"), ("text-3", "accent-weak")]
TEXT += [("accent", "wait-weak"), ("on-mark", "mark"), ("on-mark-current", "mark-current")]
TEXT += [(f"on-ramp-{i}", f"ramp-{i}") for i in range(1, 6)] + [(f"on-grey-{i}", f"grey-{i}") for i in range(1, 6)]
TEXT += [(f"on-short-{i}", f"short-{i}") for i in range(1, 5)]
LINES = [(f"plot-{i}", "surface") for i in range(1, 5)] + [("control", "surface")]  # controls are filled with surface


def palette(theme):
    block = re.search(rf'\[data-bs-theme="{theme}"\] \{{(.*?)\}}', CSS, re.DOTALL)[1]
    return dict(re.findall(r"--b-([a-z0-9-]+): (#[0-9a-f]{6})", block))


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_the_formula_by_its_known_ends():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("least", "pairs"), [(4.5, TEXT), (3.0, LINES)], ids=["text", "lines"])
def test_pairs(theme, least, pairs):
    colours = palette(theme)
    poor = {pair: round(contrast(colours[pair[0]], colours[pair[1]]), 2) for pair in pairs}
    assert {pair: ratio for pair, ratio in poor.items() if ratio < least} == {}


def test_both_themes_define_the_same_tokens():
    assert palette("light").keys() == palette("dark").keys()
