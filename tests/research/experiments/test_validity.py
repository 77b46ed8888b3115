"""`./berth experiment validity` on a small trace of its own: which files it reads, and what it says of them."""

import json

import pytest

from research.experiments.base import ExperimentError, Options
from research.experiments.validity import THROUGHPUTS, TRACE, run

LM = "LM (batch size 80)"


def line(steps, scale=1):
    return "\t".join([LM, "run", "here", "-n", "1", str(steps), str(scale), "static", "1", "-1", "100", "0"])


def folder(tmp_path, *lines):
    home = tmp_path / "shockwave"
    home.mkdir()
    (home / TRACE).write_text("\n".join(lines))
    table = {"v100": {f"('{LM}', {scale})": {"null": 10.0 * scale} for scale in (1, 2)}}
    (home / THROUGHPUTS).write_text(json.dumps(table))
    return Options(data=tmp_path)


def test_ours_stand_beside_the_published_figures(tmp_path):
    """Three jobs of 60, 120 and 180 s on 32 GPUs end as they came; nowhere near 120 jobs, and the table says so."""
    found = run(folder(tmp_path, line(600), line(1200), line(3600, scale=2)))
    assert found.json["ours"]["makespan_s"] == 180.0
    assert found.json["ours"]["mean_jct_s"] == 120.0
    assert found.json["within"] is False
    assert "Within 1%: NO" in found.tables[0].note
    assert [row[0] for row in found.tables[1].rows] == ["gavel", "fifo"]
    assert found.tables[1].rows[1][1] == 180.0


def test_a_broken_trace_is_named(tmp_path):
    with pytest.raises(ExperimentError, match=f"{TRACE}, line 1, column total_steps"):
        run(folder(tmp_path, line("many")))
    with pytest.raises(ExperimentError, match="holds no shockwave/"):
        run(Options(data=tmp_path / "shockwave"))
