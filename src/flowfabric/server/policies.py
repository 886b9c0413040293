"""Integers and the policy of an execution as HTTP clients send them.

Clients send the largest representable number for "unlimited", and times of any clock. A wrong shape
is refused and a number outside the engine's range is clamped to it. The engine checks everything
else, for all callers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta, Struct, to_builtins

from flowfabric.engine.validation import MAX_TIMESTAMP_MS
from flowfabric.ids import parse_uuid
from flowfabric.model.policy import MAX_COUNT, MAX_DURATION_MS

MAX_I64 = 2**63 - 1
I32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
I64 = Annotated[int, Meta(ge=-(2**63), le=MAX_I64)]
U16 = Annotated[int, Meta(ge=0, le=2**16 - 1)]
U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
U64 = Annotated[int, Meta(ge=0)]
"""msgspec supports no bound above 63 bits."""
Time = I64
PageLimit = Annotated[int, Meta(ge=1, le=1_000)]


def clamp(number: int, most: int = MAX_I64) -> int:
    return min(number, most)


def clamp_time(time_ms: int | None) -> int | None:
    return None if time_ms is None else min(max(time_ms, 0), MAX_TIMESTAMP_MS)


_DURATIONS = (
    *("attempt_timeout_ms", "dedup_window_ms", "default_timeout_ms", "delay_ms"),
    *("execution_deadline_ms", "initial_delay_ms", "max_delay_ms", "retention_ttl_ms"),
    "timeout_ms",
)
_RANGES: dict[str, tuple[int, int]] = {
    **dict.fromkeys(_DURATIONS, (0, MAX_DURATION_MS)),
    "delay_until": (0, MAX_TIMESTAMP_MS),
    "multiplier": (1, MAX_DURATION_MS),
    "retention_maxlen": (0, MAX_COUNT),
}


class FixedBackoff(Struct, frozen=True, tag_field="type", tag="fixed"):
    delay_ms: U64


class ExponentialBackoff(Struct, frozen=True, tag_field="type", tag="exponential"):
    initial_delay_ms: U64
    max_delay_ms: U64
    multiplier: float
    jitter: bool = False


class Retries(Struct, frozen=True, omit_defaults=True):
    """Without `backoff`, the engine's default applies."""

    max_retries: U32 = 3
    backoff: FixedBackoff | ExponentialBackoff | None = None
    retryable_categories: list[str] = []


class Timeouts(Struct, frozen=True, omit_defaults=True):
    attempt_timeout_ms: U64 | None = None
    execution_deadline_ms: U64 | None = None
    max_reclaim_count: U32 | None = None


class OfSuspension(Struct, frozen=True, omit_defaults=True):
    default_timeout_ms: U64 | None = None
    timeout_behavior: str = "fail"


class Tier(Struct, frozen=True, omit_defaults=True):
    provider: str
    model: str
    timeout_ms: U64 | None = None


class Fallbacks(Struct, frozen=True):
    tiers: list[Tier]


class Routing(Struct, frozen=True, omit_defaults=True):
    required_capabilities: list[str] = []
    preferred_locality: str | None = None
    isolation_level: str | None = None


class OfStreams(Struct, frozen=True, omit_defaults=True):
    durability_mode: str = "buffered"
    retention_maxlen: U64 = 10_000
    retention_ttl_ms: U64 | None = None


class NewPolicy(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Every field is optional. A value above the engine's limit counts as the limit.

    The limit of a duration is ten years.
    """

    priority: I32 = 0
    delay_until: I64 | None = None
    retry_policy: Retries | None = None
    timeout_policy: Timeouts | None = None
    max_reclaim_count: U32 | None = None
    suspension_policy: OfSuspension | None = None
    fallback_policy: Fallbacks | None = None
    max_replay_count: U32 = 10
    budget_ids: list[str] = []
    quota_policy_id: str | None = None
    routing_requirements: Routing | None = None
    dedup_window_ms: U64 | None = None
    stream_policy: OfStreams | None = None
    max_signals_per_execution: U32 = 10_000

    def __post_init__(self) -> None:
        for ident in (*self.budget_ids, *filter(None, (self.quota_policy_id,))):
            parse_uuid(ident)


def engine_policy(given: NewPolicy | None) -> Mapping[str, object] | None:
    return None if given is None else _clamped_fields(to_builtins(given))


def _clamped_fields(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: _clamped(name, value) for name, value in fields.items()}


def _clamped(name: str, value: object) -> object:
    if isinstance(value, list):
        return [_clamped("", each) for each in value]
    if isinstance(value, dict):
        return _clamped_fields(value)
    if name in _RANGES and isinstance(value, int | float):
        least, most = _RANGES[name]
        return min(max(value, least), most)
    return value
