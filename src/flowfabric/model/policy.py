"""Execution policies: a JSON object that is given at creation and does not change."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, structs

from flowfabric.errors import Corruption, ValidationError, ValidationKind, invalid
from flowfabric.ids import parse_uuid
from flowfabric.model.state import TimeoutBehavior

MAX_CAPABILITIES = 256
MAX_CAPABILITY_BYTES = 4_096
MAX_POLICY_BYTES = 65_536
MAX_BUDGETS = 64
DEFAULT_DEDUP_WINDOW_MS = 86_400_000
TASK = "task:"
"""The prefix of a capability that names a task; a worker offers one for each of its tasks."""
MAX_DURATION_MS = 10 * 365 * 86_400_000
MAX_COUNT = 4_294_967_295

Duration = Annotated[int, Meta(ge=0, le=MAX_DURATION_MS)]
Count = Annotated[int, Meta(ge=0, le=MAX_COUNT)]
_BACKOFF_NUMBERS = {"delay_ms", "initial_delay_ms", "max_delay_ms", "multiplier"}


class RetryPolicy(Struct, frozen=True, omit_defaults=True):
    max_retries: Count = 3
    backoff: dict[str, object] = {}
    retryable_categories: tuple[str, ...] = ()


class TimeoutPolicy(Struct, frozen=True, omit_defaults=True):
    attempt_timeout_ms: Duration | None = None
    execution_deadline_ms: Duration | None = None
    max_reclaim_count: Count | None = None


class SuspensionPolicy(Struct, frozen=True, omit_defaults=True):
    """Applies to a suspension without a timeout."""

    default_timeout_ms: Duration | None = None
    timeout_behavior: str = "fail"


class FallbackPolicy(Struct, frozen=True, omit_defaults=True):
    tiers: tuple[dict[str, object], ...] = ()


class RoutingRequirements(Struct, frozen=True, omit_defaults=True):
    required_capabilities: tuple[str, ...] = ()
    preferred_locality: str | None = None
    isolation_level: str | None = None


class StreamPolicy(Struct, frozen=True, omit_defaults=True):
    durability_mode: str = "buffered"
    retention_maxlen: Count = 10_000
    retention_ttl_ms: Duration | None = None


class RetentionPolicy(Struct, frozen=True, omit_defaults=True):
    """How long an execution is kept after it completes (or is cancelled, skipped), or fails."""

    completed_ms: Duration | None = None
    failed_ms: Duration | None = None


_NO_TIMEOUTS, _NO_AGES = TimeoutPolicy(), RetentionPolicy()


class ExecutionPolicy(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Every field is optional."""

    priority: Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)] = 0
    delay_until: Annotated[int, Meta(ge=0)] | None = None
    retry_policy: RetryPolicy | None = None
    timeout_policy: TimeoutPolicy | None = None
    max_reclaim_count: Count | None = None
    suspension_policy: SuspensionPolicy | None = None
    fallback_policy: FallbackPolicy | None = None
    max_replay_count: Count = 10
    budget_ids: tuple[str, ...] = ()
    quota_policy_id: str | None = None
    routing_requirements: RoutingRequirements | None = None
    dedup_window_ms: Duration | None = None
    stream_policy: StreamPolicy | None = None
    retention_policy: RetentionPolicy | None = None
    max_signals_per_execution: Count = 10_000

    @property
    def required_capabilities(self) -> tuple[str, ...]:
        return self.routing_requirements.required_capabilities if self.routing_requirements else ()

    @property
    def attempt_timeout_ms(self) -> int | None:
        return (self.timeout_policy or _NO_TIMEOUTS).attempt_timeout_ms or None

    @property
    def execution_deadline_ms(self) -> int | None:
        return (self.timeout_policy or _NO_TIMEOUTS).execution_deadline_ms or None

    @property
    def reclaim_limit(self) -> int:
        stated = (self.max_reclaim_count, (self.timeout_policy or _NO_TIMEOUTS).max_reclaim_count)
        return next((limit for limit in stated if limit is not None), 100)

    @property
    def retention_ttl_ms(self) -> int | None:
        return self._age((self.retention_policy or _NO_AGES).completed_ms)

    @property
    def failed_retention_ttl_ms(self) -> int | None:
        return self._age((self.retention_policy or _NO_AGES).failed_ms)

    def _age(self, own: int | None) -> int | None:
        """The age of the retention policy, or else `stream_policy.retention_ttl_ms`."""
        stream = self.stream_policy
        return own if own is not None or stream is None else stream.retention_ttl_ms


PolicyInput = ExecutionPolicy | Mapping[str, object] | str | bytes | None
_decode_stored = msgspec.json.Decoder(ExecutionPolicy).decode
_encode = msgspec.json.Encoder().encode


def parse_retry_policy(text: str) -> RetryPolicy | None:
    """The retry policy of one failure; None if invalid. A missing limit means no retry."""
    try:
        tree = msgspec.json.decode(text)
        if not isinstance(tree, dict):
            return None
        policy = parse_policy({"retry_policy": {"max_retries": 0, **tree}})
    except (msgspec.DecodeError, ValidationError, UnicodeError, RecursionError):
        return None
    return policy.retry_policy if policy else None


def encode_policy(policy: ExecutionPolicy) -> str:
    return _encode(policy).decode()


def stored_policy(text: str | None, about: object = None) -> ExecutionPolicy | None:
    """`about` is named by the error for a policy that cannot be read."""
    try:
        return None if text is None else _decode_stored(text)
    except ValueError:
        raise Corruption("policy cannot be read", about) from None


def parse_policy(value: PolicyInput) -> ExecutionPolicy | None:
    """Checks a caller's policy in the documented order. The error names the first problem."""
    if value is None:
        return None
    tree = _tree(value)
    routing = tree.get("routing_requirements")
    if routing is not None:
        if not isinstance(routing, dict):
            raise _bad_policy("routing_requirements:not_object")
        if "required_capabilities" in routing:
            routing["required_capabilities"] = _required(routing["required_capabilities"])
    try:
        policy = msgspec.convert(tree, ExecutionPolicy)
    except msgspec.ValidationError as error:
        raise _bad_policy(f"{_path(str(error))}:invalid") from None
    if policy.retry_policy is not None:
        _check_backoff(policy.retry_policy.backoff)
    waits = policy.suspension_policy
    if waits is not None and waits.timeout_behavior not in tuple(TimeoutBehavior):
        raise _bad_policy("suspension_policy.timeout_behavior:invalid")
    names_limits = policy.budget_ids or policy.quota_policy_id is not None
    return _with_plain_ids(policy) if names_limits else policy


def _with_plain_ids(policy: ExecutionPolicy) -> ExecutionPolicy:
    """The ids of limits in canonical form, without repeats."""
    budgets = tuple(sorted({_limit_id(text, "budget_id") for text in policy.budget_ids}))
    if len(budgets) > MAX_BUDGETS:
        raise _bad_policy(f"budget_ids: at most {MAX_BUDGETS}, got {len(budgets)}")
    quota = policy.quota_policy_id
    return structs.replace(
        policy,
        budget_ids=budgets,
        quota_policy_id=None if quota is None else _limit_id(quota, "quota_policy_id"),
    )


def _limit_id(text: str, field: str) -> str:
    try:
        return str(parse_uuid(text))
    except ValueError:
        raise _bad_policy(f"invalid {field}: {text!r:.80}") from None


def check_worker_capabilities(tokens: object, field: str = "capabilities") -> tuple[str, ...]:
    """The tokens of a worker, sorted."""
    if tokens == () or tokens == frozenset():
        return ()
    found = check_capability_tokens(tokens, field)
    if len(found) > MAX_CAPABILITIES:
        raise invalid(field, f"at most {MAX_CAPABILITIES} tokens")
    ordered = tuple(sorted(found))
    if len(",".join(ordered).encode()) > MAX_CAPABILITY_BYTES:
        raise invalid(field, f"at most {MAX_CAPABILITY_BYTES} bytes when joined by commas")
    return ordered


def check_capability_tokens(tokens: object, field: str) -> set[str]:
    """Checks the form of each token, but not their number."""
    if isinstance(tokens, str | bytes) or not hasattr(tokens, "__iter__"):
        raise invalid(field, "a set of capability tokens", tokens)
    found: set[str] = set()
    for token in tokens:
        if not isinstance(token, str) or not token:
            raise invalid(field, "non-empty text tokens", token)
        if "," in token:
            raise invalid(field, "tokens without a comma", token)
        if any(ch.isspace() or not ch.isprintable() for ch in token):
            raise invalid(field, "tokens without white space or control characters", token)
        found.add(token)
    return found


def _tree(value: ExecutionPolicy | Mapping[str, object] | str | bytes) -> dict[str, object]:
    if isinstance(value, str | bytes):
        raw = value.encode(errors="surrogatepass") if isinstance(value, str) else value
        if len(raw) > MAX_POLICY_BYTES:
            raise _bad_policy(f"larger than {MAX_POLICY_BYTES} bytes")
        try:
            tree = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            raise _bad_policy("malformed") from None
    else:
        tree = _copied(dict(value) if isinstance(value, Mapping) else value)
    if not isinstance(tree, dict):
        raise _bad_policy("malformed")
    return tree


def _copied(tree: object) -> object:
    """A deep copy through JSON, so that the checked value is stored. Refuses infinity and NaN."""
    try:
        _check_finite(tree, "")
        text = _encode(tree)
        if len(text) > MAX_POLICY_BYTES:
            raise _bad_policy(f"larger than {MAX_POLICY_BYTES} bytes")
        return msgspec.json.decode(text)
    except (TypeError, ValueError, RecursionError):
        raise _bad_policy("malformed") from None


def _check_finite(tree: object, path: str) -> None:
    if isinstance(tree, float) and not math.isfinite(tree):
        raise _bad_policy(f"{path}:invalid")
    if isinstance(tree, Struct):
        tree = msgspec.structs.asdict(tree)
    if isinstance(tree, Mapping):
        for key, value in tree.items():
            _check_finite(value, f"{path}.{key}" if path else str(key))
    elif isinstance(tree, list | tuple):
        for value in tree:
            _check_finite(value, path)


def _required(tokens: object) -> list[str]:
    if not isinstance(tokens, list):
        raise _bad_capabilities("required:not_array")
    found: set[str] = set()
    for token in tokens:
        if not isinstance(token, str):
            raise _bad_capabilities("required:non_string_token")
        if not token:
            raise _bad_capabilities("required:empty_token")
        if "," in token:
            raise _bad_capabilities("required:comma_in_token")
        if any(byte <= 0x20 or byte == 0x7F for byte in token.encode()):
            raise _bad_capabilities("required:control_or_whitespace")
        found.add(token)
    if len(found) > MAX_CAPABILITIES:
        raise _bad_capabilities("required:too_many_tokens")
    if len(",".join(found).encode()) > MAX_CAPABILITY_BYTES:
        raise _bad_capabilities("required:too_many_bytes")
    return sorted(found)


def _check_backoff(backoff: dict[str, object]) -> None:
    for member, value in backoff.items():
        if member in _BACKOFF_NUMBERS:
            low = 1 if member == "multiplier" else 0
            number = value if isinstance(value, int | float) else math.nan
            if isinstance(value, bool) or not low <= number <= MAX_DURATION_MS:
                raise _bad_policy(f"retry_policy.backoff.{member}:invalid")
        elif member == "jitter" and not isinstance(value, bool):
            raise _bad_policy("retry_policy.backoff.jitter:invalid")


def _path(message: str) -> str:
    """`... - at `$.retry_policy.max_retries`` -> retry_policy.max_retries"""
    _, _, tail = message.rpartition("`$")
    return tail.rstrip("`").lstrip(".") or "policy"


def _bad_policy(detail: str) -> ValidationError:
    return ValidationError(ValidationKind.INVALID_POLICY_JSON, detail)


def _bad_capabilities(detail: str) -> ValidationError:
    return ValidationError(ValidationKind.INVALID_CAPABILITIES, detail)
