"""Every template renders from the sample contexts; none holds what the content policy forbids; every reference exists."""

import gzip
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import plotly
from django.contrib.staticfiles import finders
from django.template.loader import get_template, render_to_string

from tests.portal.pages.dashboard import job_samples, samples

TEMPLATES = sorted(str(path.relative_to("templates")) for path in Path("templates").rglob("*.html"))
PAGES = {
    "dashboard/overview.html": samples.overview,
    "queue/page.html": samples.queue,
    "cluster/list.html": samples.cluster,
    "cluster/node.html": samples.node_page,
    "cluster/_board.html": samples.board,
    "cluster/_node_card.html": samples.node_card,
    "cluster/_rows.html": samples.node_rows,
    "jobs/list.html": job_samples.job_list,
    "jobs/detail.html": job_samples.job_detail,
    "jobs/waiting/_card.html": job_samples.job_waiting,
    "jobs/_ended.html": job_samples.job_ended,
    "submit/submit.html": job_samples.submit,
    "rounds/list.html": job_samples.rounds,
    "rounds/detail.html": job_samples.planning,
    "rounds/metrics.html": job_samples.metrics,
    "tenants/tokens.html": job_samples.tokens,
    "registration/login.html": dict,
    "registration/locked.html": dict,
    "errors/400.html": dict,
    "errors/403.html": dict,
    "errors/404.html": dict,
    "errors/500.html": dict,
}
WRITTEN_TO_FILES = {"simulations/report.html"}
"""They stand alone, with everything in them, and are served by nobody: tests/portal/pages/laboratory/test_page.py."""
VOID = {"meta", "link", "input", "br", "img", "hr", "wbr"}


class Page(HTMLParser):
    """Collects ids, tags and open elements; an end tag that closes nothing is an error."""

    def __init__(self, html):
        super().__init__()
        self.open, self.ids, self.tags = [], [], []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> at {self.getpos()}"


def test_each_compiles(subtests):
    assert len(TEMPLATES) > 100
    for name in TEMPLATES:
        with subtests.test(name):
            get_template(name)


def test_each_page_renders_well_formed_and_every_control_has_a_name(subtests):
    for name, make in PAGES.items():
        with subtests.test(name):
            page = Page(render_to_string(name, make()))
            assert len(page.ids) == len(set(page.ids))
            labelled = {attrs["for"] for tag, attrs in page.tags if tag == "label" and "for" in attrs}
            for tag, attrs in page.tags:
                if tag in {"input", "select", "textarea"} and attrs.get("type") not in {"hidden", "checkbox", "radio"}:
                    assert "aria-label" in attrs or attrs.get("id") in labelled, attrs


WRITTEN = {"caption", "note", "detail", "text", "owner", "tenant", "label", "reason", "username", "cause", "sentence"}


def hostile(node, key=""):
    """The same context with markup in every text that people write; keys, URLs, states and node names stay."""
    if isinstance(node, dict):
        by_people = WRITTEN | ({"name"} if node.keys() & {"state", "lr", "prefix"} else set())
        return {name: hostile(value, name if name in by_people else "") for name, value in node.items()}
    if isinstance(node, list):
        return [hostile(value) for value in node]
    return f"{node}<script>x</script>" if key and isinstance(node, str) else node


def test_markup_in_names_is_escaped(subtests):
    for name, make in PAGES.items():
        if make is dict:
            continue
        with subtests.test(name):
            html = render_to_string(name, hostile(make()))
            page = Page(html)
            assert "&lt;script&gt;" in html
            assert [attrs for tag, attrs in page.tags if tag == "script" and "src" not in attrs] == []


def test_nothing_is_inline_and_static_references_exist(subtests):
    for name in TEMPLATES:
        with subtests.test(name):
            source = (Path("templates") / name).read_text()
            for path in re.findall(r"{%\s*static\s+'([^']+)'", source):
                assert finders.find(path), path
            if name not in WRITTEN_TO_FILES:
                assert not re.search(r"<style|\sstyle\s*=|\son[a-z]+\s*=|javascript:|hx-on", source)
                assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", source))
                assert not re.search(r"https?://", source)


def test_every_glyph_used_is_in_the_sprite():
    sprite = Path("static/img/sprite.svg").read_text()
    used = set()
    for name in TEMPLATES:
        used |= set(re.findall(r'{% icon "([^"]+)"', (Path("templates") / name).read_text()))
    known = set(re.findall(r'<symbol id="(?:i-)?([^"]+)"', sprite))
    assert used <= known


def test_forms_that_post_carry_the_token():
    for name in TEMPLATES:
        source = (Path("templates") / name).read_text()
        for form in re.findall(r'<form[^>]*method="post".*?</form>', source, re.DOTALL):
            assert "{% csrf_token %}" in form, name


def test_stylesheets_refer_to_what_exists():
    for path in Path("static").rglob("*.css"):
        for url in re.findall(r'url\("?([^")]+)"?\)', path.read_text()):
            if not url.startswith(("data:", "#", "'data:")) and "svg" not in url[:30]:
                assert (path.parent / url).is_file(), (path, url)
        assert "sourceMappingURL" not in path.read_text(), path


def test_no_rule_of_style_stands_twice(subtests):
    """A merge kept an old copy beside the new one, which then won: the placed jobs of a planning fell out of its table."""
    for sheet in Path("static/css").glob("*.css"):
        with subtests.test(sheet=sheet.name):
            rules = re.findall(r"[^{};]+{[^{}]*}", re.sub(r"/\*.*?\*/", "", sheet.read_text(), flags=re.DOTALL))
            assert [
                each for each, count in Counter(" ".join(rule.split()) for rule in rules).items() if count > 1
            ] == []


def test_scripts_have_no_dangling_map_and_fetch_nothing_from_outside():
    for path in Path("static").rglob("*.js"):
        source = path.read_text()
        assert "sourceMappingURL" not in source, path
        if "vendor" not in path.parts:
            assert "http://" not in source
            assert "https://" not in source
            assert "innerHTML" not in source or path.name in {
                "morph.js",
                "jobs.js",
                "strips.js",
            }  # the server's own fragments


HEAVY = {"api/docs.html", "laboratory/compare.html", "laboratory/detail.html", "terminal/page.html"}
"""Swagger UI, which lists each operation of REST to try out; Plotly; and xterm.js, whose page has nothing else."""
FONTS = ("vendor/fonts/inter-latin-opsz-normal.woff2", "vendor/fonts/jetbrains-mono-latin-wght-normal.woff2")


def assets_of(page):
    """Return the styles and scripts that a template names, with those that it extends and includes."""
    parts, found = [page], set()
    for name in parts:
        text = (Path("templates") / name).read_text()
        parts += [each for each in re.findall(r'{% (?:extends|include) "([^"]+)"', text) if each not in parts]
        found.update(re.findall(r"{% static '([^']+\.(?:css|js))' %}", text))
    return found


def test_a_page_leaves_80_kb_of_its_300_to_its_own_text():
    """Styles, scripts and fonts count, compressed as they are sent; the limit is for a first load."""
    pages = [name for name in TEMPLATES if "{% extends" in (Path("templates") / name).read_text()]
    sent = {
        name: len(gzip.compress(Path(finders.find(name)).read_bytes())) for name in set().union(*map(assets_of, pages))
    }
    fonts = sum(Path("static", font).stat().st_size for font in FONTS)
    weights = {page: fonts + sum(sent[name] for name in assets_of(page)) for page in pages}
    assert {page for page, weight in weights.items() if weight > 220_000} == HEAVY, weights


def test_plotly_is_the_version_of_the_wheel():
    def version(text):
        return re.search(r"plotly\.js(?: \(cartesian[^)]*\))? v([\d.]+)", text)[1]

    wheel = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    vendored = Path("static/vendor/plotly/plotly-cartesian.min.js")
    assert version(vendored.read_text()[:400]) == version(wheel.read_text()[:400])


def test_navigation_shows_the_operator_only_to_operators():
    context = samples.overview()
    assert "/admin/" in render_to_string("dashboard/overview.html", context)
    context["shell"] = samples.shell(operator=False)
    assert "/admin/" not in render_to_string("dashboard/overview.html", context)


def test_a_figure_that_is_not_computed_is_absent():
    context = job_samples.job_detail()
    context["job"] |= {"numbers": None, "why": None, "timeline": None, "plots": [], "log": None}
    html = render_to_string("jobs/detail.html", context)
    for absent in ("The numbers", "b-sentence", "b-timeline-axis", "data-figure-url", "data-log-lines"):
        assert absent not in html
