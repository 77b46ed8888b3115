"""`{% switch %}` shows the piece of its word and no other, and refuses what would be read otherwise than it stands there."""

import pytest
from django.template import Context, Template, TemplateSyntaxError
from django.test import override_settings

from portal.pages.dashboard.jobs.saved import COLUMNS
from portal.pages.dashboard.templatetags import berth
from portal.pages.dashboard.templatetags.switch import SwitchNode

TWO = '{% load switch %}{% for w in words %}{% switch w.key %} {% when "a" %}<{{ w.key }}>{% when "b" %}B{% if 1 %}!{% endif %}{% endswitch %}{% endfor %}'


def shown(source, **context):
    return Template(source).render(Context(context))


def test_each_word_shows_its_piece():
    assert shown(TWO, words=[{"key": "b"}, {"key": "a"}, {"key": "b"}]) == "B!<a>B!"


def test_a_word_without_a_piece_is_a_mistake_and_not_nothing():
    with pytest.raises(KeyError):
        shown(TWO, words=[{"key": "c"}])


@pytest.mark.parametrize(
    "inside",
    [
        'x{% when "a" %}{% endswitch %}',
        '{% if 1 %}{% endif %}{% when "a" %}{% endswitch %}',
        "{% when a %}{% endswitch %}",
        '{% when "a" %}{% when "a" %}{% endswitch %}',
        '{% when "a" "b" %}{% endswitch %}',
        '{% when "a" %}',
    ],
)
def test_a_wrong_one_is_refused_when_the_template_is_read(inside):
    with pytest.raises(TemplateSyntaxError):
        Template("{% load switch %}{% switch word %}" + inside)
    with pytest.raises(TemplateSyntaxError):
        Template("{% load switch %}{% switch %}{% endswitch %}")


def test_the_job_lists_row_has_a_piece_for_each_column():
    from django.template.loader import get_template

    (node,) = get_template("jobs/_row.html").template.nodelist.get_nodes_by_type(SwitchNode)
    assert set(node.pieces) == set(COLUMNS)


def test_a_glyphs_address_follows_the_storage_that_says_it():
    files = "django.contrib.staticfiles.storage.StaticFilesStorage"
    for base in ("/one/", "/two/", "/one/"):
        with override_settings(STORAGES={"staticfiles": {"BACKEND": files, "OPTIONS": {"base_url": base}}}):
            assert f'href="{base}img/sprite.svg#i-plus"' in berth.icon("plus")
