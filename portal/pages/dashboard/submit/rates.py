"""The learning rate on the submit form: one for all sizes, one at a reference size with a rule, or one for each size.

Section 1 of the algorithms: `1e-4` is for every size; `4e-4` at 4 GPUs by `linear` or `sqrt` follows the size that is
chosen; `1: 1e-4, 2: 2e-4` names one a size. The description's own check judges what it means.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portal.foundation.errors import BerthError

if TYPE_CHECKING:
    from django.http import QueryDict

RULES = {"none": "the same at every size", "linear": "times size / reference", "sqrt": "times its square root"}


def learning_rate_of(post: QueryDict) -> dict[str, Any]:
    """Return `{"learning_rate": ...}`, or {} when none was given. Raises BerthError when the text is not a number."""
    text, at = post.get("learning_rate", "").strip(), post.get("learning_rate.at", "").strip()
    rule = post.get("learning_rate.rule", "")
    if not text:
        if at:
            detail = "A number of GPUs is given without a learning rate; fill in the rate, or remove the number."
            raise BerthError("required", detail, field="learning_rate")
        return {}
    if ":" in text:
        return {"learning_rate": _rates(text)}
    value = _number(text)
    if not at and rule in {"", "none"}:
        return {"learning_rate": value}
    if not at:
        detail = f"The rule {rule} needs a number of GPUs; say at how many the rate is {text}."
        raise BerthError("required", detail, field="learning_rate.at")
    if not (at.isascii() and at.isdigit() and len(at) < 10):
        raise BerthError("invalid", f"{at[:30]!r} is not a whole number of GPUs.", field="learning_rate.at")
    return {"learning_rate": {"at": int(at), "value": value, "rule": rule or "none"}}


def _rates(text: str) -> dict[str, float]:
    rates: dict[str, float] = {}
    for part in text.replace(";", ",").split(","):
        if part.strip():
            size, _, rate = part.partition(":")
            if size.strip() in rates:
                raise BerthError(
                    "duplicate", f"The size {size.strip()!r} is given twice; give it once.", field="learning_rate"
                )
            rates[size.strip()] = _number(rate.strip())
    return rates


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        detail = (
            f"{text[:30]!r} is not a learning rate; write a number as 4e-4, or one for each size as 1: 1e-4, 2: 2e-4."
        )
        raise BerthError("invalid", detail, field="learning_rate") from None


def rate_values(rate: object) -> dict[str, Any]:
    """Return the form's values for a description's learning rate, to edit and relaunch it."""
    if rate is None:
        return {}
    if not isinstance(rate, dict):
        return {"learning_rate": repr(rate)}
    if "value" not in rate:
        return {"learning_rate": ", ".join(f"{size}: {value!r}" for size, value in rate.items())}
    return {
        "learning_rate": repr(rate["value"]),
        "learning_rate.at": rate.get("at"),
        "learning_rate.rule": rate.get("rule"),
    }
