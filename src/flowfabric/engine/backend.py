"""The documented protocol: every operation of the engine, whatever the store or transport behind it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Protocol
from uuid import UUID

from flowfabric.engine.budget_backend import BudgetBackend
from flowfabric.engine.events.subscriptions import Subscription
from flowfabric.engine.flow_backend import FlowBackend
from flowfabric.engine.holder_backend import HolderBackend
from flowfabric.engine.poll_backend import PollBackend
from flowfabric.engine.quota_backend import QuotaBackend
from flowfabric.engine.schedule_backend import ScheduleBackend
from flowfabric.engine.step_backend import StepBackend
from flowfabric.engine.stream_backend import StreamBackend
from flowfabric.engine.suspension_backend import SuspensionBackend
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import Attempt, RetryScheduled
from flowfabric.model.event import CompletionEvent, LeaseEvent, OperatorEvent, ScannerFilter
from flowfabric.model.execution import (
    AlreadyTerminal,
    Blocked,
    CancelExecutionArgs,
    Cancelled,
    Changed,
    ChangePriorityArgs,
    Created,
    CreateExecutionArgs,
    Duplicate,
    ExecutionContext,
    ExecutionInfo,
    ExecutionSnapshot,
    Expired,
    Lane,
    LuaRejected,
    Page,
    Replayed,
    ReplayExecutionArgs,
)
from flowfabric.model.explanation import Explanation
from flowfabric.model.history import HistoryEntry
from flowfabric.model.lease import (
    AlreadySatisfied,
    Capabilities,
    Claimed,
    ClaimExecutionArgs,
    ClaimGrant,
    ClaimPolicy,
    ClaimResumedArgs,
    ExpiredLeaseInfo,
    Granted,
    GrantNotFound,
    Handle,
    IssuedAndClaimed,
    IssueGrantArgs,
    MarkedExpired,
    NotReclaimable,
    NoWork,
    ReclaimCapExceeded,
    ReclaimExecutionArgs,
    ReclaimGrant,
    ResumeToken,
    Revoked,
    RevokeLeaseArgs,
    Work,
)
from flowfabric.model.queue_stats import LongWriter, QueueStats
from flowfabric.model.state import ExpirePhase, LaneState, PublicState
from flowfabric.model.worker import (
    Marked,
    NotRegistered,
    Refreshed,
    Registered,
    RegisterWorkerArgs,
    WorkerInfo,
)


class EngineBackend(
    HolderBackend,
    FlowBackend,
    SuspensionBackend,
    BudgetBackend,
    QuotaBackend,
    StreamBackend,
    StepBackend,
    ScheduleBackend,
    PollBackend,
    Protocol,
):
    """`Engine` implements it over a store. Operations raise `EngineError`s; a refused call changed nothing."""

    # ---- the backend itself

    @property
    def backend_label(self) -> str: ...

    @property
    def durability(self) -> str: ...

    async def ping(self) -> None:
        """Raises when the store cannot be reached."""

    async def server_time_ms(self) -> int: ...

    async def prepare(self) -> str | None:
        """Start-up work: what was applied, or None when there was nothing to do."""

    def capabilities(self) -> Capabilities:
        """A flag is true exactly when the operation works here."""

    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        """Stops background work and waits for what is under way, at most this long. Never raises."""

    async def close(self) -> None:
        """Once; a second call does nothing."""

    # ---- executions and lanes

    async def create_execution(
        self, args: CreateExecutionArgs, *, connection: Any = None
    ) -> Created | Duplicate:
        """Registers work. Afterwards it can be claimed, or waits for its time."""

    async def create_executions(
        self, many: Sequence[CreateExecutionArgs], *, connection: Any = None
    ) -> list[Created | Duplicate]:
        """Many at once, each as `create_execution` would answer it, in the order given. Nothing is written if one is invalid."""

    async def cancel_execution(self, args: CancelExecutionArgs) -> Cancelled:
        """Ends an execution whatever it is doing. Again is fine; one that ended otherwise is an error."""

    async def change_priority(self, args: ChangePriorityArgs) -> Changed:
        """Moves a waiting execution within its lane."""

    async def replay_execution(self, args: ReplayExecutionArgs) -> Replayed:
        """Starts an ended execution again, as a new generation."""

    async def expire_execution(
        self,
        execution: ExecutionId,
        phase: ExpirePhase | str,
        *,
        partition: int | str | None = None,
        now: int | None = None,
    ) -> Expired | RetryScheduled | AlreadyTerminal | None:
        """Ends an execution whose attempt or deadline ran out; None when it is not due."""

    async def promote_delayed(
        self,
        execution: ExecutionId,
        *,
        partition: int | str | None = None,
        lane: str = "",
        now: int | None = None,
    ) -> str:
        """Makes a delayed execution claimable once its time has come; the answer says what was found."""

    async def block_route(
        self,
        execution: ExecutionId,
        reason_code: str,
        reason_detail: str = "",
        *,
        partition: int | str | None = None,
        now: int | None = None,
    ) -> Blocked | LuaRejected:
        """Holds a waiting execution back, with a named reason."""

    async def unblock_execution(
        self,
        execution: ExecutionId,
        expected_blocking_reason: str = "",
        *,
        partition: int | str | None = None,
        now: int | None = None,
    ) -> None:
        """Lets a held-back execution go, if it is still held for the reason given."""

    async def set_execution_tag(self, execution: ExecutionId, key: str, value: str) -> None: ...

    async def set_execution_tags(self, execution: ExecutionId, tags: dict[str, str]) -> int:
        """All or none; how many were set."""

    async def set_lane_state(self, lane: str, state: LaneState | str) -> None:
        """active, paused (takes work, grants none), draining (takes none, finishes what is there) or disabled (neither)."""

    async def pause_lane(self, lane: str) -> None: ...

    async def resume_lane(self, lane: str) -> None: ...

    async def drain_lane(self, lane: str) -> None: ...

    async def read_lane(self, lane: str) -> Lane | None: ...

    async def list_lanes(self, cursor: str | None = None, limit: int = 1000) -> Page[str]: ...

    async def list_executions(
        self, partition: int | str, cursor: str | None = None, limit: int = 1000
    ) -> Page[ExecutionId]:
        """Ids of one partition in ascending order, strictly after the cursor."""

    # ---- claims

    async def claim(
        self, lane: str, capabilities: Iterable[str], policy: ClaimPolicy
    ) -> Handle | None:
        """The best execution of a lane that these capabilities can run, or None. Waits up to `policy.max_wait_ms`."""

    async def claim_many(
        self, lane: str, capabilities: Iterable[str], policy: ClaimPolicy, n: int
    ) -> list[Work]:
        """Up to n of the lane's best, each with its payload. Comes back with what there is; waits only when there is nothing."""

    async def claim_execution(self, args: ClaimExecutionArgs) -> Claimed:
        """Turns a grant into a lease."""

    async def claim_resumed_execution(self, args: ClaimResumedArgs) -> Claimed:
        """Continues an interrupted attempt."""

    async def issue_grant_and_claim(
        self, execution: ExecutionId, lane: str, lease_duration_ms: int
    ) -> IssuedAndClaimed:
        """An operator takes a particular execution in one step."""

    async def claim_from_resume_grant(self, token: ResumeToken) -> Handle | None:
        """Takes an interrupted or lost attempt over; None while somebody holds it."""

    async def scan_eligible_executions(
        self,
        lane: str,
        partition: int | str | None = None,
        limit: int = 100,
        namespace: str | None = "default",
    ) -> list[ExecutionId]:
        """Claimable executions of a lane in claim order, one namespace after the other where all are asked for (None); of one
        partition when it is given.
        """

    async def issue_claim_grant(self, args: IssueGrantArgs) -> Granted:
        """Reserves one execution for one worker; it stays claimable by that worker until the grant runs out."""

    async def claim_for_worker(
        self,
        lane: str,
        worker_id: str,
        worker_instance_id: str,
        worker_capabilities: Iterable[str],
        grant_ttl_ms: int,
        namespace: str | None = "default",
    ) -> ClaimGrant | NoWork:
        """Picks and reserves the best admissible execution of a namespace for a worker, who then calls `claim_execution`.

        None stands for all namespaces, in turn.
        """

    # ---- losing and reclaiming leases

    async def revoke_lease(self, args: RevokeLeaseArgs) -> Revoked | AlreadySatisfied:
        """Takes a lease away; the execution is claimable again at once and its old holder is fenced off."""

    async def mark_lease_expired_if_due(
        self, execution: ExecutionId, *, partition: int | str | None = None
    ) -> MarkedExpired | AlreadySatisfied: ...

    async def requeue_lost(
        self, execution: ExecutionId, grace_ms: int | None = None
    ) -> str | ReclaimCapExceeded:
        """Puts a lost execution back on its lane once the grace is over; the answer says what was found."""

    async def issue_reclaim_grant(
        self, args: IssueGrantArgs
    ) -> ReclaimGrant | NotReclaimable | ReclaimCapExceeded:
        """Permission for one worker to take a lost execution over as a new attempt."""

    async def reclaim_execution(
        self, args: ReclaimExecutionArgs
    ) -> Claimed | GrantNotFound | NotReclaimable | ReclaimCapExceeded:
        """Turns a reclaim grant into a new attempt under a higher epoch."""

    async def list_expired_leases(
        self,
        as_of: int | None = None,
        after: tuple[int, ExecutionId] | None = None,
        limit: int = 1000,
        *,
        max_partitions_per_call: int = 32,
        namespace: str | None = None,
    ) -> Page[ExpiredLeaseInfo]:
        """Leases past their time, marked or not, oldest first; `after` is (expires_at_ms, execution_id) of the last."""

    # ---- reads

    async def describe_execution(self, execution: ExecutionId) -> ExecutionSnapshot | None: ...

    async def explain_execution(self, execution: ExecutionId) -> Explanation:
        """Why it is not running: reasons in the order in which they have to go away, with the facts behind each."""

    async def history(
        self, subject: ExecutionId | UUID | str, limit: int = 100, after: str | None = None
    ) -> Page[HistoryEntry]:
        """What happened to an execution, or to a flow and all its members, as `HistoryEntry`s in order."""

    async def read_execution_info(self, execution: ExecutionId) -> ExecutionInfo | None: ...

    async def read_execution_state(self, execution: ExecutionId) -> PublicState | None: ...

    async def read_execution_context(self, execution: ExecutionId) -> ExecutionContext: ...

    async def read_current_attempt_index(self, execution: ExecutionId) -> int: ...

    async def read_total_attempt_count(self, execution: ExecutionId) -> int: ...

    async def get_execution_result(self, execution: ExecutionId) -> bytes | None:
        """What it completed with; None unless it succeeded with a payload."""

    async def get_execution_tag(self, execution: ExecutionId, key: str) -> str | None: ...

    async def get_execution_namespace(self, execution: ExecutionId) -> str | None: ...

    async def get_execution_namespaces(
        self, executions: Sequence[ExecutionId]
    ) -> dict[ExecutionId, str]:
        """Of those that exist."""

    async def resolve_execution_flow_id(self, execution: ExecutionId) -> UUID | None: ...

    async def list_attempts(
        self, execution: ExecutionId, after: int | None = None, limit: int = 100
    ) -> Page[Attempt]:
        """The attempts of one execution, first to last. Lease ids are left out: they are credentials."""

    async def read_exec_core_fields(
        self, partition: int | str, execution: ExecutionId, names: Sequence[str]
    ) -> dict[str, str | None]:
        """Stored columns as text. Unknown names and a missing execution read as None."""

    async def census(self) -> QueueStats:
        """How many executions of which lane are in which state and have not ended; live workers; cancels that are owed."""

    async def oldest_overdue_ms(self) -> int:
        """How long ago the oldest timer was due that no loop has acted on; 0 when none is late."""

    async def events_held_back_by(self) -> LongWriter | None:
        """A transaction that has been writing so long that events are told late because of it; Postgres only."""

    # ---- workers

    async def register_worker(self, args: RegisterWorkerArgs) -> Registered | Refreshed:
        """Says that a worker is alive and what it can run. Work that waited for such a worker is released."""

    async def heartbeat_worker(
        self, worker_instance_id: str, namespace: str = "default", now: int | None = None
    ) -> Refreshed | NotRegistered: ...

    async def mark_worker_dead(
        self,
        worker_instance_id: str,
        reason: str = "",
        namespace: str = "default",
        now: int | None = None,
    ) -> Marked | NotRegistered:
        """Takes a worker out of the registry. Its leases run out by themselves."""

    async def list_workers(
        self,
        namespace: str | None = None,
        after: str | tuple[str, str] | None = None,
        limit: int = 1000,
    ) -> Page[WorkerInfo]:
        """Live workers by instance id; without a namespace, of all of them, with (namespace, instance) as the cursor."""

    async def drop_silent_workers(self, limit: int = 100) -> int:
        """Removes workers whose heartbeat is overdue; how many."""

    async def forget_worker_events(self, limit: int = 1000) -> int:
        """Drops registry events older than the retention of what completed; how many."""

    async def release_routed(self, limit: int = 1000, wanted: ScannerFilter | None = None) -> int:
        """Lets go of executions that waited for a capable worker and now have one; how many."""

    # ---- subscriptions

    def subscribe_lease_history(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[LeaseEvent]:
        """Every lease acquired, renewed, expired, reclaimed or revoked."""

    def subscribe_instance_tags(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> NoReturn:
        """Offered by no store: `Unavailable`."""

    def subscribe_completion(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[CompletionEvent]:
        """Every execution that ended."""

    def subscribe_operator_events(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> Subscription[OperatorEvent]:
        """What operators did."""

    # ---- retention

    async def trim_retention(
        self,
        lane: str,
        retention_ms: int | None = None,
        *,
        partition: int | str | None = None,
        now: int | None = None,
        batch: int = 20,
        wanted: ScannerFilter | None = None,
    ) -> int:
        """Deletes ended executions of a lane past their time, oldest first, with everything that belongs to them."""

    async def forget_idempotency_keys(self, limit: int = 1000) -> int:
        """Drops keys past their window; how many."""

    async def drop_expired_grants(self, limit: int = 1000) -> int:
        """Drops grants nobody used in time; how many."""
