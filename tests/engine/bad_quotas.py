"""What the operations on quotas and attachments must refuse: (name, field the error
names, call).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from flowfabric.model.quota import (
    BlockForAdmissionArgs,
    CheckAdmissionArgs,
    CreateQuotaPolicyArgs,
    UpdateQuotaPolicyArgs,
)

from .bad_common import (
    IDS,
    LANES,
    LIMITS,
    LONE,
    NAMES,
    PARTITIONS,
    TEXTS,
    TIMES,
    Bad,
    Subject,
    each,
    fields_of,
)

LIMIT_IDS = ("", "x", 5, b"x" * 16, None, LONE, [UUID(int=1)])
NUMBERS = (-1, 2**63, True, "5", 1.5, None)
Q = UUID(int=1)


def _create(s: Subject, **said: Any) -> CreateQuotaPolicyArgs:
    return CreateQuotaPolicyArgs(**{"quota_policy_id": Q, **said})


def _update(s: Subject, **said: Any) -> UpdateQuotaPolicyArgs:
    return UpdateQuotaPolicyArgs(**{"quota_policy_id": Q, **said})


def _check(s: Subject, **said: Any) -> CheckAdmissionArgs:
    return CheckAdmissionArgs(**{"quota_policy_id": Q, "execution_id": s.ready, **said})


def _block(s: Subject, **said: Any) -> BlockForAdmissionArgs:
    return BlockForAdmissionArgs(**{"execution_id": s.ready, "reason": "waiting_for_quota", **said})


def quotas() -> Iterator[Bad]:
    yield from fields_of(
        "create_quota_policy",
        _create,
        quota_policy_id=LIMIT_IDS,
        window_seconds=NUMBERS,
        max_requests_per_window=NUMBERS,
        max_concurrent=NUMBERS,
        jitter_ms=NUMBERS,
        now=TIMES,
    )
    yield from fields_of(
        "update_quota_policy",
        _update,
        quota_policy_id=LIMIT_IDS,
        window_seconds=NUMBERS,
        max_requests_per_window=NUMBERS,
        max_concurrent=NUMBERS,
        jitter_ms=NUMBERS,
        by=TEXTS,
    )
    yield from fields_of(
        "check_admission",
        _check,
        quota_policy_id=LIMIT_IDS,
        execution_id=IDS,
        window_seconds=NUMBERS,
        rate_limit=NUMBERS,
        concurrency_cap=NUMBERS,
        jitter_ms=NUMBERS[:-1],
        dimension=(*TEXTS, "x" * 257, None),
        now=TIMES,
    )
    yield from fields_of(
        "block_execution_for_admission",
        _block,
        execution_id=IDS,
        partition=PARTITIONS,
        lane_id=LANES[1:],
        reason_detail=TEXTS,
        blocked_on=TEXTS,
        now=TIMES,
    )
    for method in (
        "create_quota_policy",
        "update_quota_policy",
        "check_admission",
        "block_execution_for_admission",
    ):
        yield from each(
            method, "args", (None, 5, {}), lambda s, v, m=method: getattr(s.engine, m)(v)
        )
    for method in ("read_quota_policy_limits", "open_quota"):
        yield from each(
            method, "quota_policy_id", LIMIT_IDS, lambda s, v, m=method: getattr(s.engine, m)(v)
        )
    yield from each(
        "close_quota", "quota_policy_id", LIMIT_IDS, lambda s, v: s.engine.close_quota(v, 5)
    )
    yield from each(
        "close_quota", "until_ms", (*TIMES, None), lambda s, v: s.engine.close_quota(Q, v)
    )
    yield from each(
        "release_admission",
        "quota_policy_id",
        LIMIT_IDS,
        lambda s, v: s.engine.release_admission(v, s.ready),
    )
    yield from each(
        "release_admission", "execution_id", IDS, lambda s, v: s.engine.release_admission(Q, v)
    )
    yield from each("release_limited", "limit", LIMITS, lambda s, v: s.engine.release_limited(v))


def attaching() -> Iterator[Bad]:
    for method in ("attach_limit", "detach_limit"):

        def call(s: Subject, *args: Any, method: str = method) -> Any:
            return getattr(s.engine, method)(*args)

        yield from each(
            method, "kind", ("", "lane", None, 5, []), lambda s, v, c=call: c(s, v, Q, "lane", "x")
        )
        yield from each(
            method, "limit_id", LIMIT_IDS, lambda s, v, c=call: c(s, "quota", v, "lane", "x")
        )
        yield from each(
            method,
            "scope_type",
            ("", "execution", None, 5, []),
            lambda s, v, c=call: c(s, "quota", Q, v, "x"),
        )
        for scope, values in (
            ("lane", LANES),
            ("namespace", NAMES),
            ("flow", ("", "x", 5, None)),
            ("tag", ("", "key", "=value", 5, None, LONE, "k=" + "x" * 1_024)),
        ):
            yield from each(
                method,
                "scope_id",
                values,
                lambda s, v, c=call, scope=scope: c(s, "quota", Q, scope, v),
            )
    yield from each(
        "list_limit_scopes", "limit", LIMITS, lambda s, v: s.engine.list_limit_scopes(limit=v)
    )
    yield from each(
        "list_limit_scopes",
        "after",
        (5, "x", ("lane", "x")),
        lambda s, v: s.engine.list_limit_scopes(v),
    )
