"""`{% switch %}`: one of several pieces of a template, found by a word at once.

A long chain of `elif` compares the word with each of its choices, for each cell of each row: in the job list that was most
of the page's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import template

if TYPE_CHECKING:
    from django.template.base import FilterExpression, NodeList, Parser, Token

register = template.Library()


class SwitchNode(template.Node):
    """`pieces`: the content by word. A word without a piece is a mistake of the template: KeyError."""

    child_nodelists = ()

    def __init__(self, subject: FilterExpression, pieces: dict[str, NodeList]) -> None:
        self.subject, self.pieces = subject, pieces

    def render(self, context: template.Context) -> str:
        return self.pieces[self.subject.resolve(context)].render(context)


@register.tag
def switch(parser: Parser, token: Token) -> SwitchNode:
    """`{% switch VALUE %}{% when "word" %}...{% when "other" %}...{% endswitch %}`; each word once."""
    bits = token.split_contents()
    if len(bits) != 2:
        raise template.TemplateSyntaxError("`switch` takes one value.")
    subject, pieces = parser.compile_filter(bits[1]), {}
    before = parser.parse(("when", "endswitch"))
    if any(not isinstance(node, template.base.TextNode) or node.s.strip() for node in before):
        raise template.TemplateSyntaxError("Nothing may stand between `switch` and its first `when`.")
    while (bits := parser.next_token().split_contents())[0] == "when":
        if len(bits) != 2 or bits[1][:1] != '"' or bits[1][-1:] != '"' or bits[1][1:-1] in pieces:
            raise template.TemplateSyntaxError(
                '`when` takes one word in double quotes, such as {% when "state" %}, once.'
            )
        pieces[bits[1][1:-1]] = parser.parse(("when", "endswitch"))
    return SwitchNode(subject, pieces)
