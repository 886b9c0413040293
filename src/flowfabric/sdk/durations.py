"""Spans of time, as text, numbers or timedeltas."""

from __future__ import annotations

import math
import re
from datetime import timedelta

from flowfabric.errors import ConfigError

Span = str | int | float | timedelta
"""`"250ms"`, `"1h30m"`, `"10d"`, a number of seconds, or a timedelta."""

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_PART = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)(ms|s|m|h|d|w)")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+\Z")
_ACCEPTED = 'a span like "250ms", "30s", "1h30m" or "10d", a number of seconds, or a timedelta'
MAX_SPAN_MS = 10 * 365 * 86_400_000


def millis(span: Span, field: str) -> int:
    """The span in whole milliseconds, from 0 to ten years."""
    found = _millis(span)
    if found is None or not 0 <= found <= MAX_SPAN_MS:
        raise ConfigError(f"{field}: {_ACCEPTED}, up to ten years; got {span!r:.80}")
    return found


def _millis(span: object) -> int | None:
    if isinstance(span, timedelta):
        return span // timedelta(milliseconds=1)
    if isinstance(span, bool):
        return None
    if isinstance(span, int | float):
        return round(span * 1_000) if math.isfinite(span) else None
    if isinstance(span, str):
        text = span.replace(" ", "")
        if len(text) <= 80 and _WHOLE.match(text):
            return round(sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text)))
    return None
