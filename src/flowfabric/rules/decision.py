"""What a rule answers, and what it decides from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from flowfabric.errors import EngineError
from flowfabric.model.attempt import Attempt
from flowfabric.model.execution import Execution, Lane
from flowfabric.model.flow import Edge, EdgeGroup
from flowfabric.model.lease import Grant
from flowfabric.model.quota import LimitState
from flowfabric.plan import Applied, Plan


class Snapshot(Struct, frozen=True):
    """The rows around one execution, and the store's clock when they were read."""

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
        """A grant that still holds; one past its time counts as absent."""
        return (
            self.grant
            if self.grant is not None and self.grant.expires_at_ms >= self.now_ms
            else None
        )

    @property
    def lane_is_held(self) -> bool:
        """A paused or disabled lane grants nothing."""
        return self.lane is not None and self.lane.is_held


class Commit(Struct, frozen=True, gc=False):
    """Commit this; then the answer is `result`, or what it makes of the commit. What is in `first` goes before, or none of it."""

    plan: Plan
    result: Any | Callable[[Applied], Any] = None
    first: tuple[Plan, ...] = ()


class Return(Struct, frozen=True, gc=False):
    """Nothing to change; this is the answer."""

    result: Any = None


class Reject(Struct, frozen=True):
    """Say this error. `mark` is a change that is kept although the call fails: an expired lease that was noticed."""

    error: EngineError
    mark: Plan | None = None


Decision = Commit | Return | Reject


class _Again:
    """The result of a change that was only a first step: load and decide once more."""


AGAIN = _Again()
