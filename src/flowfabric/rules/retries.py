"""Whether a failure is tried again, and when."""

from __future__ import annotations

from typing import Any

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
    asked_ms: int | None = None,
) -> int | None:
    """Milliseconds until the next try, or None when this was the last. `roll` in [0, 1) feeds the jitter.

    Whether there is a next try is for the policy to say; `asked_ms` says when.
    """
    if failure_class in _FATAL:
        return None
    delay = next_delay(policy or default, category, retry_count, roll)
    return delay if delay is None or asked_ms is None else asked_ms


def next_delay(policy: RetryPolicy, category: str, retry_count: int, roll: float) -> int | None:
    if policy.retryable_categories and category not in policy.retryable_categories:
        return None
    if retry_count >= policy.max_retries:
        return None
    return backoff_ms(policy.backoff, retry_count, roll)


def backoff_ms(backoff: dict[str, Any], retry_count: int, roll: float) -> int:
    kind = backoff.get("type", "exponential" if not backoff else None)
    if kind == "fixed":
        return int(_number(backoff, "delay_ms", _FALLBACK_DELAY_MS))
    if kind != "exponential":
        return _FALLBACK_DELAY_MS
    initial, most = (
        _number(backoff, "initial_delay_ms", 1_000),
        _number(backoff, "max_delay_ms", 60_000),
    )
    multiplier = _number(backoff, "multiplier", 2.0)
    try:
        delay = int(min(initial * multiplier ** min(retry_count, _MAX_EXPONENT), most))
    except OverflowError:
        delay = int(most) if initial else 0
    if backoff.get("jitter") is True:
        return max(int(delay * (0.5 + roll / 2)), 1)
    return delay


def _number(backoff: dict[str, Any], member: str, default: float) -> float:
    value = backoff.get(member, default)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else default
