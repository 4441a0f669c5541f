"""Numbers as people read them: units, three significant digits, and a plain word where nothing was measured.

Decimal signs, separators of thousands, months and units are those of the language that is spoken.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

from testigo.dossier.language import _, counted, later, spoken

_BYTES = (later("B"), later("KiB"), later("MiB"), later("GiB"), later("TiB"), later("PiB"))
_THIN = "\u202f"  # a narrow space at which no line breaks


@dataclass(frozen=True)
class Digits:
    """How a language writes numbers. `grouped_from` is the least number of digits whose thousands are marked."""

    decimal: str
    thousands: str
    grouped_from: int


DIGITS = {
    "en": Digits(".", ",", 4),
    # Ortografía de la lengua española, RAE 2010: a thin space, never in numbers of four digits.
    "es": Digits(",", _THIN, 5),
    # Unicode CLDR 48, pt and fr.
    "pt": Digits(",", ".", 4),
    "fr": Digits(",", _THIN, 4),
}
_NUMBER = re.compile(r"(?<![\w.])(\d+)((?:,\d{3})*)(\.\d+)?(?![\w])")


def written(text: str) -> str:
    """Numbers written as in English, such as `-1,234.5`, in the signs of the language; the rest stays."""
    if spoken() == "en":
        return text
    digits = DIGITS[spoken()]

    def one(match: re.Match[str]) -> str:
        whole, groups, rest = match.group(1), match.group(2), match.group(3) or ""
        many = len(whole) + 3 * len(groups) // 4
        mark = digits.thousands if many >= digits.grouped_from else ""
        return whole + groups.replace(",", mark) + rest.replace(".", digits.decimal)

    return re.sub(r"-(?=\d)", "−", _NUMBER.sub(one, text))


def number(value: float | None, digits: int = 3) -> str:
    """A number with `digits` significant digits: 0.0123, 4.56, 12,300, 1.2 × 10⁻⁵."""
    if value is None or not math.isfinite(value):
        return not_measured() if value is None else _("not finite")
    if value == 0:
        return "0"
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    exponent = int(power)
    if exponent < -4 or exponent > 9:
        if "." in mantissa:
            mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{_minus(written(mantissa))} × 10{str(exponent).translate(_SUPERSCRIPT)}"
    return _minus(written(f"{round(value, digits - 1 - exponent):,.{max(0, digits - 1 - exponent)}f}"))


def plain(value: float) -> str:
    """A number as somebody would give it, without zeros at its end: 3, 0.5, 80."""
    return _minus(written(f"{value:,.10g}"))


_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def not_measured() -> str:
    """The words for a value that nobody measured."""
    return _("not measured")


def count(value: int | None) -> str:
    """A whole number with its thousands marked."""
    return not_measured() if value is None else written(f"{value:,}")


def share(value: float | None) -> str:
    """A share from 0 to 1 as a percentage with one decimal."""
    if value is None or not math.isfinite(value):
        return not_measured()
    return _percent(f"{100 * value:.1f}")


def trained_share(value: float | None) -> str:
    """A small share as a percentage with three significant digits."""
    return not_measured() if value is None else _("{value} %", value=number(100 * value))


def level(alpha: float) -> str:
    """The confidence level that belongs to a significance level: 0.05 gives 95 %."""
    return _percent(f"{100 - 100 * alpha:g}")


def _percent(value: str) -> str:
    return _("{value} %", value=written(value))


def points(value: float | None, *, sign: bool = True) -> str:
    """A difference of two shares in percentage points."""
    if value is None or math.isnan(value):
        return not_measured()
    if math.isinf(value):
        return _("no bound")
    text = _points(value, sign)
    # Some languages have one point up to 1.9, others only at 1: the whole part is what their rules ask for.
    whole = int(abs(float(text)))
    return counted("{value} points", "{value} points", whole, value=_minus(written(text)))


def _points(value: float, sign: bool = True) -> str:
    text = f"{100 * value:+.1f}" if sign else f"{100 * value:.1f}"
    return "0.0" if float(text) == 0 else text


def interval(low: float | None, high: float | None) -> str:
    """An interval of differences, in points; a one-sided one names only its bound."""
    has_low = low is not None and math.isfinite(low)
    has_high = high is not None and math.isfinite(high)
    if low is not None and has_low and has_high:
        return _("{low} to {high}", low=_minus(written(_points(low))), high=points(high))
    if has_low:
        return _("at least {value}", value=points(low))
    return _("at most {value}", value=points(high)) if has_high else not_measured()


def probability(value: float | None) -> str:
    """A p-value with its sign of relation, never rounded down to zero."""
    if value is None or not math.isfinite(value):
        return not_measured()
    return written("< 0.0001" if value < 0.0001 else f"= {value:.4f}" if value < 0.01 else f"= {value:.3f}")


def size(n_bytes: float | None) -> str:
    """Bytes in binary units."""
    if n_bytes is None:
        return not_measured()
    value, unit = float(n_bytes), 0
    while abs(value) >= 1024 and unit < len(_BYTES) - 1:
        value, unit = value / 1024, unit + 1
    return f"{number(value) if unit else int(value)} {_(_BYTES[unit])}"


def duration(seconds: float | None) -> str:
    """Seconds in the two units that matter: 850 ms, 12.3 s, 4 min 05 s, 3 h 20 min, 2 d 4 h."""
    if seconds is None or not math.isfinite(seconds):
        return not_measured()
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
    return _("{days} d {hours} h", days=days, hours=hours)


def hours(seconds: float | None) -> str:
    """Seconds as hours, for bills."""
    return not_measured() if seconds is None else f"{number(seconds / 3600)} h"


def money(amount: float | None, currency: str) -> str:
    """An amount with its currency; below a cent it says so."""
    if amount is None:
        return _("no price given")
    if 0 < amount < 0.01:
        return f"{written('< 0.01')} {currency}".strip()
    return f"{written(f'{amount:,.2f}')} {currency}".strip()


def date(time: str) -> str:
    """An ISO time as `30 Nov 2026, 10:41 UTC`; text that is no time is returned as it is."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return time
    moment = moment.astimezone(UTC) if moment.tzinfo else moment
    day = _("{day} {month} {year}", day=moment.day, month=_month(moment.month), year=moment.year)
    return f"{day}, {moment:%H:%M}" + (" UTC" if moment.tzinfo else "")


def _month(number: int) -> str:
    if spoken() == "en":
        return ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")[number - 1]
    from babel.dates import get_month_names

    return str(get_month_names("abbreviated", locale=spoken())[number])


def short(digest: str, n: int = 12) -> str:
    """The first characters of a digest; the whole one is in the JSON twin."""
    return digest[:n] if digest else _("none")
