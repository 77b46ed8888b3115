"""Check of the field `log_matches`: a line of the job's log with one of these texts sends a message.

A pattern is plain text; `*` stands for any text within the line. There are no regular expressions: a tenant's pattern
is looked for in all that comes, so its cost must be bounded whatever it says.
"""

from __future__ import annotations

from portal.foundation import checks
from portal.foundation.errors import BerthError

MAX_PATTERNS, MAX_CHARS, MAX_STARS = 3, 200, 4


def log_patterns(value: object) -> tuple[str, ...]:
    """Return the patterns, each once. Raises BerthError that names the field and the remedy."""
    found = [
        checks.text(each, "log_matches", max_chars=MAX_CHARS)
        for each in checks.items(value, "log_matches", max_items=MAX_PATTERNS)
    ]
    for each in found:
        if not each.replace("*", "").strip():
            detail = "A text in `log_matches` needs more than * and spaces, or every line would have it."
            raise BerthError("invalid", detail, field="log_matches")
        if each.count("*") > MAX_STARS:
            detail = f"A text in `log_matches` may have * {MAX_STARS} times; make it plainer."
            raise BerthError("invalid", detail, field="log_matches")
    return tuple(dict.fromkeys(found))
