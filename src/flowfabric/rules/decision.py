"""The input of a rule and its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic

from msgspec import Struct

from flowfabric.errors import EngineError, Kind, error_of
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Lane
from flowfabric.model.flow import Edge, EdgeGroup
from flowfabric.model.lease import Grant
from flowfabric.model.quota import LimitState
from flowfabric.plan import Applied, Plan

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    R_co = TypeVar("R_co", covariant=True)

T = TypeVar("T")


class Snapshot(Struct, frozen=True):
    """The rows of one execution, and the clock of the store at the read."""

    now_ms: int
    execution: Execution | None = None
    attempt: Attempt | None = None
    grant: Grant | None = None
    lane: Lane | None = None
    edge_groups: tuple[EdgeGroup, ...] = ()
    edges: tuple[Edge, ...] = ()
    standing: LimitState | None = None

    @property
    def live_grant(self) -> Grant | None:
        """The grant, unless it has expired."""
        grant = self.grant
        return grant if grant is not None and grant.expires_at_ms >= self.now_ms else None

    def is_granted_to_another(self, worker_id: str) -> bool:
        return self.live_grant is not None and self.live_grant.worker_id != worker_id

    @property
    def lane_is_held(self) -> bool:
        """Whether the lane is paused or disabled, so that it grants nothing."""
        return self.lane is not None and self.lane.is_held


class Commit(Struct, Generic[R_co], frozen=True, gc=False):
    """Commits `first` and then `plan`, all or nothing.

    The answer is `result`; a callable is applied to what the commit returned.
    """

    plan: Plan
    result: R_co | Callable[[Applied], R_co] = None  # type: ignore[assignment]
    first: tuple[Plan, ...] = ()


class Return(Struct, Generic[R_co], frozen=True, gc=False):
    """The answer of an operation that changes nothing."""

    result: R_co = None  # type: ignore[assignment]


class Reject(Struct, frozen=True):
    """The call fails. `mark` is committed all the same: it records a lease that has expired."""

    error: EngineError
    mark: Plan | None = None


Decision = Commit | Return | Reject
Decided = Commit[R_co] | Return[R_co] | Reject
"""A decision whose result has a known type."""


def refuse(*cases: tuple[bool, Kind]) -> Reject | None:
    """The rejection of the first case that holds."""
    kind = first_of(*cases)
    return None if kind is None else Reject(error_of(kind))


def first_of(*cases: tuple[bool, T]) -> T | None:
    """The answer of the first case that holds."""
    return next((answer for holds, answer in cases if holds), None)


class _DecideAgain:
    """The result of a first step: the engine loads and decides once more."""


DECIDE_AGAIN = _DecideAgain()
