"""What every engine offers, whatever store or transport it uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Concatenate, ParamSpec, Self, TypeVar

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.claims.claims import Claims
from flowfabric.engine.events import subscriptions
from flowfabric.engine.events.long_poll import LongPoll
from flowfabric.engine.events.subscriptions import Event, EventChannel, EventStream
from flowfabric.engine.executions.create import CreateExecutions
from flowfabric.engine.executions.explain import Explain
from flowfabric.engine.executions.history import History
from flowfabric.engine.executions.lanes import Lanes
from flowfabric.engine.executions.operator_actions import OperatorActions
from flowfabric.engine.executions.queries import Queries
from flowfabric.engine.flows.build import FlowBuilds
from flowfabric.engine.flows.cancels import FlowCancels
from flowfabric.engine.flows.dependencies import Dependencies
from flowfabric.engine.flows.flow_queries import FlowQueries
from flowfabric.engine.flows.replay import Replays
from flowfabric.engine.leases.holder import Holder
from flowfabric.engine.leases.recovery import Recovery
from flowfabric.engine.limits.budget_maintenance import BudgetMaintenance
from flowfabric.engine.limits.budgets import Budgets
from flowfabric.engine.limits.quota_maintenance import QuotaMaintenance
from flowfabric.engine.limits.quotas import Quotas
from flowfabric.engine.operation import operation
from flowfabric.engine.streams.streams import Streams
from flowfabric.engine.telemetry import Telemetry
from flowfabric.engine.waits.signals import Signals
from flowfabric.engine.waits.signing_keys import SigningKeys
from flowfabric.engine.waits.suspend import Suspend
from flowfabric.engine.waits.waitpoint_queries import WaitpointQueries
from flowfabric.engine.workers.registry import WorkerRegistry
from flowfabric.engine.workers.schedules import Schedules
from flowfabric.engine.workers.steps import Steps
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

    create_execution = operation(CreateExecutions.create_execution)
    create_executions = operation(CreateExecutions.create_executions)

    cancel_execution = operation(OperatorActions.cancel_execution)
    change_priority = operation(OperatorActions.change_priority)
    set_execution_tag = operation(OperatorActions.set_execution_tag)
    set_execution_tags = operation(OperatorActions.set_execution_tags)

    pause_lane = operation(Lanes.pause_lane)
    resume_lane = operation(Lanes.resume_lane)
    drain_lane = operation(Lanes.drain_lane)
    read_lane = operation(Lanes.read_lane)
    list_lanes = operation(Lanes.list_lanes)

    describe_execution = operation(Queries.describe_execution)
    read_execution_info = operation(Queries.read_execution_info)
    read_execution_state = operation(Queries.read_execution_state)
    read_execution_context = operation(Queries.read_execution_context)
    get_execution_result = operation(Queries.get_execution_result)
    resolve_execution_flow_id = operation(Queries.resolve_execution_flow_id)
    list_attempts = operation(Queries.list_attempts)
    list_executions = operation(Queries.list_executions)

    explain_execution = operation(Explain.explain_execution)

    history = operation(History.history)

    claim_many = operation(Claims.claim_many)

    renew = operation(Holder.renew)
    are_held = operation(Holder.are_held)
    progress = operation(Holder.progress)
    complete = operation(Holder.complete)
    complete_many = operation(Holder.complete_many)
    complete_and_claim = operation(Holder.complete_and_claim)
    fail = operation(Holder.fail)
    delay = operation(Holder.delay)
    cancel = operation(Holder.cancel)

    revoke_lease = operation(Recovery.revoke_lease)
    list_expired_leases = operation(Recovery.list_expired_leases)

    create_flow = operation(FlowBuilds.create_flow)
    add_execution_to_flow = operation(FlowBuilds.add_execution_to_flow)
    stage_dependency_edge = operation(FlowBuilds.stage_dependency_edge)
    submit_flow = operation(FlowBuilds.submit_flow)
    describe_flow = operation(FlowQueries.describe_flow)
    flow_members = operation(FlowQueries.flow_members)
    list_flows = operation(FlowQueries.list_flows)
    flow_edges = operation(FlowQueries.flow_edges)
    read_flow_summary = operation(FlowQueries.read_flow_summary)

    apply_dependency_to_child = operation(Dependencies.apply_dependency_to_child)
    wait_children = operation(Dependencies.wait_children)
    replay_execution = operation(Replays.replay_execution)

    cancel_flow = operation(FlowCancels.cancel_flow)

    create_waitpoint = operation(Suspend.create_waitpoint)
    suspend = operation(Suspend.suspend)
    observe_signals = operation(Suspend.observe_signals)
    read_resume_signals = operation(Suspend.read_resume_signals)

    deliver_signal = operation(Signals.deliver_signal)
    close_waitpoint = operation(Signals.close_waitpoint)
    read_waitpoint_token = operation(Signals.read_waitpoint_token)
    read_held_waitpoint_token = operation(Signals.read_held_waitpoint_token)

    list_pending_waitpoints = operation(WaitpointQueries.list_pending_waitpoints)
    list_open_waitpoints = operation(WaitpointQueries.list_open_waitpoints)
    list_suspended = operation(WaitpointQueries.list_suspended)

    rotate_waitpoint_hmac_secret_all = operation(SigningKeys.rotate_waitpoint_hmac_secret_all)
    list_waitpoint_hmac_kids = operation(SigningKeys.list_waitpoint_hmac_kids)

    create_budget = operation(Budgets.create_budget)
    update_budget = operation(Budgets.update_budget)
    report_usage = operation(Budgets.report_usage)
    reset_budget = operation(BudgetMaintenance.reset_budget)
    get_budget_status = operation(Budgets.get_budget_status)
    read_budget_usage_and_limits = operation(Budgets.read_budget_usage_and_limits)
    read_budget_ledger = operation(Budgets.read_budget_ledger)

    create_quota_policy = operation(Quotas.create_quota_policy)
    read_quota_policy_limits = operation(Quotas.read_quota_policy_limits)
    close_quota = operation(Quotas.close_quota)
    open_quota = operation(Quotas.open_quota)
    attach_limit = operation(Quotas.attach_limit)
    detach_limit = operation(Quotas.detach_limit)
    list_limit_scopes = operation(Quotas.list_limit_scopes)

    update_quota_policy = operation(QuotaMaintenance.update_quota_policy)

    append_frame = operation(Streams.append_frame)
    append_frames = operation(Streams.append_frames)
    read_stream = operation(Streams.read_stream)
    tail_stream = operation(Streams.tail_stream)
    read_summary = operation(Streams.read_summary)

    wait_for_work = operation(LongPoll.wait_for_work)
    wait_for_outcome = operation(LongPoll.wait_for_outcome)
    read_events = operation(LongPoll.read_events)
    read_followed = operation(LongPoll.read_followed)

    register_worker = operation(WorkerRegistry.register_worker)
    heartbeat_worker = operation(WorkerRegistry.heartbeat_worker)
    mark_worker_dead = operation(WorkerRegistry.mark_worker_dead)
    list_workers = operation(WorkerRegistry.list_workers)

    begin_schedule = operation(Schedules.begin_schedule)
    read_schedules = operation(Schedules.read_schedules)
    move_schedule = operation(Schedules.move_schedule)
    pause_schedule = operation(Schedules.pause_schedule)
    resume_schedule = operation(Schedules.resume_schedule)

    record_step = operation(Steps.record_step)
    read_steps = operation(Steps.read_steps)
    read_last_suspension = operation(Steps.read_last_suspension)
    read_outcome = operation(Steps.read_outcome)
