import pytest
from django.template import Context, Template

from portal.pages.dashboard.templatetags import berth

NBSP, THIN = "\u00a0", "\u202f"


def render(source, **context):
    return Template("{% load berth %}" + source).render(Context(context))


def test_states_differ_in_glyph_and_word():
    glyphs = [glyph for glyph, _, _ in berth.STATES.values()]
    words = [word for _, word, _ in berth.STATES.values()]
    assert len(set(glyphs)) == len(glyphs) == len(set(words)) == 11


def test_state_says_glyph_word_and_colour(subtests):
    for code in berth.STATES:
        with subtests.test(code=code):
            glyph, word, tone = berth.STATES[code]
            html = render("{% state code %}", code=code)
            assert f"#s-{glyph}" in html
            assert word in html
            assert f"b-tone-{tone}" in html
            assert "b-pill" not in html
            assert "b-pill" in render("{% state code pill=True %}", code=code)


def test_duration(subtests):
    for seconds, shown in [
        (None, "\u2013"),
        (0, f"0{NBSP}s"),
        (59.4, f"59{NBSP}s"),
        (59.6, f"1{NBSP}min"),
        (1860, f"31{NBSP}min"),
        (4380, f"1{NBSP}h{NBSP}13{NBSP}min"),
        (7200, f"2{NBSP}h"),
        (180000, f"2{NBSP}d{NBSP}2{NBSP}h"),
        (86400 * 3 + 120, f"3{NBSP}d"),
    ]:
        with subtests.test(seconds=seconds, shown=shown):
            assert berth.duration(seconds) == shown


def test_a_limit_is_told_in_the_unit_it_was_set_in():
    assert berth.limit_size(50 * 2**30) == f"50{NBSP}GiB", "it said 53.7 GB"


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (None, 0, "\u2013"),
        (1240, 0, f"1{THIN}240"),
        (-0.7, 2, "\u22120.70"),
        (-0.001, 2, "0.00"),
        (0, 0, "0"),
        (1.984, 2, "1.98"),
    ],
)
def test_number(value, digits, shown):
    assert berth.number(value, digits) == shown


def test_percent_share_and_size():
    assert berth.percent(83.4) == f"83{NBSP}%"
    assert berth.share(0.292, 1) == f"29.2{NBSP}%"
    assert berth.share(None) == "\u2013"
    assert berth.size(2_400_000) == f"2.4{NBSP}MB"
    assert berth.size(999) == f"999{NBSP}B"


def test_rich_escapes_every_part():
    sentence = [
        {"text": "<b>", "bold": True},
        {"text": "gpus-scattered", "code": True},
        {"text": "#1", "href": "/jobs/1/?a=1&b=2"},
    ]
    html = render("{% rich sentence %}", sentence=sentence)
    assert "<strong>&lt;b&gt;</strong>" in html
    assert '<span title="gpus-scattered">free, but not on one node</span>' in html
    assert 'href="/jobs/1/?a=1&amp;b=2"' in html
    assert render("{% rich sentence %}", sentence="a < b") == "a &lt; b"


def test_reason_is_in_plain_words_with_its_code_in_the_title_and_escaped():
    shown = render("{% reason code %}", code="tenant-quota")
    assert shown == """<span title="tenant-quota">its tenant&#x27;s quota is used</span>"""
    shown = render("{% reason code said %}", code="reserved", said="kept for #7 until 2026-11-22T07:14Z")
    assert shown.startswith('<span title="reserved">kept for #7 until <time datetime="2026-11-22T07:14Z"')
    assert "<script" not in render("{% reason code %}", code="<script>")
    assert render("{% reason code %}", code=None) == ""


def test_moment_prints_utc_for_a_reader_without_scripts():
    html = render('{% moment at "clock-s" %}', at="2026-11-20T12:36:05+00:00")
    assert html == '<time datetime="2026-11-20T12:36:05+00:00" data-format="clock-s">12:36:05</time>'
    assert "\u2013" in render("{% moment at %}", at=None)


def test_json_attribute_is_escaped_in_a_template():
    assert render('<i data-x="{{ value|json_attribute }}">', value={"a": '"'}).count('"') == 2
