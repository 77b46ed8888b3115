"""A simulation's answer as JSON, CSV, tables and a page."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.template.loader import render_to_string
from django.utils.safestring import SafeString, mark_safe

from portal.foundation.api.streams import defused
from portal.pages.laboratory.output.plots import plots_of, styles_of
from portal.pages.laboratory.output.tables import Table, cell

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from portal.pages.laboratory.output.plots import Plot


_FACES = re.compile(r"@font-face\s*\{[^}]*\}\s*")


COLUMNS = {
    "mean_jct_h": "mean JCT, h",
    "median_jct_h": "median, h",
    "p99_jct_h": "99 %, h",
    "makespan_h": "makespan, h",
    "mean_wait_h": "mean wait, h",
    "mean_lr": "mean LR",
    "max_lr": "max LR",
    "max_ftf": "max FTF",
    "fragments_per_round": "fragments",
    "gpu_active_rate": "active",
    "gpu_active_rate_queued": "active, queue",
    "solve_p95_s": "planning p95, s",
}
TENANT_COLUMNS = {
    "jobs": "jobs",
    "gpu_h": "GPU hours",
    "mean_jct_h": "mean JCT, h",
    "mean_wait_h": "mean wait, h",
    "p99_wait_h": "99 % wait, h",
    "max_lr": "max LR",
}


def as_json(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, sort_keys=True, indent=1, allow_nan=False)


def as_csv(answer: Mapping[str, Any]) -> str:
    """Return one row for each policy with all its figures, then one for each of its tenants with a tenant's figures."""
    policies = answer["policies"]
    scalar = [name for name in next(iter(policies.values())) if name not in ("policy", "tenants")]
    out = io.StringIO()
    writer = csv.DictWriter(out, ["policy", "tenant", *scalar], lineterminator="\n")
    writer.writeheader()
    for policy, figures in policies.items():
        writer.writerow({"policy": policy, **{name: figures[name] for name in scalar}})
        for tenant, own in figures["tenants"].items():
            writer.writerow({"policy": policy, "tenant": defused(tenant), **own})
    return out.getvalue()


def as_html(answer: Mapping[str, Any]) -> str:
    """Return one self-contained page."""
    until_h, knobs = answer["until_h"], answer["knobs"]
    facts = [
        ("Trace", f"{answer['trace']} ({answer['format']})"),
        ("Cluster", f"{answer['gpus']} GPU{'s' if answer['gpus'] != 1 else ''}"),
        ("Seed", str(answer["seed"])),
        ("Knobs", ", ".join(f"{name} = {cell(value)}" for name, value in knobs.items()) or "as they come"),
        ("Time", "to the end" if until_h is None else f"the first {until_h:g} hours"),
    ]
    return page_html(
        title=f"Simulation of {answer['trace']}",
        facts=facts,
        tables=as_tables(answer),
        plots=plots_of(answer),
        policies=list(answer["policies"]),
    )


def as_tables(answer: Mapping[str, Any]) -> tuple[Table, ...]:
    policies = answer["policies"]
    rows = [[name, *(figures[key] for key in COLUMNS)] for name, figures in policies.items()]
    tenants = [
        [name, tenant, *(own[key] for key in TENANT_COLUMNS)]
        for name, figures in policies.items()
        for tenant, own in figures["tenants"].items()
    ]
    return (
        Table("Policies", ("policy", *COLUMNS.values()), rows, jobs_note(policies)),
        Table("Tenants", ("policy", "tenant", *TENANT_COLUMNS.values()), tenants),
    )


def jobs_note(policies: Mapping[str, Any]) -> str:
    """Return the note beside means: jobs that did not end, and why, when none of them ever started."""
    words = {
        "jobs_unfinished": "unfinished",
        "jobs_invalid": "refused",
        "jobs_failed": "failed",
        "jobs_to_come": "still to come",
    }
    notes = []
    for name, figures in policies.items():
        parts = [f"{figures[key]} {word}" for key, word in words.items() if figures.get(key)]
        if parts:
            notes.append(f"{name}: {', '.join(parts)} ({figures['jobs']} came)")
    return " ".join(filter(None, (f"Jobs of {'; '.join(notes)}." if notes else "", _stuck(policies))))


def _stuck(policies: Mapping[str, Any]) -> str:
    """Return a sentence about unfinished jobs, which may be jobs that could never start there; "" when there are none."""
    if not any(own.get("jobs_unfinished") and not own.get("jobs_to_come") for own in policies.values()):
        return ""
    return (
        "Unfinished jobs had not ended when the simulation did: it was cut off, or they ask for what this cluster never has "
        "free (GPU types or counts, cores, memory, their tenant's quota)."
    )


def page_html(
    *,
    title: str,
    facts: Sequence[tuple[str, str]],
    tables: Sequence[Table],
    plots: Sequence[Plot] = (),
    policies: Sequence[str] = (),
) -> str:
    """Return the page. `facts`: the simulation, as (name, value); `policies`: for the legend, in the plots' order."""
    return render_to_string(
        "simulations/report.html",
        {
            "title": title,
            "facts": facts,
            "tables": [_shown(table) for table in tables],
            "plots": [{"plot": plot, "table": _shown(plot.table)} for plot in plots],
            "figures": {plot.key: plot.figure for plot in plots},
            "legend": styles_of(policies),
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


def _inline(*names: str) -> SafeString:
    """Return our own static files as text. Fonts are left out: the page uses those of the reader."""
    text = "\n".join((settings.BASE_DIR / "static" / name).read_text() for name in names)
    return mark_safe(_FACES.sub("", text).replace("</", "<\\/"))  # noqa: S308 - our own files; no tag can end early
