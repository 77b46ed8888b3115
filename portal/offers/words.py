"""Offers in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _counted(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _types(names: list[str]) -> str:
    return " and ".join(names)


CHANGES: Mapping[str, Callable[[Any], str]] = {
    "size": lambda size: f"Accept {_counted(size, 'GPU')} too",
    "gpu-type": lambda names: f"Allow {_types(names)} too",
    "cores-per-gpu": lambda cores: f"Take {_counted(cores, 'core')} a GPU",
    "cores": lambda cores: f"Take {_counted(cores, 'core')}",
    "memory": lambda memory_mib: f"Take {memory_mib / 1024:.4g} GiB of memory",
}


def change_words(offer: Mapping[str, Any]) -> str:
    """Return what is pressed: Accept 2 GPUs too."""
    return CHANGES[offer["change"]](offer["value"])


def cost_words(offer: Mapping[str, Any]) -> str:
    """Say how fast it would be: About 53 % of the speed asked for (assumed)."""
    share = offer["of_asked"]
    if share is None or 0.995 <= share <= 1.005:
        return ""
    known = "measured" if offer["measured"] else "assumed, not measured"
    return f"{share:.0%} of the speed that it asks for now ({known}).".replace("%", "\u00a0%")


def others_words(offer: Mapping[str, Any]) -> str:
    """Say who would start later for it: the reader's own tenant's jobs by number, of others only that there are some."""
    later = offer["later"]
    if later is None:
        return "Who else would start later was not worked out in time."
    own = [f"#{each['job']} would start {minutes(each['seconds'])} later" for each in later["own"]]
    if later["own_more"]:
        own.append(f"and {later['own_more']} more of your tenant's")
    told = f"{', '.join(own)}." if own else ""
    others = "Some job of another tenant would start later." if later["others"] else ""
    return " ".join(filter(None, (told, others))) or "No other waiting job would start later."


NO_GAIN: Mapping[str, str] = {
    "same": "It would be over at about the same time.",
    "later": "It would be over later than as it stands.",
    "limit": "Its time limit would end it before it is done.",
    "length": "It would run longer, and nobody knows for how long: expected_duration_s says whether it would be over sooner.",
    "start": "It would run longer, and when it starts as it stands is not known.",
}


def no_gain_words(offer: Mapping[str, Any]) -> str:
    """Say why the job would not be over sooner, or why nobody can tell; nothing of one that gains."""
    return "" if offer["gains"] else NO_GAIN.get(offer.get("no_gain") or "", "It would not be over sooner.")


def minutes(seconds: float) -> str:
    whole = max(1, round(seconds / 60))
    return f"{whole} min" if whole < 120 else f"{whole / 60:.0f} h"
