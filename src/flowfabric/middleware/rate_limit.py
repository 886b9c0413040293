"""Token buckets: calls above a rate are refused before they are made."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping

from flowfabric.errors import ConfigError, ErrorClass, ValidationError, ValidationKind
from flowfabric.middleware.layer import Layer

DEFAULT = "default"
MIN_RATE = 1.0


class Bucket:
    """A token bucket that holds the tokens of one second and starts full."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = max(float(rate), MIN_RATE)
        self._tokens, self._at = self._rate, now

    def take(self, now: float) -> bool:
        self._tokens = min(self._rate, self._tokens + max(now - self._at, 0.0) * self._rate)
        self._at = max(now, self._at)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


class RateLimitLayer(Layer):
    """Limits all calls together, or calls by kind.

    `RateLimitLayer(per_second=100)` has one bucket. With `RateLimitLayer(classifier=kind_of,
    buckets={"reads": 500, "writes": 50})`, `kind_of(method)` names the bucket of a call. Calls of
    an unknown bucket share the bucket `default=...`; without it they are not limited.
    """

    def __init__(
        self,
        per_second: float | None = None,
        *,
        classifier: Callable[[str], str] | None = None,
        buckets: Mapping[str, float] | None = None,
        default: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        _check_settings(per_second, classifier, buckets, default)
        now, rest = clock(), default if per_second is None else per_second
        self._clock, self._lock = clock, threading.Lock()
        self._classifier = classifier or _all_alike
        self._buckets = {
            key: Bucket(_rate(f"buckets[{key!r}]", rate), now)
            for key, rate in (buckets or {}).items()
        }
        self._default = (
            None
            if rest is None
            else Bucket(_rate("default" if per_second is None else "per_second", rest), now)
        )

    def before(self, method: str) -> None:
        key = self._classifier(method)
        bucket = self._buckets.get(key)
        name, bucket = (key, bucket) if bucket is not None else (DEFAULT, self._default)
        if bucket is None:
            return
        with self._lock:
            admitted = bucket.take(self._clock())
        if not admitted:
            raise _exhausted(method, name)


def _exhausted(method: str, bucket: str) -> ValidationError:
    """A retryable error: the call itself is valid, and workers retry it."""
    error = ValidationError(
        ValidationKind.INVALID_INPUT, f"rate-limit: method {method} bucket {bucket} exhausted"
    )
    error.error_class = ErrorClass.RETRYABLE
    return error


def _all_alike(_: str) -> str:
    return DEFAULT


def _check_settings(
    per_second: float | None,
    classifier: object,
    buckets: Mapping[str, float] | None,
    default: float | None,
) -> None:
    by_kind = classifier is not None and buckets is not None
    if per_second is None and not by_kind:
        raise ConfigError(
            "RateLimitLayer: expected either per_second, or classifier and buckets, got neither"
        )
    if per_second is not None and (
        classifier is not None or buckets is not None or default is not None
    ):
        raise ConfigError(
            "RateLimitLayer: expected either per_second, or classifier, buckets and default, "
            "got both"
        )


def _rate(field: str, rate: object) -> float:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not math.isfinite(rate):
        raise ConfigError(
            f"RateLimitLayer: {field}: expected a number of calls per second, got {rate!r:.80}"
        )
    return float(rate)
