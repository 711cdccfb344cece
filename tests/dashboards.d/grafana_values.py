"""Texts of values as Grafana shows them: units, value mappings, the text for missing data."""

from __future__ import annotations

import math
import re
import time
from typing import Any

Value = float | str | list[str] | None
SECOND_UNITS = (
    (60, 1, "s"),
    (3600, 60, "min"),
    (86400, 3600, "hour"),
    (604800, 86400, "day"),
    (31536000, 604800, "week"),
)
DATE_TOKENS = {"YYYY": "%Y", "MM": "%m", "DD": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "ddd": "%a", "MMM": "%b"}


class UnsupportedError(Exception):
    """A dashboard uses something of Grafana that these modules do not have."""


def text_of(value: Value, config: dict[str, Any], now: float) -> str:
    """The text of one value, as in Grafana's getDisplayProcessor. `config` is the field's configuration."""
    if isinstance(value, float) and math.isnan(value):
        value = None
    mapped = _mapped(value, config.get("mappings", []))
    if mapped is not None:
        return mapped
    if isinstance(value, list):
        return ", ".join(value)
    if value is None or value == "":
        return config.get("noValue", "")
    if isinstance(value, str):
        return value
    return _format(value, config.get("unit", "none"), config.get("decimals"), now)


def _mapped(value: Value, mappings: list[dict[str, Any]]) -> str | None:
    for mapping in mappings:
        options = mapping["options"]
        result = None
        match mapping["type"]:
            case "value":
                result = None if isinstance(value, list) else options.get(_raw(value))
            case "range":
                low, high = (options.get(end) for end in ("from", "to"))
                if isinstance(value, float) and (low is None or value >= low) and (high is None or value <= high):
                    result = options["result"]
            case "special":
                matches = {"null+nan": value is None, "null": value is None, "nan": False, "empty": value == ""}
                if options["match"] not in matches:
                    raise UnsupportedError(f"mapping of {options['match']}")
                result = options["result"] if matches[options["match"]] else None
            case "regex":
                found = re.search(options["pattern"].strip("/"), value) if isinstance(value, str) else None
                if found:
                    result = dict(options["result"])
                    if "text" in result:
                        result["text"] = found.expand(re.sub(r"\$(\d)", r"\\\1", result["text"]))
            case other:
                raise UnsupportedError(f"mapping of type {other}")
        if result is not None:
            return result.get("text")
    return None


def _raw(value: float | str | None) -> str:
    """The key of a value in a mapping."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def _format(value: float, unit: str, decimals: int | None, now: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    match unit:
        case "none" | "short" if unit == "none" or abs(value) < 1000:
            return _fixed(value, decimals)
        case "short":
            return f"{_fixed(value / 1000, decimals)} K"
        case "s":
            return _seconds(value, decimals)
        case "m":
            return _seconds(value * 60, decimals)
        case "h":
            return _seconds(value * 3600, decimals)
        case "dtdurations":
            return _duration(value, decimals)
        case "percentunit":
            return f"{_fixed(value * 100, decimals)}%"
        case "percent":
            return f"{_fixed(value, decimals)}%"
        case "dateTimeAsIsoNoDateIfToday":
            is_today = value / 1000 // 86400 == now // 86400
            return _date(value, "HH:mm:ss" if is_today else "YYYY-MM-DD HH:mm:ss")
    if unit.startswith("time:"):
        return _date(value, unit.removeprefix("time:"))
    if unit.startswith("suffix:"):
        return _fixed(value, decimals) + unit.removeprefix("suffix:")
    raise UnsupportedError(f"unit {unit}")


def _fixed(value: float, decimals: int | None) -> str:
    if decimals is not None:
        return f"{value:.{decimals}f}"
    if value == int(value):
        return str(int(value))
    # Two or three significant digits, as in getDecimalsForValue.
    digits = 1 - math.floor(math.log10(abs(value)))
    digits += abs(value) * 10**digits > 22.5
    text = f"{value:.{max(digits, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _seconds(value: float, decimals: int | None) -> str:
    if 0 < abs(value) < 1:
        return f"{_fixed(value * 1000, decimals)} ms"
    for limit, size, name in SECOND_UNITS:
        if abs(value) < limit:
            text = _fixed(value / size, decimals)
            return f"{text} {name}{'s' if size >= 3600 and float(text) != 1 else ''}"
    return f"{_fixed(value / 31556900, decimals)} years"


def _duration(value: float, decimals: int | None) -> str:
    """The unit `dtdurations`: the largest unit, and `decimals` more."""
    if value < 0:
        return f"{_duration(-value, decimals)} ago"
    parts, left = [], value
    for size, name in (
        (31536000, "year"),
        (2592000, "month"),
        (604800, "week"),
        (86400, "day"),
        (3600, "hour"),
        (60, "minute"),
        (1, "second"),
    ):
        if left >= size or parts:
            count, left = divmod(left, size)
            parts.append(f"{int(count)} {name}{'' if count == 1 else 's'}")
    return ", ".join(parts[: (decimals or 0) + 1]) or "0 seconds"


def _date(milliseconds: float, form: str) -> str:
    pattern = re.sub(
        "|".join(sorted(DATE_TOKENS, key=len, reverse=True)), lambda token: DATE_TOKENS[token.group()], form
    )
    return time.strftime(pattern, time.gmtime(milliseconds / 1000))
