"""Signals from outside, and the other ways a suspension ends; who waits for what."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from uuid import UUID

from msgspec import Struct

from flowfabric.codec import token as tokens
from flowfabric.engine import validation
from flowfabric.engine.core import CORE_COLUMNS, from_core_row
from flowfabric.engine.waits.signing_keys import KEYS
from flowfabric.engine.waits.suspend import MAX_KEY_BYTES, MAX_TEXT_BYTES, SIGNAL_PAGE, token_of
from flowfabric.engine.waits.waitpoint_queries import MAX_PAGE, WaitpointQueries
from flowfabric.errors import NotFound, StateError, ValidationError, ValidationKind, invalid
from flowfabric.ids import ExecutionId, execution_id, lane_id, partition_key
from flowfabric.model.execution import Execution
from flowfabric.model.lease import Handle
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import (
    MAX_SIGNAL_BYTES,
    ApprovalSignalArgs,
    DeliverSignalArgs,
    Resumed,
    SignalAccepted,
    SignalDuplicate,
    Suspension,
    Waitpoint,
)
from flowfabric.plan import Applied
from flowfabric.rules.decision import Decision
from flowfabric.rules.fence import check_handle
from flowfabric.rules.waits import signals, suspension_timeouts, waitpoints
from flowfabric.rules.waits.signals import Delivery
from flowfabric.store.port import Get, Read, Row, Scan

MAX_WAITPOINTS = 1_000
MAX_COMMENT_BYTES = 16_000
MAX_FORGOTTEN = 1_000
_TEXTS = (
    "signal_name",
    "signal_category",
    "source_type",
    "source_identity",
    "correlation_id",
    "target_scope",
)


class Signals(WaitpointQueries):
    async def deliver_signal(self, args: DeliverSignalArgs) -> SignalAccepted | SignalDuplicate:
        """One signal to one waitpoint: its token is checked before anything else is looked at."""
        ident = _check(args)
        refused = signals.check_source(args)
        if refused is not None:
            raise refused
        return await self._deliver(ident, args)

    async def _deliver(
        self, ident: ExecutionId, args: DeliverSignalArgs
    ) -> SignalAccepted | SignalDuplicate:
        result: SignalAccepted | SignalDuplicate = await self.settle(
            lambda: self._delivery(ident, args), lambda around: signals.deliver(around, args)
        )
        return result

    async def _delivery(self, ident: ExecutionId, args: DeliverSignalArgs) -> Delivery:
        key, at = (ident.partition_index, ident.uuid), ident.partition_index
        reads: list[Read] = [
            Get("ff_exec_core", key, CORE_COLUMNS),
            Get("ff_waitpoint_pending", (at, args.waitpoint_id)),
            KEYS,
            Get("ff_suspension_current", key),
            Scan(
                "waitpoints_of",
                {"partition_key": at, "execution_id": ident.uuid},
                limit=MAX_WAITPOINTS,
                columns=("signal_count", "signals_trimmed"),
            ),
        ]
        if args.idempotency_key and args.dedup_ttl_ms > 0:
            reads.append(
                Get(
                    "ff_signal_dedup",
                    (at, args.waitpoint_id, args.idempotency_key),
                    ("signal_id", "expires_at_ms"),
                )
            )
        loaded = await self.store.load(reads)
        rows = loaded.rows
        if not rows[0]:
            raise NotFound("execution")
        waitpoint = Waitpoint(*rows[1][0]) if rows[1] and rows[1][0][2] == ident.uuid else None
        try:
            keys = [HmacKey(*row) for row in rows[2]]
            stored = None if waitpoint is None else token_of(waitpoint, keys)
            asked = () if waitpoint is None else json.loads(waitpoint.approvers)
            link = tokens.verify(
                args.waitpoint_token, ident, args.waitpoint_id, stored, keys, loaded.now_ms, asked
            )
            if waitpoint is None:
                raise ValidationError(ValidationKind.INVALID_TOKEN, "invalid_token")
        except ValidationError:
            owner = {"partition_key": at, "execution_id": ident.uuid}
            await self.store.commit(signals.stamp_failure(owner, loaded.now_ms))
            raise
        execution = from_core_row(rows[0][0])
        received, most = (
            sum(row[0] for row in rows[4]),
            waitpoints.signal_limit(execution.policy, ident, args),
        )
        history: list[Row] = []
        if 0 < most <= received or signals.is_long(waitpoint, args.signal_maxlen):
            history = await self._history(ident, max(most, SIGNAL_PAGE))
            received = len(history) + sum(row[1] for row in rows[4])
        known = rows[5][0] if len(rows) > 5 and rows[5] and rows[5][0][1] > loaded.now_ms else None
        return Delivery(
            loaded.now_ms,
            execution,
            waitpoint,
            Suspension(*rows[3][0]) if rows[3] else None,
            None if known is None else known[0],
            received,
            history if signals.is_long(waitpoint, args.signal_maxlen) else (),
            link,
        )

    async def _history(self, ident: ExecutionId, limit: int) -> list[Row]:
        """The waitpoints count every delivery; where that is too many, a signal that came twice counts once."""
        owner = {"partition_key": ident.partition_index, "execution_id": ident.uuid}
        read = Scan("signals_of", owner, limit=limit, columns=("signal_id", "waitpoint_id"))
        return (await self.store.load((read,))).rows[0]

    async def deliver_approval_signal(
        self, args: ApprovalSignalArgs
    ) -> SignalAccepted | SignalDuplicate:
        """An operator's decision; the engine shows the token itself."""
        if not isinstance(args, ApprovalSignalArgs):
            raise invalid("args", "ApprovalSignalArgs", type(args).__name__)
        ident = execution_id(args.execution_id)
        lane = lane_id(args.lane_id)
        wanted = validation.flow_id(args.waitpoint_id, "waitpoint_id")
        name = validation.text(args.signal_name, "signal_name", MAX_KEY_BYTES)
        suffix = validation.text(args.idempotency_suffix, "idempotency_suffix", MAX_KEY_BYTES)
        reads = (
            Get("ff_exec_core", (ident.partition_index, ident.uuid), ("lane_id",)),
            Get("ff_waitpoint_pending", (ident.partition_index, wanted)),
            KEYS,
        )
        loaded = await self.store.load(reads)
        if not loaded.rows[0]:
            raise NotFound("execution")
        stored_lane = loaded.rows[0][0][0]
        if lane != stored_lane:
            detail = f"lane_mismatch: args.lane_id={lane} exec_core.lane_id={stored_lane}"
            raise ValidationError(ValidationKind.INVALID_INPUT, detail)
        waitpoint = Waitpoint(*loaded.rows[1][0]) if loaded.rows[1] else None
        if waitpoint is None or waitpoint.execution_id != ident.uuid or not waitpoint.token_digest:
            raise NotFound("waitpoint")
        token = token_of(waitpoint, [HmacKey(*row) for row in loaded.rows[2]])
        told = DeliverSignalArgs(
            execution_id=ident,
            waitpoint_id=wanted,
            signal_id=uuid.uuid4(),
            waitpoint_token=token or _refused_token(waitpoint),
            signal_name=name,
            signal_category="approval",
            source_type="operator",
            payload_encoding="",
            target_scope="execution",
            idempotency_key=f"approval:{name}:{suffix}",
            dedup_ttl_ms=args.signal_dedup_ttl_ms,
            signal_maxlen=args.maxlen,
            max_signals_per_execution=args.max_signals_per_execution,
            created_at=loaded.now_ms,
            now=loaded.now_ms,
        )
        return await self._deliver(_check(told), told)

    async def _wake_parent(self, parent: ExecutionId, waitpoint_key: str) -> None:
        """At every open waitpoint of that key. A parent that makes one later looks at its children after that."""
        owner = {"partition_key": parent.partition_index, "execution_id": parent.uuid}
        rows, found = (
            await self.store.load((Scan("waitpoints_of", owner, limit=MAX_WAITPOINTS), KEYS))
        ).rows
        keys = [HmacKey(*row) for row in found]
        for waitpoint in (Waitpoint(*row) for row in rows):
            if waitpoint.waitpoint_key != waitpoint_key or not waitpoint.is_open:
                continue
            args = DeliverSignalArgs(
                execution_id=parent,
                waitpoint_id=waitpoint.waitpoint_id,
                signal_id=uuid.uuid4(),
                waitpoint_token=token_of(waitpoint, keys) or _refused_token(waitpoint),
                signal_name="ended",
                source_type="children",
            )
            with suppress(NotFound, StateError):  # it has gone on already
                try:
                    await self.deliver_signal(args)
                except ValidationError:  # the key that signed its token is gone
                    await self.resume_execution(parent, "children")

    # ---- without a signal

    async def resume_execution(
        self, execution: ExecutionId, trigger_type: str = "signal", resume_delay_ms: int = 0
    ) -> Resumed:
        """Ends a suspension whatever it waits for."""
        ident = execution_id(execution)
        validation.text(trigger_type, "trigger_type", MAX_KEY_BYTES)
        delay = validation.whole(resume_delay_ms, "resume_delay_ms", 0, validation.MAX_TIMESTAMP_MS)

        def rule(around: _Suspended) -> Decision:
            return signals.resume(around.execution, around.suspension, delay, around.now_ms)

        result: Resumed = await self.settle(lambda: self._suspended(ident), rule)
        return result

    async def expire_suspension(
        self, execution: ExecutionId, *, partition: int | str | None = None, now: int | None = None
    ) -> str:
        """Does what was said for the case that nobody signals in time; the answer says what was found."""
        ident = execution_id(execution)
        validation.partition_matches(partition, ident.partition_index)
        validation.optional_timestamp(now, "now")
        signal = uuid.uuid4()

        def rule(around: _Suspended) -> Decision:
            at = around.now_ms if now is None else now
            return suspension_timeouts.expire(around.execution, around.suspension, at, signal)

        result: str = await self.settle(lambda: self._suspended(ident), rule)
        return result

    async def _suspended(self, ident: ExecutionId) -> _Suspended:
        key = (ident.partition_index, ident.uuid)
        loaded = await self.store.load(
            (Get("ff_exec_core", key, CORE_COLUMNS), Get("ff_suspension_current", key))
        )
        found, waits = loaded.rows
        return _Suspended(
            loaded.now_ms,
            from_core_row(found[0]) if found else None,
            Suspension(*waits[0]) if waits else None,
        )

    async def close_waitpoint(
        self, execution: ExecutionId, waitpoint_id: UUID, reason: str = "proactive_close"
    ) -> str:
        """Takes no more signals; a suspension that listens on it goes on waiting."""
        ident, wanted = execution_id(execution), validation.flow_id(waitpoint_id, "waitpoint_id")
        validation.text(reason, "reason", MAX_KEY_BYTES)
        result: str = await self.settle(
            lambda: self._waitpoint(ident.partition_index, wanted),
            lambda found: waitpoints.close(found, ident.uuid, reason),
        )
        return result

    async def _waitpoint(self, partition: int, ident: UUID) -> Waitpoint | None:
        rows = (await self.store.load((Get("ff_waitpoint_pending", (partition, ident)),))).rows[0]
        return Waitpoint(*rows[0]) if rows else None

    async def expire_waitpoints(self, limit: int = 100) -> int:
        """Closes waitpoints that no suspension used in time; how many."""
        now, size = await self.store.now_ms(), validation.limit(limit, MAX_PAGE)
        rows = (await self.store.load((Scan("waitpoint_expiry", upto=now, limit=size),))).rows[0]
        plans = [waitpoints.closing(Waitpoint(*row), "never_committed") for row in rows]
        return (
            sum(isinstance(a, Applied) for a in await self.store.commit_many(plans)) if plans else 0
        )

    async def forget_signal_keys(self) -> int:
        """Drops what is remembered of signals and suspends past its time; how many."""
        now = await self.store.now_ms()
        reads = (
            Scan("signal_dedup_expiry", upto=now, limit=MAX_FORGOTTEN),
            Scan("suspend_dedup_expiry", upto=now, limit=MAX_FORGOTTEN),
        )
        heard, asked = (await self.store.load(reads)).rows
        plans = [signals.forget_key(row, now) for row in heard] + [
            signals.forget_suspend(row, now) for row in asked
        ]
        return (
            sum(isinstance(a, Applied) for a in await self.store.commit_many(plans)) if plans else 0
        )

    # ---- who waits

    async def read_waitpoint_token(self, partition: int | str, waitpoint_id: UUID) -> str | None:
        """The credential itself, of an open waitpoint. For those who may hand it out."""
        found = await self._waitpoint(
            partition_key(partition), validation.flow_id(waitpoint_id, "waitpoint_id")
        )
        return (
            None if found is None or not found.is_open else token_of(found, (await self._keys())[0])
        )

    async def read_held_waitpoint_token(
        self, handle: Handle, waitpoint_id: UUID, approver: str = ""
    ) -> str | None:
        """The token of an open waitpoint of the execution whose live lease this is, or that of an approver's link."""
        fields, wanted = self.fields(handle), validation.flow_id(waitpoint_id, "waitpoint_id")
        refused = check_handle(await self.snapshot(fields.execution_id), fields)
        if refused is not None:
            await self._refuse(refused)
        found = await self._waitpoint(fields.execution_id.partition_index, wanted)
        held = (
            found is not None and found.is_open and found.execution_id == fields.execution_id.uuid
        )
        if found is None or not held:
            return None
        keys, _ = await self._keys()
        token = token_of(found, keys)
        if not approver or token is None:
            return token
        if approver not in json.loads(found.approvers):
            return None
        return tokens.of_approver(token, keys, fields.execution_id, wanted, approver)


def _refused_token(waitpoint: Waitpoint) -> str:
    """What stands for a token whose key is gone: it has the right shape, and no key accepts it."""
    return f"{waitpoint.token_kid}:{'0' * 64}"


class _Suspended(Struct, frozen=True):
    """An execution and its latest suspension."""

    now_ms: int
    execution: Execution | None
    suspension: Suspension | None


def _check(args: object) -> ExecutionId:
    """The payload is bounded before anything is read."""
    if not isinstance(args, DeliverSignalArgs):
        raise invalid("args", "DeliverSignalArgs", type(args).__name__)
    if args.payload is not None:
        if not isinstance(args.payload, bytes):
            raise invalid("payload", "bytes", type(args.payload).__name__)
        if len(args.payload) > MAX_SIGNAL_BYTES:
            detail = f"payload: at most {MAX_SIGNAL_BYTES} bytes, got {len(args.payload)}"
            raise ValidationError(ValidationKind.PAYLOAD_TOO_LARGE, detail)
    ident = execution_id(args.execution_id)
    validation.flow_id(args.waitpoint_id, "waitpoint_id")
    validation.flow_id(args.signal_id, "signal_id")
    if not isinstance(args.waitpoint_token, str):
        raise ValidationError(ValidationKind.INVALID_TOKEN, "missing_token")
    for field in _TEXTS:
        validation.text(getattr(args, field), field, MAX_TEXT_BYTES)
    validation.text(args.comment, "comment", MAX_COMMENT_BYTES)
    validation.text(args.payload_encoding, "payload_encoding", 64)
    validation.optional_text(args.idempotency_key, "idempotency_key", MAX_TEXT_BYTES)
    validation.optional_timestamp(args.created_at, "created_at")
    validation.optional_timestamp(args.now, "now")
    for field in ("dedup_ttl_ms", "max_signals_per_execution", "signal_maxlen"):
        validation.whole(getattr(args, field), field, 0, validation.MAX_TIMESTAMP_MS)
    if args.resume_delay_ms is not None:
        validation.whole(args.resume_delay_ms, "resume_delay_ms", 0, validation.MAX_TIMESTAMP_MS)
    return ident
