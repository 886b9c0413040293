"""What every engine offers, whatever store or transport it uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Concatenate, ParamSpec, Self, TypeVar

from flowfabric.engine import parts
from flowfabric.engine.background import LoopSettings
from flowfabric.engine.events import subscriptions
from flowfabric.engine.events.subscriptions import Event, EventChannel, EventStream
from flowfabric.engine.operation import operation
from flowfabric.engine.telemetry import Telemetry
from flowfabric.ids import ExecutionId
from flowfabric.model.event import (
    CompletionEvent,
    LeaseEvent,
    OperatorEvent,
    ScannerFilter,
    SignalEvent,
)
from flowfabric.model.lease import ClaimPolicy, Handle, HandleFields
from flowfabric.model.stream import StreamFrame, Visibility
from flowfabric.store.wakeups import WorkWaiter

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")


class EngineProtocol(ABC):
    """Operations raise `EngineError`s; a refused call changes nothing."""

    may_wait = False
    """True when a call is a round trip to a server, so that one call that waits there beats several
    that do not.
    """

    @abstractmethod
    def bind(self, name: str, method: Callable[Concatenate[S, P], R]) -> Callable[P, R]:
        """The operation `name` as this kind of engine carries it out."""

    @property
    @abstractmethod
    def backend_label(self) -> str: ...

    @property
    @abstractmethod
    def durability(self) -> str: ...

    @property
    @abstractmethod
    def telemetry(self) -> Telemetry: ...

    @abstractmethod
    def watched_by(self, listener: Telemetry) -> None:
        """Sends events inside the engine to this listener."""

    @abstractmethod
    async def ping(self) -> None:
        """Raises when the store cannot be reached."""

    @abstractmethod
    async def server_time_ms(self) -> int: ...

    @abstractmethod
    async def prepare(self) -> str | None:
        """Start-up work: what was applied, or None."""

    @abstractmethod
    async def shutdown_prepare(self, grace_s: float = 5.0) -> None:
        """Stops background work and waits at most `grace_s` for it. Never raises."""

    @abstractmethod
    def with_scanners(self, settings: LoopSettings | None = None) -> bool:
        """Starts the background loops; False when they are started already, or run elsewhere."""

    @property
    @abstractmethod
    def loops_are_running(self) -> bool: ...

    def in_namespace(self, namespace: str) -> EngineProtocol:
        """The engine for a caller of one namespace: where namespaces are cells, it finds what is
        named by an id in the cell of this one only.
        """
        return self

    @abstractmethod
    async def close(self) -> None:
        """Closes once; a second call does nothing."""

    async def __aenter__(self) -> Self:
        await self.prepare()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def claim(
        self, lane: str, capabilities: Iterable[str], policy: ClaimPolicy
    ) -> Handle | None:
        """The best execution of a lane that these capabilities can run, or None. Waits up to
        `policy.max_wait_ms`.
        """
        found = await self.claim_many(lane, capabilities, policy, 1)
        return found[0].handle if found else None

    async def call_off(self, worker_instance_id: str) -> None:  # noqa: B027
        """Answers claims of this worker that wait on a server; without a server there are none."""

    @abstractmethod
    def fields(self, handle: Handle) -> HandleFields:
        """The lease a handle stands for. No store is asked."""

    @abstractmethod
    async def work_bell(self, *lanes: str, namespace: str | None = "default") -> WorkWaiter:
        """A waiter that is woken when there may be work in one of the lanes."""

    @abstractmethod
    def follow_stream(
        self,
        execution: ExecutionId,
        attempt_index: int = 0,
        after: str = "0-0",
        visibility: Visibility = Visibility.All,
        *,
        later_attempts: bool = True,
    ) -> AsyncIterator[tuple[int, StreamFrame]]:
        """Frames as they are written, with the index of their attempt, to the end of the stream."""

    @abstractmethod
    def subscribe(
        self, channel: EventChannel[Event], cursor: bytes, wanted: ScannerFilter | None
    ) -> EventStream[Event]: ...

    def subscribe_completion(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> EventStream[CompletionEvent]:
        """An event per execution that ended."""
        return self.subscribe(subscriptions.COMPLETIONS, cursor, wanted)

    def subscribe_lease_history(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> EventStream[LeaseEvent]:
        """Events of leases acquired, renewed, expired, reclaimed and revoked."""
        return self.subscribe(subscriptions.LEASES, cursor, wanted)

    def subscribe_operator_events(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> EventStream[OperatorEvent]:
        """Actions of operators."""
        return self.subscribe(subscriptions.OPERATORS, cursor, wanted)

    def subscribe_signal_delivery(
        self, cursor: bytes = b"", wanted: ScannerFilter | None = None
    ) -> EventStream[SignalEvent]:
        """Accepted signals and their effects."""
        return self.subscribe(subscriptions.SIGNALS, cursor, wanted)

    create_execution = operation(parts.CreateExecutions.create_execution)
    create_executions = operation(parts.CreateExecutions.create_executions)

    cancel_execution = operation(parts.OperatorActions.cancel_execution)
    change_priority = operation(parts.OperatorActions.change_priority)
    set_execution_tag = operation(parts.OperatorActions.set_execution_tag)
    set_execution_tags = operation(parts.OperatorActions.set_execution_tags)

    pause_lane = operation(parts.Lanes.pause_lane)
    resume_lane = operation(parts.Lanes.resume_lane)
    drain_lane = operation(parts.Lanes.drain_lane)
    read_lane = operation(parts.Lanes.read_lane)
    list_lanes = operation(parts.Lanes.list_lanes)

    describe_execution = operation(parts.Queries.describe_execution)
    read_execution_info = operation(parts.Queries.read_execution_info)
    read_execution_state = operation(parts.Queries.read_execution_state)
    read_execution_context = operation(parts.Queries.read_execution_context)
    get_execution_result = operation(parts.Queries.get_execution_result)
    resolve_execution_flow_id = operation(parts.Queries.resolve_execution_flow_id)
    list_attempts = operation(parts.Queries.list_attempts)
    list_executions = operation(parts.Queries.list_executions)

    resolve_execution = operation(parts.Resolve.resolve_execution)
    find_executions = operation(parts.Search.find_executions)
    read_execution_summary = operation(parts.Search.read_execution_summary)
    count_executions = operation(parts.CountExecutions.count_executions)
    read_deployment = operation(parts.Deployment.read_deployment)

    start_bulk = operation(parts.BulkActions.start_bulk)
    read_bulk = operation(parts.BulkActions.read_bulk)
    list_bulk = operation(parts.BulkActions.list_bulk)
    stop_bulk = operation(parts.BulkActions.stop_bulk)
    erase_namespace = operation(parts.BulkActions.erase_namespace)

    move_execution = operation(parts.ExecutionActions.move_execution)
    release_execution = operation(parts.ExecutionActions.release_execution)
    delete_execution = operation(parts.ExecutionActions.delete_execution)
    restart_from_step = operation(parts.ExecutionActions.restart_from_step)

    explain_execution = operation(parts.Explain.explain_execution)

    history = operation(parts.History.history)

    claim_many = operation(parts.Claims.claim_many)

    renew = operation(parts.Holder.renew)
    are_held = operation(parts.Holder.are_held)
    progress = operation(parts.Holder.progress)
    complete = operation(parts.Holder.complete)
    complete_many = operation(parts.Holder.complete_many)
    complete_and_claim = operation(parts.Holder.complete_and_claim)
    fail = operation(parts.Holder.fail)
    delay = operation(parts.Holder.delay)
    cancel = operation(parts.Holder.cancel)

    revoke_lease = operation(parts.Recovery.revoke_lease)
    list_expired_leases = operation(parts.Recovery.list_expired_leases)

    create_flow = operation(parts.FlowBuilds.create_flow)
    add_execution_to_flow = operation(parts.FlowBuilds.add_execution_to_flow)
    stage_dependency_edge = operation(parts.FlowBuilds.stage_dependency_edge)
    submit_flow = operation(parts.FlowBuilds.submit_flow)
    describe_flow = operation(parts.FlowQueries.describe_flow)
    flow_members = operation(parts.FlowQueries.flow_members)
    list_flows = operation(parts.FlowQueries.list_flows)
    flow_edges = operation(parts.FlowQueries.flow_edges)
    read_flow_summary = operation(parts.FlowQueries.read_flow_summary)

    apply_dependency_to_child = operation(parts.Dependencies.apply_dependency_to_child)
    wait_children = operation(parts.Dependencies.wait_children)
    replay_execution = operation(parts.Replays.replay_execution)

    cancel_flow = operation(parts.FlowCancels.cancel_flow)

    create_waitpoint = operation(parts.Suspend.create_waitpoint)
    suspend = operation(parts.Suspend.suspend)
    observe_signals = operation(parts.Suspend.observe_signals)
    read_resume_signals = operation(parts.Suspend.read_resume_signals)

    deliver_signal = operation(parts.Signals.deliver_signal)
    deliver_approval_signal = operation(parts.Signals.deliver_approval_signal)
    close_waitpoint = operation(parts.Signals.close_waitpoint)
    read_waitpoint_token = operation(parts.Signals.read_waitpoint_token)
    read_held_waitpoint_token = operation(parts.Signals.read_held_waitpoint_token)

    list_pending_waitpoints = operation(parts.WaitpointQueries.list_pending_waitpoints)
    list_open_waitpoints = operation(parts.WaitpointQueries.list_open_waitpoints)
    list_approvals = operation(parts.Approvals.list_approvals)
    list_suspended = operation(parts.WaitpointQueries.list_suspended)

    rotate_waitpoint_hmac_secret_all = operation(parts.SigningKeys.rotate_waitpoint_hmac_secret_all)
    list_waitpoint_hmac_kids = operation(parts.SigningKeys.list_waitpoint_hmac_kids)

    create_token = operation(parts.ApiTokens.create_token)
    rotate_token = operation(parts.ApiTokens.rotate_token)
    revoke_token = operation(parts.ApiTokens.revoke_token)
    list_tokens = operation(parts.ApiTokens.list_tokens)

    create_budget = operation(parts.Budgets.create_budget)
    update_budget = operation(parts.Budgets.update_budget)
    report_usage = operation(parts.Budgets.report_usage)
    reset_budget = operation(parts.BudgetMaintenance.reset_budget)
    list_budgets = operation(parts.Budgets.list_budgets)
    get_budget_status = operation(parts.Budgets.get_budget_status)
    read_budget_usage_and_limits = operation(parts.Budgets.read_budget_usage_and_limits)
    read_budget_ledger = operation(parts.Budgets.read_budget_ledger)

    create_quota_policy = operation(parts.Quotas.create_quota_policy)
    read_quota_policy_limits = operation(parts.Quotas.read_quota_policy_limits)
    list_quotas = operation(parts.Quotas.list_quotas)
    close_quota = operation(parts.Quotas.close_quota)
    open_quota = operation(parts.Quotas.open_quota)
    attach_limit = operation(parts.Quotas.attach_limit)
    detach_limit = operation(parts.Quotas.detach_limit)
    list_limit_scopes = operation(parts.Quotas.list_limit_scopes)

    update_quota_policy = operation(parts.QuotaMaintenance.update_quota_policy)

    append_frame = operation(parts.Streams.append_frame)
    append_frames = operation(parts.Streams.append_frames)
    read_stream = operation(parts.Streams.read_stream)
    tail_stream = operation(parts.Streams.tail_stream)
    read_summary = operation(parts.Streams.read_summary)

    wait_for_work = operation(parts.LongPoll.wait_for_work)
    wait_for_outcome = operation(parts.LongPoll.wait_for_outcome)
    read_events = operation(parts.LongPoll.read_events)
    read_followed = operation(parts.LongPoll.read_followed)

    register_worker = operation(parts.WorkerRegistry.register_worker)
    heartbeat_worker = operation(parts.WorkerRegistry.heartbeat_worker)
    mark_worker_dead = operation(parts.WorkerRegistry.mark_worker_dead)
    list_workers = operation(parts.WorkerRegistry.list_workers)

    register_tasks = operation(parts.Tasks.register_tasks)
    forget_task = operation(parts.Tasks.forget_task)
    read_task = operation(parts.Tasks.read_task)
    list_tasks = operation(parts.Tasks.list_tasks)

    begin_schedule = operation(parts.Schedules.begin_schedule)
    read_schedules = operation(parts.Schedules.read_schedules)
    move_schedule = operation(parts.Schedules.move_schedule)
    pause_schedule = operation(parts.Schedules.pause_schedule)
    resume_schedule = operation(parts.Schedules.resume_schedule)

    record_step = operation(parts.Steps.record_step)
    read_steps = operation(parts.Steps.read_steps)
    read_last_suspension = operation(parts.Steps.read_last_suspension)
    read_outcome = operation(parts.Steps.read_outcome)
