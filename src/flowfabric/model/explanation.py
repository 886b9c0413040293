"""Why an execution is not running: the reasons, in the order in which to remove them."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from msgspec import Struct

from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Lane
from flowfabric.model.flow import Edge, EdgeGroup
from flowfabric.model.queue_stats import LongWriter
from flowfabric.model.waitpoint import Suspension
from flowfabric.model.worker import WorkerInfo

MAX_TEXT = 200
MAX_LISTED = 20
MAX_AHEAD = 1_000
MAX_WORKERS_SEEN = 1_000
MAX_EDGES_SEEN = 1_000
MAX_WAITPOINTS_SEEN = 64
MAX_ADMITTED_SEEN = 1_000
MAX_BUDGETS_SEEN = 64
MAX_DIMENSIONS_SEEN = 64


class Why(StrEnum):
    """The code of a reason. A blocking reason of the state vector has the same value here."""

    ENDED = "ended"
    RUNNING = "running"
    LEASE_EXPIRED = "lease_expired"
    RESERVED = "reserved"
    WAITING_FOR_WORKER = "waiting_for_worker"
    NO_LIVE_WORKER = "no_live_worker"
    LANE_PAUSED = "lane_paused"
    LANE_DISABLED = "lane_disabled"
    LANE_DRAINING = "lane_draining"
    WAITING_FOR_DELAY = "waiting_for_delay"
    WAITING_FOR_RETRY_BACKOFF = "waiting_for_retry_backoff"
    WAITING_FOR_RESUME_DELAY = "waiting_for_resume_delay"
    WAITING_FOR_CHILDREN = "waiting_for_children"
    WAITING_FOR_BUDGET = "waiting_for_budget"
    WAITING_FOR_QUOTA = "waiting_for_quota"
    WAITING_FOR_CAPABLE_WORKER = "waiting_for_capable_worker"
    WAITING_FOR_LOCALITY_MATCH = "waiting_for_locality_match"
    WAITING_FOR_SIGNAL = "waiting_for_signal"
    WAITING_FOR_APPROVAL = "waiting_for_approval"
    WAITING_FOR_CALLBACK = "waiting_for_callback"
    WAITING_FOR_TOOL_RESULT = "waiting_for_tool_result"
    PAUSED_BY_OPERATOR = "paused_by_operator"
    PAUSED_BY_POLICY = "paused_by_policy"
    PAUSED_BY_FLOW_CANCEL = "paused_by_flow_cancel"
    EVENTS_HELD_BACK = "events_held_back"
    UNKNOWN = "unknown"


class Outcome(Struct, frozen=True, tag="outcome"):
    outcome: str
    reason: str
    at_ms: int | None
    by: str = ""


class Holder(Struct, frozen=True, tag="holder"):
    """The holder of the current or expired lease, without the lease id."""

    worker_id: str
    worker_instance_id: str
    since_ms: int | None
    lease_until_ms: int | None
    attempt_index: int
    progress_pct: int | None = None
    progress_message: str = ""
    progress_at_ms: int | None = None


class Reservation(Struct, frozen=True, tag="reservation"):
    worker_id: str
    until_ms: int


class Failure(Struct, frozen=True, tag="failure"):
    """The last failure and the number of retries."""

    message: str
    category: str
    attempt_index: int
    retries: int


class HeldLane(Struct, frozen=True, tag="lane"):
    lane_id: str
    state: str


class NearWorker(Struct, frozen=True):
    """The live worker that lacks the fewest capabilities."""

    worker_id: str
    worker_instance_id: str
    missing: tuple[str, ...]
    serves_lane: bool


class Routing(Struct, frozen=True, tag="routing"):
    """`missing_everywhere`: capabilities that no live worker of the namespace and lane offers."""

    required: tuple[str, ...]
    missing_everywhere: tuple[str, ...]
    live_workers: int
    nearest: NearWorker | None = None


class SpentBudget(Struct, frozen=True, tag="budget"):
    budget_id: str
    dimension: str
    used: int
    limit: int
    resets_at_ms: int | None


class UsedQuota(Struct, frozen=True, tag="quota"):
    """`cause` is rate, concurrency or closed."""

    quota_policy_id: UUID
    cause: str
    used: int
    limit: int
    window_s: int
    opens_at_ms: int | None


class Parent(Struct, frozen=True):
    execution_id: ExecutionId
    execution_kind: str
    public_state: str


class Parents(Struct, frozen=True, tag="parents"):
    """`needed` of `total` parents must succeed. Lists those not ended, without `more` of them."""

    policy: str
    needed: int
    total: int
    succeeded: int
    failed: int
    unfinished: tuple[Parent, ...]
    more: int


class Awaited(Struct, frozen=True):
    """An open waitpoint of a suspension, without its token. No names: any signal counts."""

    waitpoint_id: UUID
    waitpoint_key: str
    signal_names: tuple[str, ...]


class Wait(Struct, frozen=True, tag="wait"):
    reason_code: str
    needs: tuple[str, ...]
    waitpoints: tuple[Awaited, ...]
    timeout_at_ms: int | None
    on_timeout: str


class Queue(Struct, frozen=True, tag="queue"):
    """`ahead` executions of the lane are claimed first; None if there are too many to count."""

    ahead: int | None
    live_workers: int
    able_workers: int


Facts = (
    Outcome
    | Holder
    | Reservation
    | Failure
    | HeldLane
    | Routing
    | SpentBudget
    | UsedQuota
    | Parents
    | Wait
    | Queue
    | LongWriter
)


class Reason(Struct, frozen=True):
    """`says` is for people, `code` for programs, `hint` says what to do."""

    code: Why
    says: str
    hint: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    facts: Facts | None = None


class Explanation(Struct, frozen=True):
    """`state` is the name of the state vector. The first reason is to be removed first."""

    execution_id: ExecutionId
    execution_kind: str
    namespace: str
    lane_id: str
    state: str
    public_state: str
    as_of_ms: int
    reasons: tuple[Reason, ...]

    @property
    def code(self) -> Why:
        return self.reasons[0].code


class Budget(Struct, frozen=True):
    """A budget as admission uses it: limits, usage, next reset. `name` is its name in the SDK."""

    budget_id: str
    limits: dict[str, int]
    used: dict[str, int]
    resets_at_ms: int | None
    name: str = ""


class Quota(Struct, frozen=True):
    """A quota as admission uses it: limits, admission times in its window, and slots held."""

    quota_policy_id: UUID
    window_s: int
    most_in_window: int
    most_at_once: int
    closed_until_ms: int | None
    admitted_at_ms: tuple[int, ...]
    held: int


class Looked(Struct, frozen=True):
    """The rows that an explanation is made from."""

    now_ms: int
    execution: Execution
    attempt: Attempt | None = None
    lane: Lane | None = None
    workers: tuple[WorkerInfo, ...] = ()
    suspension: Suspension | None = None
    waitpoints: tuple[Awaited, ...] = ()
    group: EdgeGroup | None = None
    edges: tuple[Edge, ...] = ()
    parents: tuple[Parent, ...] = ()
    budgets: tuple[Budget, ...] = ()
    quota: Quota | None = None
    ahead: int | None = None
    writer: LongWriter | None = None
