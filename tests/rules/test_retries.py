from __future__ import annotations

from typing import Any

import pytest

from flowfabric.model.attempt import FailureClass
from flowfabric.model.policy import RetryPolicy
from flowfabric.rules.retries import DEFAULT_RETRY_POLICY, backoff_ms, delay_after, next_delay

EXPONENTIAL: dict[str, Any] = {"type": "exponential"}


@pytest.mark.parametrize(
    ("backoff", "retry_count", "delay"),
    [
        (EXPONENTIAL, 0, 1_000),
        (EXPONENTIAL, 1, 2_000),
        (EXPONENTIAL, 5, 32_000),
        (EXPONENTIAL, 6, 60_000),
        (EXPONENTIAL, 10_000, 60_000),
        ({}, 0, 1_000),
        ({}, 3, 8_000),
        ({**EXPONENTIAL, "initial_delay_ms": 100, "multiplier": 1.5}, 1, 150),
        ({**EXPONENTIAL, "initial_delay_ms": 100, "multiplier": 1.5}, 3, 337),
        ({**EXPONENTIAL, "multiplier": 1}, 50, 1_000),
        ({**EXPONENTIAL, "max_delay_ms": 500}, 0, 500),
        ({**EXPONENTIAL, "max_delay_ms": 0}, 4, 0),
        ({**EXPONENTIAL, "initial_delay_ms": 0}, 4, 0),
        ({**EXPONENTIAL, "initial_delay_ms": 0, "multiplier": 9.5}, 900, 0),
        ({**EXPONENTIAL, "multiplier": 1e10, "max_delay_ms": 7_000}, 500, 7_000),
        ({**EXPONENTIAL, "multiplier": 10**11, "max_delay_ms": 7_000}, 900, 7_000),
        (
            {**EXPONENTIAL, "initial_delay_ms": "x", "max_delay_ms": None, "multiplier": True},
            1,
            2_000,
        ),
        ({**EXPONENTIAL, "delay_ms": 5}, 0, 1_000),
        ({"type": "fixed", "delay_ms": 250}, 0, 250),
        ({"type": "fixed", "delay_ms": 250}, 9, 250),
        ({"type": "fixed", "delay_ms": 0}, 1, 0),
        ({"type": "fixed", "delay_ms": 2.9}, 1, 2),
        ({"type": "fixed"}, 4, 1_000),
        ({"type": "fixed", "delay_ms": "soon"}, 4, 1_000),
        ({"type": "fixed", "delay_ms": False}, 4, 1_000),
        ({"type": "linear", "delay_ms": 5}, 4, 1_000),
        ({"type": None}, 4, 1_000),
        ({"type": ["fixed"]}, 4, 1_000),
        ({"delay_ms": 5}, 4, 1_000),
    ],
)
def test_the_backoff_formula(backoff: dict[str, Any], retry_count: int, delay: int) -> None:
    assert backoff_ms(backoff, retry_count, 0.5) == delay


@pytest.mark.parametrize(
    ("roll", "delay"), [(0.0, 2_000), (0.25, 2_500), (0.5, 3_000), (0.999999, 3_999)]
)
def test_jitter_halves_the_delay_at_most_and_never_reaches_it(roll: float, delay: int) -> None:
    assert backoff_ms({**EXPONENTIAL, "jitter": True}, 2, roll) == delay


@pytest.mark.parametrize("retry_count", [0, 3, 6, 40])
def test_jitter_stays_below_the_maximum(retry_count: int) -> None:
    for roll in (0.0, 0.3, 0.999999):
        jittered = backoff_ms({**EXPONENTIAL, "jitter": True}, retry_count, roll)
        plain = backoff_ms(EXPONENTIAL, retry_count, roll)
        assert plain // 2 <= jittered < plain <= 60_000


def test_jitter_is_at_least_one_millisecond() -> None:
    assert backoff_ms({**EXPONENTIAL, "initial_delay_ms": 1, "jitter": True}, 0, 0.0) == 1
    assert backoff_ms({**EXPONENTIAL, "initial_delay_ms": 0, "jitter": True}, 0, 0.9) == 1


@pytest.mark.parametrize("jitter", [False, None, 1, "yes"])
def test_only_true_switches_jitter_on(jitter: object) -> None:
    assert backoff_ms({**EXPONENTIAL, "jitter": jitter}, 1, 0.0) == 2_000


@pytest.mark.parametrize(
    ("max_retries", "retry_count", "delay"),
    [(0, 0, None), (1, 0, 1_000), (1, 1, None), (3, 2, 4_000), (3, 3, None), (3, 4, None)],
)
def test_the_cap_counts_retries_without_the_first_attempt(
    max_retries: int, retry_count: int, delay: int | None
) -> None:
    assert next_delay(RetryPolicy(max_retries=max_retries), "transient", retry_count, 0.0) == delay


@pytest.mark.parametrize(
    ("categories", "category", "retried"),
    [
        ((), "anything", True),
        (("transient",), "transient", True),
        (("transient",), "infra_crash", False),
        (("a", "b"), "b", True),
        (("Transient",), "transient", False),
        (("transient",), "", False),
    ],
)
def test_a_category_outside_the_list_is_final(
    categories: tuple[str, ...], category: str, retried: bool
) -> None:
    delay = next_delay(RetryPolicy(retryable_categories=categories), category, 0, 0.0)
    assert (delay is not None) is retried


@pytest.mark.parametrize(
    ("failure_class", "retried"),
    [
        (FailureClass.TRANSIENT, True),
        (FailureClass.INFRA_CRASH, True),
        (FailureClass.PERMANENT, False),
        (FailureClass.TIMEOUT, False),
        (FailureClass.CANCELLED, False),
    ],
)
@pytest.mark.parametrize("policy", [None, RetryPolicy(max_retries=100)])
def test_the_failure_class_is_checked_before_the_policy(
    failure_class: FailureClass, retried: bool, policy: RetryPolicy | None
) -> None:
    delay = delay_after(failure_class, failure_class.value, policy, DEFAULT_RETRY_POLICY, 0, 0.0)
    assert delay == (1_000 if retried else None)


def test_the_stored_policy_overrides_the_default() -> None:
    own = RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": 7})
    assert delay_after(FailureClass.TRANSIENT, "transient", own, DEFAULT_RETRY_POLICY, 0, 0.0) == 7
    assert (
        delay_after(FailureClass.TRANSIENT, "transient", own, DEFAULT_RETRY_POLICY, 1, 0.0) is None
    )
    none = RetryPolicy(max_retries=0)
    assert (
        delay_after(FailureClass.TRANSIENT, "transient", none, DEFAULT_RETRY_POLICY, 0, 0.0) is None
    )


@pytest.mark.parametrize(("retry_count", "delay"), [(0, 1_000), (1, 2_000), (2, 4_000), (3, None)])
def test_without_a_policy_three_retries_double_from_one_second(
    retry_count: int, delay: int | None
) -> None:
    assert (
        delay_after(
            FailureClass.TRANSIENT, "transient", None, DEFAULT_RETRY_POLICY, retry_count, 0.9
        )
        == delay
    )


def test_the_default_never_waits_longer_than_a_minute() -> None:
    assert backoff_ms(DEFAULT_RETRY_POLICY.backoff, 30, 0.0) == 60_000


def test_a_requested_delay_does_not_override_the_policy() -> None:
    own = RetryPolicy(max_retries=1, backoff={"type": "fixed", "delay_ms": 7})
    transient = (FailureClass.TRANSIENT, "transient", own, DEFAULT_RETRY_POLICY)
    assert delay_after(*transient, 0, 0.0, 500) == 500
    assert delay_after(*transient, 0, 0.0, 0) == 0
    assert delay_after(*transient, 1, 0.0, 500) is None
    assert delay_after(FailureClass.PERMANENT, *transient[1:], 0, 0.0, 500) is None
