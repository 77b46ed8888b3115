"""Texts with characters that no page, no answer, no terminal or no database takes, and rules for all that shows them."""

import json

from hypothesis import strategies as st

SIGNS = "\ud800\udfff\udcff\0\ufffe\uffff\U0010ffff\ufdd0\u202e\u2066\ufeff\u2028\x85\x7f\r\v\t'\"\\a\U0001f600"
ODD = [*SIGNS, "\udbff\ud83d", "\x1b[31m", "<b>", "{{", "&#0;"]
TEXTS = st.lists(st.sampled_from(ODD) | st.characters(categories=["Cs", "Co", "Cn", "Cf"]), min_size=1, max_size=6).map(
    "".join
)


def read(client, address, statuses=(200,)):
    """Get what must be text: no 500, UTF-8, of JSON without half of a pair or U+0000."""
    answer = client.get(address)
    assert answer.status_code in statuses, address
    data = b"".join(answer.streaming_content) if answer.streaming else answer.content
    text = data.decode()
    assert "\0" not in text, address
    if answer["Content-Type"].startswith("application/json"):
        shown = json.dumps(json.loads(text), ensure_ascii=False)
        shown.encode()
        assert "\\u0000" not in shown, address
    return text
