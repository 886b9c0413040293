"""Policies as they are stored, and their defaults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from flowfabric.model.policy import (
    ExecutionPolicy,
    RetentionPolicy,
    RetryPolicy,
    StreamPolicy,
    TimeoutPolicy,
    check_worker_capabilities,
    encode_policy,
    parse_policy,
    stored_policy,
)

FULL: dict[str, Any] = {
    "priority": 3,
    "delay_until": 5,
    "retry_policy": {
        "max_retries": 1,
        "backoff": {"type": "fixed", "delay_ms": 9},
        "retryable_categories": ["transient"],
    },
    "timeout_policy": {"attempt_timeout_ms": 1, "execution_deadline_ms": 2, "max_reclaim_count": 3},
    "max_reclaim_count": 4,
    "suspension_policy": {"default_timeout_ms": 6, "timeout_behavior": "expire"},
    "fallback_policy": {"tiers": [{"provider": "p", "model": "m"}]},
    "max_replay_count": 7,
    "budget_ids": ["00000000-0000-4000-8000-000000000001"],
    "quota_policy_id": "00000000-0000-4000-8000-000000000002",
    "routing_requirements": {
        "required_capabilities": ["gpu"],
        "preferred_locality": "eu",
        "isolation_level": "vm",
    },
    "dedup_window_ms": 8,
    "stream_policy": {"durability_mode": "sync", "retention_maxlen": 9, "retention_ttl_ms": 10},
    "retention_policy": {"completed_ms": 12, "failed_ms": 13},
    "max_signals_per_execution": 11,
}


def test_every_field_survives_storing() -> None:
    policy = parse_policy(FULL)
    assert policy is not None
    assert json.loads(encode_policy(policy)) == FULL
    assert stored_policy(encode_policy(policy)) == policy
    assert parse_policy(policy) == policy


def test_what_is_unset_is_left_out_and_unknown_fields_are_ignored() -> None:
    policy = parse_policy({"retry_policy": None, "timeout_policy": {}, "unknown": {"x": 1}})
    assert policy is not None
    assert encode_policy(policy) == '{"timeout_policy":{}}'
    assert encode_policy(ExecutionPolicy()) == "{}"


def test_parsing_does_not_change_the_callers_policy() -> None:
    given = {"routing_requirements": {"required_capabilities": ["b", "a"]}}
    parse_policy(given)
    assert given == {"routing_requirements": {"required_capabilities": ["b", "a"]}}


def test_defaults() -> None:
    plain = ExecutionPolicy()
    assert (plain.priority, plain.max_replay_count, plain.max_signals_per_execution) == (
        0,
        10,
        10_000,
    )
    assert (plain.required_capabilities, plain.attempt_timeout_ms, plain.execution_deadline_ms) == (
        (),
        None,
        None,
    )
    assert (plain.retention_ttl_ms, plain.reclaim_limit, RetryPolicy().max_retries) == (
        None,
        100,
        3,
    )
    assert (StreamPolicy().durability_mode, StreamPolicy().retention_maxlen) == ("buffered", 10_000)


@pytest.mark.parametrize(
    ("top", "nested", "limit"),
    [(None, None, 100), (None, 5, 5), (7, 5, 7), (0, 5, 0), (None, 0, 0)],
)
def test_the_top_level_reclaim_count_wins(top: int | None, nested: int | None, limit: int) -> None:
    assert (
        ExecutionPolicy(
            max_reclaim_count=top, timeout_policy=TimeoutPolicy(max_reclaim_count=nested)
        ).reclaim_limit
        == limit
    )


def test_time_limits_of_zero_mean_none() -> None:
    policy = ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=0, execution_deadline_ms=0)
    )
    assert (policy.attempt_timeout_ms, policy.execution_deadline_ms) == (None, None)
    limits = ExecutionPolicy(
        timeout_policy=TimeoutPolicy(attempt_timeout_ms=4, execution_deadline_ms=5)
    )
    assert (limits.attempt_timeout_ms, limits.execution_deadline_ms) == (4, 5)


@pytest.mark.parametrize(
    ("stream", "own", "ages"),
    [
        (None, (None, None), (None, None)),
        (6, None, (6, 6)),
        (6, (7, None), (7, 6)),
        (6, (None, 8), (6, 8)),
        (6, (0, 0), (0, 0)),
        (None, (7, None), (7, None)),
    ],
)
def test_an_age_of_the_retention_policy_wins_over_the_one_for_any_end(
    stream: int | None,
    own: tuple[int | None, int | None] | None,
    ages: tuple[int | None, int | None],
) -> None:
    policy = ExecutionPolicy(
        stream_policy=None if stream is None else StreamPolicy(retention_ttl_ms=stream),
        retention_policy=None if own is None else RetentionPolicy(*own),
    )
    assert (policy.retention_ttl_ms, policy.failed_retention_ttl_ms) == ages


@pytest.mark.parametrize(
    ("tokens", "held"),
    [
        ((), ()),
        (frozenset(), ()),
        ([], ()),
        ({"b", "a"}, ("a", "b")),
        (["a", "a"], ("a",)),
        (iter(["é"]), ("é",)),
    ],
)
def test_a_workers_tokens_are_sorted_and_distinct(tokens: Any, held: tuple[str, ...]) -> None:
    assert check_worker_capabilities(tokens) == held
