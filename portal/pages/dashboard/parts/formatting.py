"""Figures in words, as pages, tables and sentences show them; an absent one is an en dash. Templates have them as filters."""

from __future__ import annotations

NBSP = "\u00a0"
THIN = "\u202f"
MINUS = "\u2212"
DASH = "\u2013"
GIB_MIB = 1024


def duration(seconds: float | None) -> str:
    """42 -> "42 s", 1860 -> "31 min", 4380 -> "1 h 13 min", 180000 -> "2 d 2 h"; the units do not break from the figure."""
    if seconds is None:
        return DASH
    whole = round(seconds)
    if whole < 60:
        return f"{whole}{NBSP}s"
    units = [(whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min")]
    first = next(place for place, (count, _) in enumerate(units) if count)
    return NBSP.join(f"{count}{NBSP}{unit}" for count, unit in units[first : first + 2] if count)


def precise(seconds: float) -> str:
    """761 -> "12 min 41 s", 4380 -> "1 h 13 min": as base.js prints what ticks."""
    whole = max(0, round(seconds))
    return f"{whole // 60}{NBSP}min{NBSP}{whole % 60}{NBSP}s" if 60 <= whole < 3600 else duration(whole)


def number(value: float | None, digits: int = 0) -> str:
    """1240 -> "1 240" with a narrow no-break space; the minus sign is U+2212; None is an en dash."""
    if value is None:
        return DASH
    text = f"{abs(value):,.{digits}f}".replace(",", THIN)
    nought = not any(figure in text for figure in "123456789")
    return text if value >= 0 or nought else f"{MINUS}{text}"


def count_of(value: float, word: str) -> str:
    """1, GPU -> "1 GPU"; 1240, GPU -> "1 240 GPUs"."""
    return f"{number(value)} {word}{'s' if value != 1 else ''}"


COUNTED = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def counted(value: int) -> str:
    """0 -> "none", 1 -> "one", 12 -> "12": within a sentence."""
    return COUNTED[value] if 0 <= value < len(COUNTED) else str(value)


def memory(mib: float) -> str:
    """Memory that is counted in MiB: 8192 -> "8 GiB", 9001 -> "8.79 GiB"."""
    return f"{round(mib / GIB_MIB, 2):g} GiB"


def limit_size(value_bytes: float) -> str:
    """A limit in bytes, in the unit that operators set it in: 53687091200 -> "50 GiB"."""
    return memory(value_bytes / 2**20).replace(" ", NBSP)


def percent(value: float | None, digits: int = 0) -> str:
    """0..100 -> "83 %"."""
    return DASH if value is None else f"{number(value, digits)}{NBSP}%"


def share(value: float | None, digits: int = 0) -> str:
    """0..1 -> "83 %"."""
    return DASH if value is None else percent(value * 100, digits)


def size(value_bytes: float | None) -> str:
    """Bytes in decimal units: 2400000 -> "2.4 MB"."""
    if value_bytes is None:
        return DASH
    amount = float(value_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.{0 if unit == 'B' else 1}f}{NBSP}{unit}"
        amount /= 1000
    return f"{amount:.1f}{NBSP}TB"
