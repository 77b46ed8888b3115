"""One self-contained HTML page: Plotly, styles and script are in it, and nothing is fetched from anywhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from portal.pages.laboratory.output.plots import Style, styles_of
from portal.pages.laboratory.output.tables import cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from portal.pages.laboratory.output.plots import Plot
    from portal.pages.laboratory.output.tables import Table

_FACES = re.compile(r"@font-face\s*\{[^}]*\}\s*")


def page_html(
    *,
    title: str,
    facts: Sequence[tuple[str, str]],
    tables: Sequence[Table],
    plots: Sequence[Plot] = (),
    policies: Sequence[str] = (),
) -> str:
    """Return the page. `facts`: what was simulated, as (name, value); `policies`: for the legend, in the plots' order."""
    return render_to_string(
        "simulations/report.html",
        {
            "title": title,
            "facts": facts,
            "tables": [_shown(table) for table in tables],
            "plots": [{"plot": plot, "table": _shown(plot.table)} for plot in plots],
            "figures": {plot.key: plot.figure for plot in plots},
            "legend": [_legend(style) for style in styles_of(policies)],
            "styles": _inline("css/tokens.css", "css/simulation-report.css"),
            "plotly": _inline("vendor/plotly/plotly-cartesian.min.js") if plots else "",
            "script": _inline("js/simulation-report.js"),
        },
    )


def _shown(table: Table) -> dict[str, object]:
    numeric = table.numeric
    return {
        "title": table.title,
        "note": table.note,
        "columns": list(zip(table.columns, numeric, strict=True)),
        "rows": [list(zip(map(cell, row), numeric, strict=True)) for row in table.rows],
    }


def _legend(style: Style) -> dict[str, str]:
    return {
        "name": style.name,
        "token": style.token,
        "dash": "" if style.dash == "solid" else style.dash.replace("px", ""),
    }


def _inline(*names: str) -> SafeString:
    """Return our own static files as text. Fonts are left out: the page uses those of the reader."""
    text = "\n".join((settings.BASE_DIR / "static" / name).read_text() for name in names)
    return mark_safe(_FACES.sub("", text).replace("</", "<\\/"))  # noqa: S308 - our own files; no tag can end early
