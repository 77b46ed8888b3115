"""The page of a simulation: one file, everything in it, and the same figures as tables beneath its plots."""

import json
import re

import pytest

from portal.pages.laboratory.output.plots import plots_of, styles_of
from portal.pages.laboratory.output.told import as_html
from portal.pages.laboratory.run.simulating import Request, simulation_run
from portal.pages.laboratory.sources.clusters import cluster_parse
from portal.pages.laboratory.sources.traces import TraceFile

CLUSTER = "nodes: [{count: 2, cores: 16, memory_gib: 64, gpus: 4, gpu_type: A100}]"
ROWS = "\n".join(f"{60 * n},{'<b>' if n % 2 else 'vision'},{n % 3 + 1},{300 + 60 * n}" for n in range(12))


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "t.csv"
    path.write_text(f"submitted_s,tenant,gpus,duration_s\n{ROWS}")
    trace = TraceFile(path, "berth-csv")
    return simulation_run(request=Request(trace, cluster_parse(CLUSTER), ("fifo", "drf")))


@pytest.fixture(scope="module")
def page(answer):
    return as_html(answer)


def test_nothing_is_fetched_from_anywhere(page):
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#)""", page.split("<script>", 1)[0])
    assert "url(" not in page.split("</style>", 1)[0]
    assert "default-src 'none'" in page
    assert "<script src" not in page


def test_tenants_cannot_write_html(page):
    assert "&lt;b&gt;" in page
    assert "<b>" not in page.split("<script>", 1)[0].replace("&lt;b&gt;", "")


def test_every_plot_has_its_table_and_a_name(page, answer):
    plots = plots_of(answer)
    assert {"cdf-jct-h", "cdf-lr", "cdf-wait-h", "throughput", "active-rate", "fragments", "tenants", "solve-s"} <= {
        plot.key for plot in plots
    }
    for plot in plots:
        assert f'data-plot="{plot.key}" role="img" aria-label=' in page
        assert [row[0] for row in plot.table.rows] == ["fifo", "drf"]
    assert page.count("<summary>As a table</summary>") == len(plots)


def test_a_cdf_ends_at_the_largest_value_and_its_table_says_the_quantiles(answer):
    plot = next(plot for plot in plots_of(answer) if plot.key == "cdf-jct-h")
    trace = plot.figure["data"][0]
    assert trace["y"][0] == 0.0
    assert trace["y"][-1] == 1.0
    assert trace["x"][-1] == max(answer["curves"]["fifo"]["cdf_jct_h"])
    assert plot.table.rows[0][-1] == trace["x"][-1]
    assert plot.table.rows[0][3] == pytest.approx(answer["policies"]["fifo"]["median_jct_h"])


def test_policies_are_told_apart_without_colour_too():
    styles = styles_of([f"p{n}" for n in range(12)])
    assert len({(style.token, style.dash) for style in styles}) == 12
    assert len({style.dash for style in styles}) == 3


def test_figures_are_data_that_the_script_can_read(page, answer):
    text = re.search(r'<script id="figures" type="application/json">(.*?)</script>', page, re.DOTALL).group(1)
    assert set(json.loads(text)) == {plot.key for plot in plots_of(answer)}


@pytest.mark.browser
@pytest.mark.system
def test_a_browser_draws_it_without_a_request_or_an_error(page, answer, tmp_path):
    from tests.system.helpers.watching import browser_started

    (tmp_path / "r.html").write_text(page)
    heard = []
    with browser_started() as browser:
        shown = browser.new_page()
        shown.on("console", lambda message: heard.append(message.text))
        shown.on("pageerror", lambda error: heard.append(str(error)))
        shown.on("request", lambda request: heard.append(request.url))
        shown.goto((tmp_path / "r.html").as_uri())
        shown.wait_for_function("document.querySelectorAll('.main-svg').length > 0")
        assert shown.locator(".s-plot.js-plotly-plot").count() == len(plots_of(answer))
        before = shown.evaluate("getComputedStyle(document.body).backgroundColor")
        shown.get_by_role("button", name="Dark").click()
        assert shown.evaluate("getComputedStyle(document.body).backgroundColor") != before
    assert [each for each in heard if not each.startswith("file:")] == []
