"""Numbers as people read them: units, three significant digits, and a plain word where nothing was measured."""

from __future__ import annotations

import math
from datetime import UTC, datetime

NOT_MEASURED = "not measured"
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def number(value: float | None, digits: int = 3) -> str:
    """A number with `digits` significant digits: 0.0123, 4.56, 12,300, 1.2 × 10⁻⁵."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED if value is None else "not finite"
    if value == 0:
        return "0"
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    exponent = int(power)
    if exponent < -4 or exponent > 9:
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{_minus(mantissa)} × 10{str(exponent).translate(_SUPERSCRIPT)}"
    return _minus(f"{round(value, digits - 1 - exponent):,.{max(0, digits - 1 - exponent)}f}")


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def count(value: int | None) -> str:
    """A whole number with its thousands marked."""
    return NOT_MEASURED if value is None else f"{value:,}"


def share(value: float | None) -> str:
    """A share from 0 to 1 as a percentage with one decimal."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    return f"{100 * value:.1f} %"


def trained_share(value: float | None) -> str:
    """A small share as a percentage with three significant digits."""
    return NOT_MEASURED if value is None else f"{number(100 * value)} %"


def points(value: float | None, *, sign: bool = True) -> str:
    """A difference of two shares in percentage points."""
    if value is None or math.isnan(value):
        return NOT_MEASURED
    if math.isinf(value):
        return "no bound"
    text = f"{100 * value:+.1f}" if sign else f"{100 * value:.1f}"
    if float(text) == 0:
        text = "0.0"
    return f"{_minus(text)} points"


def interval(low: float | None, high: float | None) -> str:
    """An interval of differences, in points; a one-sided one names only its bound."""
    has_low = low is not None and math.isfinite(low)
    has_high = high is not None and math.isfinite(high)
    if has_low and has_high:
        return f"{points(low).removesuffix(' points')} to {points(high)}"
    if has_low:
        return f"at least {points(low)}"
    return f"at most {points(high)}" if has_high else NOT_MEASURED


def probability(value: float | None) -> str:
    """A p-value with its sign of relation, never rounded down to zero."""
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    return "< 0.0001" if value < 0.0001 else f"= {value:.4f}" if value < 0.01 else f"= {value:.3f}"


def size(n_bytes: float | None) -> str:
    """Bytes in binary units."""
    if n_bytes is None:
        return NOT_MEASURED
    value, unit = float(n_bytes), 0
    while abs(value) >= 1024 and unit < len(_BYTES) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number(value) if unit else int(value)} {_BYTES[unit]}"


def duration(seconds: float | None) -> str:
    """Seconds in the two units that matter: 850 ms, 12.3 s, 4 min 05 s, 3 h 20 min, 2 d 4 h."""
    if seconds is None or not math.isfinite(seconds):
        return NOT_MEASURED
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 60:
        return f"{number(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h"


def hours(seconds: float | None) -> str:
    """Seconds as hours, for bills."""
    return NOT_MEASURED if seconds is None else f"{number(seconds / 3600)} h"


def money(amount: float | None, currency: str) -> str:
    """An amount with its currency; below a cent it says so."""
    if amount is None:
        return "no price given"
    if 0 < amount < 0.01:
        return f"< 0.01 {currency}".strip()
    return f"{amount:,.2f} {currency}".strip()


def date(time: str) -> str:
    """An ISO time as `30 Nov 2026, 10:41 UTC`; text that is no time is returned as it is."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return time
    moment = moment.astimezone(UTC) if moment.tzinfo else moment
    return f"{moment.day} {moment:%b %Y, %H:%M}" + (" UTC" if moment.tzinfo else "")


def short(digest: str, n: int = 12) -> str:
    """The first characters of a digest; the whole one is in the JSON twin."""
    return digest[:n] if digest else "none"
