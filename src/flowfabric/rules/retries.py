"""Whether and when a failed attempt is retried."""

from __future__ import annotations

from collections.abc import Mapping

from flowfabric.model.attempt import FailureClass
from flowfabric.model.policy import RetryPolicy

DEFAULT_RETRY_POLICY = RetryPolicy(
    max_retries=3,
    backoff={
        "type": "exponential",
        "initial_delay_ms": 1_000,
        "max_delay_ms": 60_000,
        "multiplier": 2.0,
    },
)
_FATAL = frozenset({FailureClass.PERMANENT, FailureClass.TIMEOUT, FailureClass.CANCELLED})
_FALLBACK_DELAY_MS = 1_000
_MAX_EXPONENT = 1_000


def delay_after(
    failure_class: FailureClass,
    category: str,
    policy: RetryPolicy | None,
    default: RetryPolicy,
    retry_count: int,
    roll: float,
    requested_ms: int | None = None,
) -> int | None:
    """Milliseconds until the next attempt, or None for no retry. `roll` in [0, 1) feeds the jitter.

    The policy decides whether the failure is retried; `requested_ms` replaces its delay.
    """
    if failure_class in _FATAL:
        return None
    delay = next_delay(policy or default, category, retry_count, roll)
    return delay if delay is None or requested_ms is None else requested_ms


def next_delay(policy: RetryPolicy, category: str, retry_count: int, roll: float) -> int | None:
    if policy.retryable_categories and category not in policy.retryable_categories:
        return None
    if retry_count >= policy.max_retries:
        return None
    return backoff_ms(policy.backoff, retry_count, roll)


def backoff_ms(backoff: Mapping[str, object], retry_count: int, roll: float) -> int:
    kind = backoff.get("type", "exponential" if not backoff else None)
    if kind == "fixed":
        return int(_number(backoff, "delay_ms", _FALLBACK_DELAY_MS))
    if kind != "exponential":
        return _FALLBACK_DELAY_MS
    initial = _number(backoff, "initial_delay_ms", 1_000)
    most = _number(backoff, "max_delay_ms", 60_000)
    multiplier = _number(backoff, "multiplier", 2.0)
    try:
        delay = int(min(initial * multiplier ** min(retry_count, _MAX_EXPONENT), most))
    except OverflowError:
        delay = int(most) if initial else 0
    if backoff.get("jitter") is True:
        return max(int(delay * (0.5 + roll / 2)), 1)
    return delay


def _number(backoff: Mapping[str, object], member: str, default: float) -> float:
    value = backoff.get(member, default)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default
