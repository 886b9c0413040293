"""Every public method with values it must refuse: (name, field the error names, call)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.errors import EngineError
from flowfabric.model.attempt import FailureReason
from flowfabric.model.event import ScannerFilter
from flowfabric.model.execution import (
    CancelExecutionArgs,
    ChangePriorityArgs,
    CreateExecutionArgs,
    ReplayExecutionArgs,
)
from flowfabric.model.lease import (
    ClaimExecutionArgs,
    ClaimPolicy,
    ClaimResumedArgs,
    CompleteExecutionArgs,
    DelayExecutionArgs,
    FailExecutionArgs,
    IssueGrantArgs,
    LeaseFence,
    ReclaimExecutionArgs,
    RenewLeaseArgs,
    ResumeGrant,
    ResumeToken,
    RevokeLeaseArgs,
    UpdateProgressArgs,
)
from flowfabric.model.policy import ExecutionPolicy
from flowfabric.model.worker import RegisterWorkerArgs

from . import bad_flows, bad_quotas
from .bad_common import (
    IDS,
    LANES,
    LIMITS,
    LONE,
    NAMES,
    PARTITIONS,
    PAYLOADS,
    TAG_KEYS,
    TAGS,
    TEXTS,
    TIMES,
    TOKENS,
    TTLS,
    UUID_TEXT,
    UUIDS,
    WHO,
    Bad,
    Call,
    Subject,
    each,
    fields_of,
)
from .helpers import new_id, other_uuid

# ---- what takes an execution id

BY_ID: dict[str, Callable[[Engine, Any], Awaitable[Any]]] = {
    **{
        name: (lambda e, i, name=name: getattr(e, name)(i))
        for name in (
            "describe_execution",
            "explain_execution",
            "read_execution_info",
            "read_execution_state",
            "read_execution_context",
            "read_current_attempt_index",
            "read_total_attempt_count",
            "get_execution_result",
            "get_execution_namespace",
            "resolve_execution_flow_id",
            "list_attempts",
            "promote_delayed",
            "unblock_execution",
            "mark_lease_expired_if_due",
            "requeue_lost",
            "evaluate_flow_eligibility",
            "promote_blocked_to_eligible",
            "cascade_completion",
        )
    },
    "get_execution_tag": lambda e, i: e.get_execution_tag(i, "a.b"),
    "read_exec_core_fields": lambda e, i: e.read_exec_core_fields(0, i, ["priority"]),
    "expire_execution": lambda e, i: e.expire_execution(i, "attempt_timeout"),
    "block_route": lambda e, i: e.block_route(i, "paused_by_operator"),
    "set_execution_tag": lambda e, i: e.set_execution_tag(i, "a.b", "c"),
    "set_execution_tags": lambda e, i: e.set_execution_tags(i, {"a.b": "c"}),
    "create_execution": lambda e, i: e.create_execution(CreateExecutionArgs(execution_id=i)),
    "cancel_execution": lambda e, i: e.cancel_execution(CancelExecutionArgs(execution_id=i)),
    "change_priority": lambda e, i: e.change_priority(
        ChangePriorityArgs(execution_id=i, new_priority=1)
    ),
    "replay_execution": lambda e, i: e.replay_execution(ReplayExecutionArgs(execution_id=i)),
    "claim_execution": lambda e, i: e.claim_execution(
        ClaimExecutionArgs(execution_id=i, lease_ttl_ms=9, **WHO)
    ),
    "claim_resumed_execution": lambda e, i: e.claim_resumed_execution(
        ClaimResumedArgs(execution_id=i, lease_ttl_ms=9, **WHO)
    ),
    "issue_grant_and_claim": lambda e, i: e.issue_grant_and_claim(i, "default", 9),
    "claim_from_resume_grant": lambda e, i: e.claim_from_resume_grant(
        ResumeToken(ResumeGrant(i, "{fp:0}", "k", 9, "default"), "w", "i", 9)
    ),
    "issue_claim_grant": lambda e, i: e.issue_claim_grant(
        IssueGrantArgs(execution_id=i, grant_ttl_ms=9, **WHO)
    ),
    "issue_reclaim_grant": lambda e, i: e.issue_reclaim_grant(
        IssueGrantArgs(execution_id=i, grant_ttl_ms=9, **WHO)
    ),
    "reclaim_execution": lambda e, i: e.reclaim_execution(
        ReclaimExecutionArgs(execution_id=i, lease_ttl_ms=9, **WHO)
    ),
    "revoke_lease": lambda e, i: e.revoke_lease(RevokeLeaseArgs(execution_id=i)),
    "complete_execution": lambda e, i: e.complete_execution(CompleteExecutionArgs(execution_id=i)),
    "fail_execution": lambda e, i: e.fail_execution(
        FailExecutionArgs(execution_id=i, failure_reason="r", failure_category="c")
    ),
    "delay_execution": lambda e, i: e.delay_execution(
        DelayExecutionArgs(execution_id=i, delay_until=9)
    ),
    "renew_lease": lambda e, i: e.renew_lease(
        RenewLeaseArgs(
            execution_id=i,
            attempt_index=0,
            fence=LeaseFence(other_uuid(), 1, other_uuid()),
            lease_ttl_ms=9,
        )
    ),
    "update_progress": lambda e, i: e.update_progress(
        UpdateProgressArgs(
            execution_id=i, lease_id=other_uuid(), lease_epoch=1, attempt_id=other_uuid()
        )
    ),
}


def _by_id() -> Iterator[Bad]:
    for method, call in BY_ID.items():
        yield from each(method, "execution_id", IDS, lambda s, v, call=call: call(s.engine, v))


# ---- creating


def _new(s: Subject, **said: Any) -> CreateExecutionArgs:
    return CreateExecutionArgs(**{"execution_id": new_id(), **said})


def _creating() -> Iterator[Bad]:
    yield from fields_of(
        "create_execution",
        _new,
        lane_id=LANES,
        namespace=NAMES,
        execution_kind=NAMES,
        creator_identity=("x" * 257, LONE, None, 5),
        input_payload=PAYLOADS,
        payload_encoding=("x" * 65, LONE, 5),
        priority=(2**31, -(2**31) - 1, True, "5", None, 1.5),
        idempotency_key=("x" * 513, LONE, 5, b"k"),
        tags=TAGS,
        delay_until=TIMES,
        execution_deadline_at=TIMES,
        partition_id=PARTITIONS,
        now=TIMES,
    )
    policies = (
        5,
        [],
        "",
        "{",
        b"\xff",
        object(),
        {"max_replay_count": -1},
        {"retry_policy": 5},
        "[" * 70_000,
        {"stream_policy": {"retention_ttl_ms": 2**70}},
        ExecutionPolicy(budget_ids=(LONE,)),
    )
    yield from each(
        "create_execution",
        "invalid_policy_json",
        policies,
        lambda s, v: s.engine.create_execution(_new(s, policy=v)),
    )
    yield from each(
        "create_executions",
        "args",
        (5, None, "x"),
        lambda s, v: s.engine.create_executions([_new(s), v]),
    )
    yield from each(
        "create_executions",
        "executions",
        (10_001,),
        lambda s, n: s.engine.create_executions([_new(s)] * n),
    )


# ---- claiming and granting


def _policy(**said: Any) -> ClaimPolicy:
    return ClaimPolicy(**{**WHO, **said})


def _claiming() -> Iterator[Bad]:
    for field, values in (
        ("worker_id", NAMES),
        ("worker_instance_id", NAMES),
        ("lease_ttl_ms", TTLS),
    ):
        yield from each(
            "claim",
            field,
            values,
            lambda s, v, f=field: s.engine.claim("default", (), _policy(**{f: v})),
        )
    waits = (-1, 86_400_001, True, "5", 1.5)
    yield from each(
        "claim",
        "max_wait_ms",
        waits,
        lambda s, v: s.engine.claim("empty", (), _policy(max_wait_ms=v)),
    )
    yield from each(
        "claim", "policy", (None, 5, "w"), lambda s, v: s.engine.claim("default", (), v)
    )
    yield from each("claim", "lane_id", LANES, lambda s, v: s.engine.claim(v, (), _policy()))
    yield from each(
        "claim", "capabilities", TOKENS, lambda s, v: s.engine.claim("default", v, _policy())
    )
    counts = (0, -1, 1_001, True, "5", None)
    yield from each(
        "claim_many", "n", counts, lambda s, v: s.engine.claim_many("default", (), _policy(), v)
    )

    def claiming(s: Subject, **said: Any) -> ClaimExecutionArgs:
        return ClaimExecutionArgs(**{"execution_id": s.ready, "lease_ttl_ms": 9, **WHO, **said})

    yield from fields_of(
        "claim_execution",
        claiming,
        worker_id=NAMES,
        worker_instance_id=NAMES,
        lease_ttl_ms=TTLS,
        attempt_policy_json=TEXTS,
        attempt_timeout_ms=(0, -1, 2**53, True, "5"),
        execution_deadline_at=TIMES,
        lease_id=UUIDS,
        attempt_id=UUIDS,
    )

    def resuming(s: Subject, **said: Any) -> ClaimResumedArgs:
        return ClaimResumedArgs(**{"execution_id": s.ready, "lease_ttl_ms": 9, **WHO, **said})

    yield from fields_of(
        "claim_resumed_execution",
        resuming,
        worker_id=NAMES,
        worker_instance_id=NAMES,
        lease_ttl_ms=TTLS,
        remaining_attempt_timeout_ms=(-1, 2**53, True, "5"),
        lease_id=UUIDS,
    )
    for field, values in (
        ("worker_id", NAMES),
        ("worker_instance_id", NAMES),
        ("lease_ttl_ms", TTLS),
    ):
        yield from each(
            "claim_from_resume_grant",
            field,
            values,
            lambda s, v, f=field: s.engine.claim_from_resume_grant(
                ResumeToken(
                    **{
                        "grant": ResumeGrant(s.ready, "{fp:0}", "k", 9, "default"),
                        "lease_ttl_ms": 9,
                        **WHO,
                        f: v,
                    }
                )
            ),
        )
    yield from each(
        "issue_grant_and_claim",
        "lease_duration_ms",
        TTLS,
        lambda s, v: s.engine.issue_grant_and_claim(s.ready, "default", v),
    )
    yield from each(
        "issue_grant_and_claim",
        "lane_id",
        LANES,
        lambda s, v: s.engine.issue_grant_and_claim(s.ready, v, 9),
    )

    def granting(s: Subject, **said: Any) -> IssueGrantArgs:
        return IssueGrantArgs(**{"execution_id": s.ready, "grant_ttl_ms": 9, **WHO, **said})

    for method in ("issue_claim_grant", "issue_reclaim_grant"):
        yield from fields_of(
            method,
            granting,
            worker_id=NAMES,
            worker_instance_id=NAMES,
            grant_ttl_ms=TTLS,
            partition=PARTITIONS,
            capability_hash=TEXTS,
            route_snapshot_json=TEXTS,
            admission_summary=TEXTS,
            worker_capabilities=TOKENS[:10],
        )

    def scheduling(s: Subject, field: str, value: Any) -> Any:
        said = {
            "lane": "default",
            **WHO,
            "worker_capabilities": (),
            "grant_ttl_ms": 9,
            field: value,
        }
        return s.engine.claim_for_worker(**said)

    for field, values in (
        ("worker_id", NAMES),
        ("worker_instance_id", NAMES),
        ("grant_ttl_ms", TTLS),
        ("lane", LANES),
        ("worker_capabilities", TOKENS),
    ):
        yield from each(
            "claim_for_worker", field, values, lambda s, v, f=field: scheduling(s, f, v)
        )
    yield from each(
        "scan_eligible_executions",
        "lane_id",
        LANES,
        lambda s, v: s.engine.scan_eligible_executions(v),
    )
    yield from each(
        "scan_eligible_executions",
        "limit",
        LIMITS,
        lambda s, v: s.engine.scan_eligible_executions("a", limit=v),
    )
    yield from each(
        "scan_eligible_executions",
        "partition_key",
        PARTITIONS[2:],
        lambda s, v: s.engine.scan_eligible_executions("a", v),
    )

    def reclaiming(s: Subject, **said: Any) -> ReclaimExecutionArgs:
        return ReclaimExecutionArgs(**{"execution_id": s.running, "lease_ttl_ms": 9, **WHO, **said})

    yield from fields_of(
        "reclaim_execution",
        reclaiming,
        worker_id=NAMES,
        worker_instance_id=NAMES,
        lease_ttl_ms=TTLS,
        attempt_policy_json=TEXTS,
        max_reclaim_count=(-1, 2**32, True, "5"),
        lease_id=UUIDS,
        attempt_id=UUIDS,
    )


# ---- holding


async def only_error(call: Awaitable[list[EngineError | None]]) -> None:
    """Many at once answer with their errors instead of raising them."""
    for error in await call:
        if error is not None:
            raise error


def _holding() -> Iterator[Bad]:
    yield from each(
        "progress",
        "percent",
        (-1, 101, True, "5", 1.5),
        lambda s, v: s.engine.progress(s.handle, v),
    )
    yield from each("progress", "message", TEXTS, lambda s, v: s.engine.progress(s.handle, None, v))
    yield from each("complete", "payload", PAYLOADS, lambda s, v: s.engine.complete(s.handle, v))
    yield from each(
        "complete_many",
        "payload",
        PAYLOADS,
        lambda s, v: only_error(s.engine.complete_many([(s.handle, v)])),
    )
    yield from each(
        "complete_many",
        "completions",
        (1_001,),
        lambda s, n: s.engine.complete_many([(s.handle, None)] * n),
    )
    yield from each("fail", "reason", TEXTS, lambda s, v: s.engine.fail(s.handle, v))
    yield from each(
        "fail",
        "reason.message",
        (LONE, 5, None),
        lambda s, v: s.engine.fail(s.handle, FailureReason(v)),
    )
    yield from each(
        "fail",
        "reason.detail",
        (b"x" * 257, "text"),
        lambda s, v: s.engine.fail(s.handle, FailureReason("m", v)),
    )
    yield from each(
        "fail",
        "failure_class",
        ("transient", None, 5),
        lambda s, v: s.engine.fail(s.handle, "m", v),
    )
    yield from each(
        "delay", "delay_until", (*TIMES, None), lambda s, v: s.engine.delay(s.handle, v)
    )
    yield from each("cancel", "reason", TEXTS, lambda s, v: s.engine.cancel(s.handle, v))

    def ending(kind: Any, **base: Any) -> Callable[..., Any]:
        return lambda s, **said: kind(**{"execution_id": s.running, **base, **said})

    yield from fields_of(
        "complete_execution",
        ending(CompleteExecutionArgs),
        result_payload=PAYLOADS,
        result_encoding=("x" * 65, LONE, 5),
    )
    failing = ending(FailExecutionArgs, failure_reason="r", failure_category="c")
    yield from fields_of(
        "fail_execution",
        failing,
        failure_reason=TEXTS,
        failure_category=NAMES,
        retry_policy_json=TEXTS,
        next_attempt_policy_json=TEXTS,
    )
    yield from fields_of("delay_execution", ending(DelayExecutionArgs), delay_until=(*TIMES, None))
    fence = LeaseFence(other_uuid(), 1, other_uuid())
    yield from fields_of(
        "renew_lease", ending(RenewLeaseArgs, attempt_index=0, fence=fence), lease_ttl_ms=TTLS
    )
    reporting = ending(
        UpdateProgressArgs, lease_id=other_uuid(), lease_epoch=1, attempt_id=other_uuid()
    )
    yield from fields_of(
        "update_progress", reporting, progress_pct=(-1, 101, True, "5"), progress_message=TEXTS
    )
    yield from each(
        "requeue_lost",
        "grace_ms",
        ("5", 1.5, True),
        lambda s, v: s.engine.requeue_lost(s.running, v),
    )


# ---- operating


def _operating() -> Iterator[Bad]:
    def on(kind: Any, **base: Any) -> Callable[..., Any]:
        return lambda s, **said: kind(**{"execution_id": s.ready, **base, **said})

    yield from fields_of(
        "cancel_execution", on(CancelExecutionArgs), reason=TEXTS, source=NAMES, now=TIMES
    )
    priorities = (2**31, -(2**31) - 1, True, "5", None, 1.5)
    yield from fields_of("change_priority", on(ChangePriorityArgs), new_priority=priorities)
    yield from fields_of("change_priority", on(ChangePriorityArgs, new_priority=1), now=TIMES)
    yield from fields_of(
        "replay_execution", on(ReplayExecutionArgs), reason=TEXTS, requested_by=TEXTS, now=TIMES
    )
    yield from fields_of(
        "revoke_lease", on(RevokeLeaseArgs), reason=TEXTS, worker_instance_id=TEXTS
    )
    phases = ("", "deadline", None, 5)
    yield from each(
        "expire_execution", "phase", phases, lambda s, v: s.engine.expire_execution(s.ready, v)
    )
    calls: dict[str, Callable[..., Any]] = {
        "expire_execution": lambda s, **said: s.engine.expire_execution(
            s.ready, "attempt_timeout", **said
        ),
        "promote_delayed": lambda s, **said: s.engine.promote_delayed(s.ready, **said),
        "block_route": lambda s, **said: s.engine.block_route(
            s.ready, "paused_by_operator", **said
        ),
        "unblock_execution": lambda s, **said: s.engine.unblock_execution(s.ready, **said),
    }
    for method, call in calls.items():
        yield from each(
            method, "partition", PARTITIONS, lambda s, v, call=call: call(s, partition=v)
        )
        yield from each(method, "now", TIMES, lambda s, v, call=call: call(s, now=v))
    yield from each(
        "mark_lease_expired_if_due",
        "partition",
        PARTITIONS,
        lambda s, v: s.engine.mark_lease_expired_if_due(s.ready, partition=v),
    )
    yield from each(
        "block_route",
        "invalid_blocking_reason",
        ("", "x", None, 5),
        lambda s, v: s.engine.block_route(s.ready, v),
    )
    yield from each(
        "block_route",
        "reason_detail",
        TEXTS,
        lambda s, v: s.engine.block_route(s.ready, "paused_by_operator", v),
    )
    yield from each(
        "set_execution_tag",
        "tag key",
        TAG_KEYS,
        lambda s, v: s.engine.set_execution_tag(s.ready, v, "x"),
    )
    yield from each(
        "get_execution_tag",
        "tag key",
        TAG_KEYS,
        lambda s, v: s.engine.get_execution_tag(s.ready, v),
    )
    yield from each(
        "set_execution_tag",
        "tags",
        (5, None, LONE, "x" * 16_385),
        lambda s, v: s.engine.set_execution_tag(s.ready, "a.b", v),
    )
    yield from each(
        "set_execution_tags", "tags", TAGS, lambda s, v: s.engine.set_execution_tags(s.ready, v)
    )
    yield from each(
        "set_lane_state",
        "state",
        ("", "closed", None, 5),
        lambda s, v: s.engine.set_lane_state("a", v),
    )
    for method in ("pause_lane", "resume_lane", "drain_lane", "read_lane"):
        yield from each(method, "lane_id", LANES, lambda s, v, m=method: getattr(s.engine, m)(v))


# ---- lists, workers, upkeep


def _listing() -> Iterator[Bad]:
    yield from each(
        "list_lanes", "cursor", ("", LONE, 5, b"a"), lambda s, v: s.engine.list_lanes(v)
    )
    yield from each("list_lanes", "limit", LIMITS, lambda s, v: s.engine.list_lanes(None, v))
    yield from each(
        "list_executions", "partition_key", PARTITIONS[2:], lambda s, v: s.engine.list_executions(v)
    )
    cursors = ("", "x", f"{{fp:1}}:{UUID_TEXT}", 5, b"x")
    yield from each(
        "list_executions", "cursor", cursors, lambda s, v: s.engine.list_executions(0, v)
    )
    yield from each(
        "list_executions", "limit", LIMITS, lambda s, v: s.engine.list_executions(0, None, v)
    )
    yield from each(
        "list_attempts",
        "after",
        (-1, True, "5", 2**63),
        lambda s, v: s.engine.list_attempts(s.ready, v),
    )
    yield from each(
        "list_attempts", "limit", LIMITS, lambda s, v: s.engine.list_attempts(s.ready, None, v)
    )
    yield from each(
        "read_exec_core_fields",
        "partition",
        PARTITIONS,
        lambda s, v: s.engine.read_exec_core_fields(v, s.ready, []),
    )
    yield from each(
        "read_exec_core_fields",
        "names",
        (["x"] * 129, None, 5),
        lambda s, v: s.engine.read_exec_core_fields(0, s.ready, v),
    )
    yield from each(
        "list_expired_leases", "as_of", TIMES, lambda s, v: s.engine.list_expired_leases(v)
    )
    positions = ("x", 5, (1,), ("x", s_id := f"{{fp:0}}:{UUID_TEXT}"), (1, "x"), (-1, s_id))
    yield from each(
        "list_expired_leases", "after", positions, lambda s, v: s.engine.list_expired_leases(1, v)
    )
    yield from each(
        "list_expired_leases",
        "limit",
        LIMITS,
        lambda s, v: s.engine.list_expired_leases(1, None, v),
    )
    yield from each(
        "list_expired_leases",
        "max_partitions_per_call",
        (0, -1, True, "5"),
        lambda s, v: s.engine.list_expired_leases(1, max_partitions_per_call=v),
    )

    def registering(s: Subject, **said: Any) -> RegisterWorkerArgs:
        return RegisterWorkerArgs(**{**WHO, **said})

    yield from fields_of(
        "register_worker",
        registering,
        worker_id=NAMES,
        worker_instance_id=NAMES,
        namespace=NAMES,
        lanes=({""}, {"x" * 65}, {LONE}, {5}),
        capabilities=TOKENS,
        liveness_ttl_ms=TTLS,
        now=TIMES,
    )
    for method in ("heartbeat_worker", "mark_worker_dead"):
        yield from each(
            method, "worker_instance_id", NAMES, lambda s, v, m=method: getattr(s.engine, m)(v)
        )
        yield from each(
            method,
            "namespace",
            NAMES,
            lambda s, v, m=method: getattr(s.engine, m)("live", namespace=v),
        )
        yield from each(
            method, "now", TIMES, lambda s, v, m=method: getattr(s.engine, m)("live", now=v)
        )
    yield from each(
        "mark_worker_dead",
        "reason",
        ("x" * 257, "\n", "\x7f", LONE, 5, None),
        lambda s, v: s.engine.mark_worker_dead("live", v),
    )
    yield from each(
        "list_workers", "namespace", (LONE, 5, b"x"), lambda s, v: s.engine.list_workers(v)
    )
    yield from each(
        "list_workers",
        "after",
        (5, "instance", ("only",), ("a", "b", "c"), ("a", 5)),
        lambda s, v: s.engine.list_workers(None, v),
    )
    yield from each(
        "list_workers",
        "after",
        (5, ("a", "b"), ()),
        lambda s, v: s.engine.list_workers("default", v),
    )
    yield from each(
        "list_workers", "limit", LIMITS, lambda s, v: s.engine.list_workers(None, None, v)
    )
    for method in (
        "drop_silent_workers",
        "forget_idempotency_keys",
        "drop_expired_grants",
    ):
        yield from each(method, "limit", LIMITS, lambda s, v, m=method: getattr(s.engine, m)(v))
    yield from each("trim_retention", "lane_id", LANES, lambda s, v: s.engine.trim_retention(v))
    yield from each("lanes_due", "lane_id", LANES, lambda s, v: s.engine.lanes_due([v]))
    yield from each("lanes_due", "lanes", (["lane"] * 1_001,), lambda s, v: s.engine.lanes_due(v))
    yield from each(
        "trim_retention",
        "retention_ms",
        (-1, 2**54, True, "5"),
        lambda s, v: s.engine.trim_retention("default", v),
    )
    yield from each(
        "trim_retention", "now", TIMES, lambda s, v: s.engine.trim_retention("default", now=v)
    )
    yield from each(
        "trim_retention", "batch", LIMITS, lambda s, v: s.engine.trim_retention("default", batch=v)
    )
    yield from each(
        "trim_retention",
        "partition",
        PARTITIONS[2:],
        lambda s, v: s.engine.trim_retention("default", partition=v),
    )
    for method in ("subscribe_lease_history", "subscribe_completion", "subscribe_operator_events"):
        cursors = (
            None,
            "x",
            5,
            b"\x02",
            b"\x01" + bytes(16),
            b"\x02" + bytes(7),
            b"\x02" + bytes(9),
            b"\x02\xff" + bytes(7),
        )
        yield from each(
            method, "cursor", cursors, lambda s, v, m=method: _subscribed(s, m, v, None)
        )
        filters = (
            5,
            "ns",
            {"namespace": "a"},
            ScannerFilter(namespace=5),
            ScannerFilter(instance_tag=("only",)),
        )  # type: ignore[arg-type]
        yield from each(method, "wanted", filters, lambda s, v, m=method: _subscribed(s, m, b"", v))


async def _subscribed(s: Subject, method: str, cursor: Any, wanted: Any) -> None:
    getattr(s.engine, method)(cursor, wanted)


def _grouped(cases: Iterable[Bad]) -> dict[tuple[str, str], list[tuple[str, Call]]]:
    found: dict[tuple[str, str], list[tuple[str, Call]]] = {}
    for name, field, call in cases:
        method, _, value = name.partition(f"-{field}-")
        found.setdefault((method, field), []).append((value, call))
    return found


_FLOWS = [
    *bad_flows.building(),
    *bad_flows.submitting(),
    *bad_flows.reading(),
    *bad_flows.cancelling(),
]
_QUOTAS = [*bad_quotas.quotas(), *bad_quotas.attaching()]
GROUPS = _grouped(
    [
        *_by_id(),
        *_creating(),
        *_claiming(),
        *_holding(),
        *_operating(),
        *_listing(),
        *_FLOWS,
        *_QUOTAS,
    ]
)
