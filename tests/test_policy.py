from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.errors import Corruption, ValidationError
from flowfabric.model.policy import (
    MAX_DURATION_MS,
    MAX_POLICY_BYTES,
    ExecutionPolicy,
    RetryPolicy,
    RoutingRequirements,
    check_worker_capabilities,
    parse_policy,
    parse_retry_policy,
    stored_policy,
)


def routing(tokens: Any) -> dict[str, Any]:
    return {"routing_requirements": {"required_capabilities": tokens}}


def refused(value: Any) -> tuple[str, str]:
    with pytest.raises(ValidationError) as raised:
        parse_policy(value)
    return raised.value.kind.value, raised.value.detail


# In the order they are checked: each row is wrong in its own way and in every way below it.
NUMBER = {"max_replay_count": -1}
ORDER = [
    ("{", "invalid_policy_json", "malformed"),
    (
        {"routing_requirements": 1, **NUMBER},
        "invalid_policy_json",
        "routing_requirements:not_object",
    ),
    ({**routing({"a": 1}), **NUMBER}, "invalid_capabilities", "required:not_array"),
    ({**routing([1, "", ",", " "]), **NUMBER}, "invalid_capabilities", "required:non_string_token"),
    ({**routing(["", ",", " "]), **NUMBER}, "invalid_capabilities", "required:empty_token"),
    ({**routing([", ", " "]), **NUMBER}, "invalid_capabilities", "required:comma_in_token"),
    (
        {**routing([" ", *(f"{n:04}" for n in range(257))]), **NUMBER},
        "invalid_capabilities",
        "required:control_or_whitespace",
    ),
    (
        {**routing([f"{n:016}" for n in range(257)]), **NUMBER},
        "invalid_capabilities",
        "required:too_many_tokens",
    ),
    ({**routing(["x" * 4_097]), **NUMBER}, "invalid_capabilities", "required:too_many_bytes"),
    (NUMBER, "invalid_policy_json", "max_replay_count:invalid"),
]


@pytest.mark.parametrize(("value", "kind", "detail"), ORDER, ids=[row[2] for row in ORDER])
def test_the_error_names_the_first_problem(value: Any, kind: str, detail: str) -> None:
    assert refused(value) == (kind, detail)
    if not isinstance(value, str):
        assert refused(json.dumps(value)) == (kind, detail)
        assert refused(json.dumps(value).encode()) == (kind, detail)


@pytest.mark.parametrize(
    "value", ["", "null", "[]", "1", '"x"', "{} {}", b"\xff", "[" * 5_000, 5, [], {"x": object()}]
)
def test_a_policy_that_is_no_json_object_is_malformed(value: Any) -> None:
    assert refused(value) == ("invalid_policy_json", "malformed")


def test_a_policy_that_contains_itself_is_malformed() -> None:
    knot: dict[str, Any] = {}
    knot["knot"] = knot
    assert refused(knot) == ("invalid_policy_json", "malformed")


def test_no_policy_is_no_policy() -> None:
    assert parse_policy(None) is None
    assert stored_policy(None) is None


def test_a_policy_has_a_size_limit() -> None:
    frame = len('{"x":""}')
    fits = json.dumps({"x": "y" * (MAX_POLICY_BYTES - frame)}, separators=(",", ":"))
    assert len(fits) == MAX_POLICY_BYTES
    assert parse_policy(fits) == parse_policy(json.loads(fits)) == ExecutionPolicy()
    longer = fits + " "
    assert (
        refused(longer)
        == refused(longer.encode())
        == ("invalid_policy_json", "larger than 65536 bytes")
    )
    assert refused({"x": "y" * MAX_POLICY_BYTES}) == (
        "invalid_policy_json",
        "larger than 65536 bytes",
    )


@pytest.mark.parametrize(
    ("tokens", "detail"),
    [
        (None, "required:not_array"),
        ("gpu", "required:not_array"),
        ([None], "required:non_string_token"),
        (["a", 1], "required:non_string_token"),
        (["a", ""], "required:empty_token"),
        (["a,b"], "required:comma_in_token"),
        (["a b"], "required:control_or_whitespace"),
        (["a\x00"], "required:control_or_whitespace"),
        (["a\t"], "required:control_or_whitespace"),
        (["\x7f"], "required:control_or_whitespace"),
    ],
)
def test_required_tokens_that_are_refused(tokens: Any, detail: str) -> None:
    assert refused(routing(tokens)) == ("invalid_capabilities", detail)


def test_required_tokens_are_sorted_and_distinct_and_may_be_unicode() -> None:
    policy = parse_policy(routing(["b", "é\u00a0", "a", "b"]))
    assert policy is not None
    assert policy.required_capabilities == ("a", "b", "é\u00a0")


def test_the_limits_of_required_tokens_are_inclusive() -> None:
    tokens = [f"{n:03}" for n in range(256)]
    most = parse_policy(routing(tokens * 2))
    assert most is not None and len(most.required_capabilities) == 256
    assert refused(routing([*tokens, "256"])) == (
        "invalid_capabilities",
        "required:too_many_tokens",
    )
    wide = parse_policy(routing(["x" * 2_000, "é" * 1_046, "yy"]))
    assert wide is not None
    assert len(",".join(wide.required_capabilities).encode()) == 4_096
    assert refused(routing(["x" * 2_000, "é" * 1_046, "yyy"])) == (
        "invalid_capabilities",
        "required:too_many_bytes",
    )


NUMBERS = [
    ({"max_replay_count": -1}, "max_replay_count"),
    ({"max_replay_count": 2**32}, "max_replay_count"),
    ({"max_replay_count": 1.5}, "max_replay_count"),
    ({"max_replay_count": True}, "max_replay_count"),
    ({"max_replay_count": "1"}, "max_replay_count"),
    ({"max_replay_count": float("inf")}, "max_replay_count"),
    ({"max_reclaim_count": -1}, "max_reclaim_count"),
    ({"max_signals_per_execution": -1}, "max_signals_per_execution"),
    ({"dedup_window_ms": -1}, "dedup_window_ms"),
    ({"dedup_window_ms": MAX_DURATION_MS + 1}, "dedup_window_ms"),
    ({"dedup_window_ms": float("nan")}, "dedup_window_ms"),
    ({"delay_until": -1}, "delay_until"),
    ({"priority": "high"}, "priority"),
    ({"priority": 2**31}, "priority"),
    ({"budget_ids": "x"}, "budget_ids"),
    ({"budget_ids": [1]}, "budget_ids[0]"),
    ({"retry_policy": 3}, "retry_policy"),
    ({"retry_policy": {"max_retries": -1}}, "retry_policy.max_retries"),
    ({"retry_policy": {"retryable_categories": ["a", 1]}}, "retry_policy.retryable_categories[1]"),
    ({"retry_policy": {"backoff": "fixed"}}, "retry_policy.backoff"),
    ({"retry_policy": {"backoff": {"delay_ms": -1}}}, "retry_policy.backoff.delay_ms"),
    ({"retry_policy": {"backoff": {"delay_ms": "1"}}}, "retry_policy.backoff.delay_ms"),
    ({"retry_policy": {"backoff": {"delay_ms": True}}}, "retry_policy.backoff.delay_ms"),
    ({"retry_policy": {"backoff": {"delay_ms": float("inf")}}}, "retry_policy.backoff.delay_ms"),
    (
        {"retry_policy": {"backoff": {"initial_delay_ms": MAX_DURATION_MS + 1}}},
        "retry_policy.backoff.initial_delay_ms",
    ),
    ({"retry_policy": {"backoff": {"max_delay_ms": None}}}, "retry_policy.backoff.max_delay_ms"),
    ({"retry_policy": {"backoff": {"multiplier": 0.99}}}, "retry_policy.backoff.multiplier"),
    (
        {"retry_policy": {"backoff": {"multiplier": float("nan")}}},
        "retry_policy.backoff.multiplier",
    ),
    ({"retry_policy": {"backoff": {"jitter": 1}}}, "retry_policy.backoff.jitter"),
    ({"timeout_policy": {"attempt_timeout_ms": -1}}, "timeout_policy.attempt_timeout_ms"),
    ({"timeout_policy": {"attempt_timeout_ms": float("nan")}}, "timeout_policy.attempt_timeout_ms"),
    ({"timeout_policy": {"execution_deadline_ms": "1"}}, "timeout_policy.execution_deadline_ms"),
    ({"timeout_policy": {"max_reclaim_count": -1}}, "timeout_policy.max_reclaim_count"),
    ({"suspension_policy": {"default_timeout_ms": -1}}, "suspension_policy.default_timeout_ms"),
    ({"suspension_policy": {"timeout_behavior": "sulk"}}, "suspension_policy.timeout_behavior"),
    ({"fallback_policy": {"tiers": [1]}}, "fallback_policy.tiers[0]"),
    (
        {"routing_requirements": {"preferred_locality": 1}},
        "routing_requirements.preferred_locality",
    ),
    ({"stream_policy": {"retention_maxlen": -1}}, "stream_policy.retention_maxlen"),
    ({"stream_policy": {"retention_ttl_ms": -1}}, "stream_policy.retention_ttl_ms"),
    ({"retention_policy": {"completed_ms": -1}}, "retention_policy.completed_ms"),
    ({"retention_policy": {"failed_ms": 11 * 365 * 86_400_000}}, "retention_policy.failed_ms"),
    ({"retention_policy": {"failed_ms": "7d"}}, "retention_policy.failed_ms"),
]


@pytest.mark.parametrize(("value", "field"), NUMBERS, ids=[f"{v}" for v, _ in NUMBERS])
def test_a_senseless_number_or_type_names_its_field(value: dict[str, Any], field: str) -> None:
    assert refused(value) == ("invalid_policy_json", f"{field}:invalid")


@pytest.mark.parametrize(
    ("typed", "detail"),
    [
        (ExecutionPolicy(max_replay_count=-1), "max_replay_count:invalid"),
        (
            ExecutionPolicy(retry_policy=RetryPolicy(backoff={"multiplier": 0})),
            "retry_policy.backoff.multiplier:invalid",
        ),
        (
            ExecutionPolicy(retry_policy=RetryPolicy(backoff={"multiplier": float("nan")})),
            "retry_policy.backoff.multiplier:invalid",
        ),
        (
            ExecutionPolicy(
                routing_requirements=RoutingRequirements(required_capabilities=("a b",))
            ),
            "required:control_or_whitespace",
        ),
        (ExecutionPolicy(stream_policy=5), "stream_policy:invalid"),  # type: ignore[arg-type]
    ],
)
def test_a_typed_policy_reaches_the_same_checks(typed: ExecutionPolicy, detail: str) -> None:
    assert refused(typed)[1] == detail


def test_a_typed_policy_holding_something_foreign_is_refused() -> None:
    assert refused(ExecutionPolicy(fallback_policy=object()))[0] == "invalid_policy_json"  # type: ignore[arg-type]


@pytest.mark.parametrize("member", ["delay_ms", "initial_delay_ms", "max_delay_ms", "multiplier"])
def test_backoff_numbers_at_their_bounds_are_accepted(member: str) -> None:
    for value in (1, 2.5, MAX_DURATION_MS):
        policy = parse_policy(
            {"retry_policy": {"backoff": {"type": "exponential", "jitter": True, member: value}}}
        )
        assert policy is not None and policy.retry_policy is not None
        assert policy.retry_policy.backoff[member] == value


@pytest.mark.parametrize(
    "tokens",
    [
        "gpu",
        b"gpu",
        5,
        None,
        [""],
        [1],
        ["a,b"],
        ["a b"],
        ["a\u00a0b"],
        ["\x01"],
        ["\u2028"],
        ["\ud800"],
    ],
)
def test_bad_worker_tokens_are_invalid_input(tokens: Any) -> None:
    with pytest.raises(ValidationError, match="invalid_input: capabilities: "):
        check_worker_capabilities(tokens)


def test_the_limits_of_worker_tokens_are_inclusive() -> None:
    tokens = [f"{n:03}" for n in range(256)]
    assert check_worker_capabilities(tokens) == tuple(tokens)
    assert check_worker_capabilities(["x" * 4_096]) == ("x" * 4_096,)
    for many in ([*tokens, "256"], ["x" * 4_097]):
        with pytest.raises(ValidationError, match="invalid_input: worker_capabilities: at most"):
            check_worker_capabilities(many, "worker_capabilities")


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", None),
        ("{", None),
        ("[]", None),
        ("null", None),
        ("1", None),
        ('{"max_retries":-1}', None),
        ('{"max_retries":"2"}', None),
        ('{"backoff":{"delay_ms":-5}}', None),
        ('{"backoff":{"delay_ms":1e300}}', None),
        ('{"backoff":{"multiplier":0.5}}', None),
        ("[" * 5_000, None),
        ("\ud800", None),
        ("{}", RetryPolicy(max_retries=0)),
        ('{"max_retries":2}', RetryPolicy(max_retries=2)),
        (
            '{"max_retries":1,"retryable_categories":["a"]}',
            RetryPolicy(max_retries=1, retryable_categories=("a",)),
        ),
    ],
)
def test_a_retry_policy_given_for_one_failure_is_a_sound_one_or_none(
    text: str, policy: RetryPolicy | None
) -> None:
    assert parse_retry_policy(text) == policy


def test_a_stored_policy_that_is_damaged_is_not_read_as_something_else() -> None:
    with pytest.raises(Corruption, match="x: policy cannot be read"):
        stored_policy('{"max_replay_count":"ten"}', "x")
