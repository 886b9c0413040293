"""Cancel, priority, time limits, blocking and tags of one execution."""

from __future__ import annotations

from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.errors import ValidationError, ValidationKind, invalid
from flowfabric.ids import ExecutionId, execution_id, name, tag_key, tag_key_is_valid
from flowfabric.model import execution as model
from flowfabric.model.attempt import RetryScheduled
from flowfabric.model.state import ExpirePhase
from flowfabric.rules.claims import grants
from flowfabric.rules.executions import operator_actions, time_limits


class OperatorActions:
    """Operations on one execution that need no lease."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def cancel_execution(self, args: model.CancelExecutionArgs) -> model.Cancelled:
        """Ends an execution in any state. A repeated cancel succeeds; any other end is an error."""
        ident = execution_id(args.execution_id)
        validation.text(args.reason, "reason")
        validation.text(name(args.source, "source"), "source")
        validation.optional_timestamp(args.now, "now")
        return await self._core.decide(
            ident, lambda snapshot: operator_actions.cancel(snapshot, args)
        )

    async def change_priority(self, args: model.ChangePriorityArgs) -> model.Changed:
        """Changes the position of a waiting execution in its lane."""
        ident = execution_id(args.execution_id)
        validation.whole(args.new_priority, "new_priority", -(2**31), 2**31 - 1)
        validation.optional_timestamp(args.now, "now")
        return await self._core.decide(
            ident,
            lambda found: operator_actions.change_priority(found, args.new_priority, args.now),
        )

    async def expire_execution(
        self,
        execution: ExecutionId,
        phase: ExpirePhase | str,
        *,
        partition: int | str | None = None,
        now: int | None = None,
    ) -> model.Expired | RetryScheduled | model.AlreadyTerminal | None:
        """Ends an execution past its deadline, or an attempt past its timeout; None if not due.

        The policy may retry a timed-out attempt.
        """
        ident = validation.target(execution, partition, now)
        try:
            kind = ExpirePhase(phase)
        except ValueError:
            raise invalid("phase", "attempt_timeout or execution_deadline", phase) from None
        default, roll = self._core.settings.default_retry_policy, self._core.random.random()
        return await self._core.decide(
            ident, lambda snapshot: time_limits.expire(snapshot, kind, now, default, roll)
        )

    async def promote_delayed(
        self,
        execution: ExecutionId,
        *,
        partition: int | str | None = None,
        lane: str = "",
        now: int | None = None,
    ) -> str:
        """Makes a delayed execution claimable when its delay is over; returns what was found."""
        ident = validation.target(execution, partition, now)
        return await self._core.decide(
            ident, lambda snapshot: operator_actions.promote(snapshot, now)
        )

    async def block_route(
        self,
        execution: ExecutionId,
        reason_code: str,
        reason_detail: str = "",
        *,
        partition: int | str | None = None,
        now: int | None = None,
    ) -> model.Blocked | model.LuaRejected:
        """Blocks a waiting execution, with a named reason."""
        ident = validation.target(execution, partition, now)
        validation.text(reason_detail, "reason_detail")
        return await self._core.decide(
            ident, lambda snapshot: grants.block(snapshot, str(reason_code), reason_detail, now)
        )

    async def unblock_execution(
        self,
        execution: ExecutionId,
        expected_blocking_reason: str = "",
        *,
        partition: int | str | None = None,
        now: int | None = None,
    ) -> None:
        """Unblocks an execution that is still blocked for the reason given."""
        ident = validation.target(execution, partition, now)
        await self._core.decide(
            ident,
            lambda snapshot: grants.unblock(snapshot, str(expected_blocking_reason), now),
            with_lists=True,
        )

    # ---- tags

    async def set_execution_tag(self, execution: ExecutionId, key: str, value: str) -> None:
        tag_key(key)
        await self._set_tags(execution, {key: value})

    async def set_execution_tags(self, execution: ExecutionId, tags: dict[str, str]) -> int:
        """Sets all tags or none; returns how many."""
        for key in validation.tags(tags):
            if not tag_key_is_valid(key):
                raise ValidationError(
                    ValidationKind.INVALID_TAG_KEY,
                    f"{key!r:.80}: owner.name in lower case is accepted",
                )
        return await self._set_tags(execution, tags)

    async def _set_tags(self, execution: ExecutionId, tags: dict[str, str]) -> int:
        checked = validation.tags(tags)
        return await self._core.decide(
            execution_id(execution), lambda snapshot: operator_actions.set_tags(snapshot, checked)
        )
