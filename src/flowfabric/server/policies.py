"""The policy of an execution as HTTP clients send it.

A wrong shape is refused and a number outside the engine's range is clamped to it. The engine
checks everything else, for all callers.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, to_builtins

from flowfabric.engine.validation import MAX_TIMESTAMP_MS
from flowfabric.ids import parse_uuid
from flowfabric.model.policy import MAX_COUNT, MAX_DURATION_MS
from flowfabric.server.numbers import I32, I64, U32, U64

_DURATION = (0, MAX_DURATION_MS)
_RANGES: dict[str, tuple[int, int]] = {
    "attempt_timeout_ms": _DURATION,
    "dedup_window_ms": _DURATION,
    "default_timeout_ms": _DURATION,
    "delay_ms": _DURATION,
    "delay_until": (0, MAX_TIMESTAMP_MS),
    "execution_deadline_ms": _DURATION,
    "initial_delay_ms": _DURATION,
    "max_delay_ms": _DURATION,
    "multiplier": (1, MAX_DURATION_MS),
    "retention_maxlen": (0, MAX_COUNT),
    "retention_ttl_ms": _DURATION,
    "timeout_ms": _DURATION,
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


def engine_policy(given: NewPolicy | None) -> dict[str, Any] | None:
    return None if given is None else _clamped(to_builtins(given))


def _clamped(tree: Any) -> Any:
    if isinstance(tree, list):
        return [_clamped(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        name: _in_range(name, held) if name in _RANGES else _clamped(held)
        for name, held in tree.items()
    }


def _in_range(name: str, number: float) -> float:
    least, most = _RANGES[name]
    return min(max(number, least), most)
