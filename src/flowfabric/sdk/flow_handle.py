"""A handle to a submitted flow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from msgspec import Struct

from flowfabric.errors import NotFound
from flowfabric.model.flow import CancelFlowPolicy
from flowfabric.model.state import PublicState
from flowfabric.rules.flows.flows import count_members, state_of_members
from flowfabric.sdk.durations import Span, millis
from flowfabric.sdk.exceptions import FlowFailed, RunError
from flowfabric.sdk.run_info import RunInfo, time_of

if TYPE_CHECKING:
    from flowfabric.model.flow_links import Member
    from flowfabric.model.flow_views import FlowSnapshot
    from flowfabric.sdk.app import App

NODE_TAG = "flow.node"
"""The tag with the name of a node that is not that of its task."""
READ_AT_ONCE = 50
_BAD_ENDS = (PublicState.FAILED, PublicState.EXPIRED, PublicState.CANCELLED)


class FlowInfo(Struct, frozen=True):
    """A flow at the time of the read.

    `state` is open, running, blocked, completed, failed or cancelled. `members` counts the runs of
    the flow by their state.
    """

    id: UUID
    name: str
    state: str
    namespace: str
    created_at: datetime
    cancelled_at: datetime | None
    cancel_reason: str | None
    members: dict[str, int]
    tags: dict[str, str]


class Flow:
    """A handle to a flow. `app.flow(id)` returns one for an existing flow, in any process.

    `id` is the flow's id; `str(flow.id)` can be stored and passed to `app.flow(id=...)`.
    """

    def __init__(self, app: App, ident: UUID) -> None:
        self.app, self.id = app, ident

    def __repr__(self) -> str:
        return f"Flow({str(self.id)!r})"

    async def describe(self) -> FlowInfo:
        """The flow's name, state, times and tags, and its members by state."""
        found, members = await self._snapshot(), await self._members()
        return FlowInfo(
            found.flow_id,
            found.flow_kind,
            await self._state(found, members),
            found.namespace,
            time_of(found.created_at),
            None if found.cancelled_at is None else time_of(found.cancelled_at),
            found.cancel_reason,
            dict(sorted(count_members(member.public_state for member in members).items())),
            found.tags,
        )

    async def state(self) -> str:
        """open, running, blocked, completed, failed or cancelled."""
        return await self._state(await self._snapshot(), await self._members())

    async def wait(self, timeout: Span | None = None) -> str:
        """Waits until every run of the flow has ended, and returns the flow's state then.

        The state is completed, failed or cancelled. TimeoutError is raised if a run has not ended
        after `timeout` (default: no limit).
        """
        snapshot = await self._snapshot()
        wait_s = None if timeout is None else millis(timeout, "timeout") / 1_000
        try:
            async with asyncio.timeout(wait_s) as limit:
                members = await self._ended_members()
        except TimeoutError:
            if not limit.expired():
                raise
            raise TimeoutError(await self._late(wait_s or 0)) from None
        return await self._state(snapshot, members)

    async def results(
        self, timeout: Span | None = None, *, return_exceptions: bool = False
    ) -> dict[str, Any]:
        """Waits for the end of the flow and returns the results by the names of its nodes.

        A node is named by its task or by `node=...`. Members that succeeded are included. If the
        flow has failed or was cancelled, FlowFailed is raised. With `return_exceptions=True` the
        dict has the RunError of each other member instead. After `timeout` (default: no limit)
        TimeoutError is raised.
        """
        state = await self.wait(timeout)
        infos = [info async for info in self.app.runs.all(flow=self, namespace=None)]
        infos.sort(key=lambda info: info.id.uuid)
        if return_exceptions:
            return await _ends_of(infos)
        if state != "completed":
            errors = await _ends_of([info for info in infos if info.state in _BAD_ENDS])
            raise FlowFailed(self.id, state, errors)
        return await _ends_of([info for info in infos if info.state == PublicState.COMPLETED])

    async def cancel(self, reason: str = "") -> None:
        """Cancels the flow and every run of it that has not ended.

        The reason is recorded with the flow and with these runs. A second call cancels what was
        added since.
        """
        await self._snapshot()
        await (await self.app.engine()).cancel_flow(
            self.id, CancelFlowPolicy.CANCEL_ALL, reason=reason
        )

    async def runs(self) -> AsyncIterator[RunInfo]:
        """The runs of the flow, the newest first: `async for info in flow.runs()`."""
        async for info in self.app.runs.all(flow=self, namespace=None):
            yield info

    async def _snapshot(self) -> FlowSnapshot:
        found = await (await self.app.engine()).describe_flow(self.id)
        if found is None:
            raise NotFound("flow", self.id)
        return found

    async def _members(self) -> list[Member]:
        return await (await self.app.engine()).flow_members(self.id)

    async def _state(self, found: FlowSnapshot, members: list[Member]) -> str:
        """Of a flow whose members have been removed, the summary is left."""
        if found.public_flow_state == "cancelled":
            return "cancelled"
        if members:
            return state_of_members(members)
        summary = await (await self.app.engine()).read_flow_summary(self.id)
        return found.public_flow_state if summary is None else summary.public_flow_state

    async def _ended_members(self) -> list[Member]:
        while True:
            members = await self._members()
            left = [member for member in members if not member.is_ended]
            if not left:
                return members
            for member in left:
                await self._wait_for(member)

    async def _wait_for(self, member: Member) -> None:
        try:
            await self.app.results.outcome(member.id, None)
        except NotFound:
            return

    async def _late(self, wait_s: float) -> str:
        members = await self._members()
        left = sum(not member.is_ended for member in members)
        return (
            f"flow {self.id} has not ended within {wait_s:g} s: {left} of {len(members)} runs are "
            "left; flow.runs() lists them, and run.why() returns what a run waits for"
        )


async def _ends_of(infos: Sequence[RunInfo]) -> dict[str, Any]:
    """Results, or the errors in their place, by the names of the nodes."""
    found: dict[str, Any] = {}
    for at in range(0, len(infos), READ_AT_ONCE):
        some = infos[at : at + READ_AT_ONCE]
        values = await asyncio.gather(*map(_result_or_error, some))
        found.update(zip(map(_node_name, some), values, strict=True))
    return found


def _node_name(info: RunInfo) -> str:
    return info.tags.get(NODE_TAG, info.task)


async def _result_or_error(info: RunInfo) -> object:
    try:
        return await info.run.result()
    except RunError as error:
        return error
