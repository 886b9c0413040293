"""The types of the specification: an execution, its attempts, grants and leases, and refusals."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any
from uuid import UUID

from flowfabric.ids import ExecutionId

BLOCKS = {
    "waiting_for_budget": "BUDGET",
    "waiting_for_quota": "QUOTA",
    "waiting_for_capable_worker": "ROUTE",
    "paused_by_operator": "OPBLOCK",
    "paused_by_policy": "LANEBLOCK",
}


class Err(Exception):
    """A refusal; where the documents leave a choice, one of several codes."""

    def __init__(self, *codes: str) -> None:
        self.codes = codes


def no(when: object, *codes: str) -> None:
    if when:
        raise Err(*codes)


class Whatever(int):
    """Equal to any number: the documents do not specify it."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int)

    __hash__ = int.__hash__


@dataclass(frozen=True, repr=False)
class Policy:
    """`max_retries` None means no retry policy of its own; the delay of retry n is min(first *
    factor**n, most).
    """

    max_retries: int | None = None
    first_ms: int = 1_000
    factor: int = 2
    most_ms: int = 60_000
    categories: tuple[str, ...] = ()
    timeout: int | None = None
    deadline: int | None = None
    caps: frozenset[str] = frozenset()
    losses: int = 100
    replays: int = 10
    dedup: int = 86_400_000
    retain: int | None = None
    retain_failed: int | None = None

    def __repr__(self) -> str:
        said = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if getattr(self, f.name) != f.default
        }
        return f"Policy({', '.join(f'{name}={value!r}' for name, value in said.items())})"


NO_POLICY = Policy(losses=1_000)


@dataclass(frozen=True)
class Lease:
    """The result of a claim, without the random ids."""

    ident: ExecutionId
    index: int
    epoch: int
    expires: int
    kind: str


@dataclass(frozen=True)
class Held:
    """A handle, as its holder knows it."""

    ident: ExecutionId
    index: int
    epoch: int
    lease: UUID
    ttl: int
    handle: Any = None


@dataclass
class Grant:
    kind: str
    worker: str
    until: int


@dataclass
class Attempt:
    kind: str
    phase: str = "started"
    outcome: str | None = None
    epoch: int = 0
    lease: UUID | None = None
    worker: str | None = None
    instance: str | None = None


class Exec:
    """One execution. `leases` holds (kind, time, epoch if told), `done` (outcome, time), `ops`
    (kind, details).
    """

    def __init__(
        self, ident: ExecutionId, lane: str, namespace: str, policy: Policy, prio: int, now: int
    ) -> None:
        self.ident, self.lane, self.namespace, self.policy = ident, lane, namespace, policy
        self.prio, self.created, self.key = min(max(prio, 0), 9_000), now, ""
        self.state, self.why, self.pend, self.outcome = "READY", "", "first", "none"
        self.epoch = self.index = self.retries = self.replays = self.losses = 0
        self.lease: UUID | None = None
        self.holder: tuple[str, str] | None = None
        self.expiry: int | None = None
        self.lost_at: int | None = None
        self.started: int | None = None
        self.ended: int | None = None
        self.delay: int | None = None
        self.deadline: int | None = None if policy.deadline is None else now + policy.deadline
        self.rearms = policy.deadline is not None
        self.timeout_at: int | None = None
        self.remaining: int | None = None
        self.cause = self.failure = self.cancelled_by = None
        self.closing: tuple[int, int] | None = None
        self.progress: int | None = None
        self.result: bytes | None = None
        self.grant: Grant | None = None
        self.attempts: list[Attempt] = []
        self.ran_out: dict[int, UUID | None] = {}
        self.leases: list[tuple[str, int, int | None]] = []
        self.done: list[tuple[str, int]] = []
        self.ops: list[tuple[str, str]] = []

    @property
    def attempt(self) -> Attempt:
        return self.attempts[self.index]

    @property
    def continues(self) -> bool:
        """An attempt is open or will resume; otherwise the next claim mints one."""
        return bool(self.attempts) and self.pend != "retry" and self.state != "ENDED"
