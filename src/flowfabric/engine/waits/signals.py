"""Delivery of signals, and the other ways a suspension ends: resume and timeout."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from contextlib import suppress
from itertools import starmap
from uuid import UUID

from msgspec import Struct

from flowfabric.codec import token as tokens
from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.engine.snapshots import CORE_COLUMNS, from_core_row, load_all, load_one, load_rows
from flowfabric.engine.waits.argument_checks import MAX_KEY_BYTES, check_signal
from flowfabric.engine.waits.signing_keys import KEYS, SigningKeys, token_of, token_or_refused
from flowfabric.engine.waits.suspend_replay import SIGNAL_PAGE
from flowfabric.engine.waits.waitpoint_queries import MAX_PAGE
from flowfabric.errors import NotFound, StateError, ValidationError, ValidationKind, bad_input
from flowfabric.ids import ExecutionId, execution_id, lane_id, partition_key
from flowfabric.model import waitpoint as model
from flowfabric.model.execution import Execution
from flowfabric.model.lease import Handle
from flowfabric.model.signing_key import HmacKey
from flowfabric.rules.decision import Decision
from flowfabric.rules.waits import signals, suspension_timeouts, waitpoints
from flowfabric.rules.waits.signals import Delivery
from flowfabric.store.port import Get, Read, Row, Scan

MAX_WAITPOINTS = 1_000
MAX_FORGOTTEN = 1_000


class _Suspended(Struct, frozen=True):
    """An execution and its latest suspension."""

    now_ms: int
    execution: Execution | None
    suspension: model.Suspension | None


class Signals:
    def __init__(self, core: Core, leases: LeaseCache, keys: SigningKeys) -> None:
        self._core, self._store = core, core.store
        self._leases, self._keys = leases, keys

    async def deliver_signal(
        self, args: model.DeliverSignalArgs
    ) -> model.SignalAccepted | model.SignalDuplicate:
        """Delivers a signal to a waitpoint. Its token is verified before anything else."""
        ident = check_signal(args)
        refused = signals.check_source(args)
        if refused is not None:
            raise refused
        return self._reported(await self._deliver(ident, args))

    def _reported(
        self, result: model.SignalAccepted | model.SignalDuplicate
    ) -> model.SignalAccepted | model.SignalDuplicate:
        effect = result.effect if isinstance(result, model.SignalAccepted) else "duplicate"
        self._core.telemetry.listener.signalled(effect)
        return result

    async def _deliver(
        self, ident: ExecutionId, args: model.DeliverSignalArgs
    ) -> model.SignalAccepted | model.SignalDuplicate:
        return await self._core.run(
            lambda: self._delivery(ident, args), lambda delivery: signals.deliver(delivery, args)
        )

    async def _delivery(self, ident: ExecutionId, args: model.DeliverSignalArgs) -> Delivery:
        at, key = ident.partition_index, ident.key
        counters = ("signal_count", "signals_trimmed")
        reads: list[Read] = [
            Get("ff_exec_core", key, CORE_COLUMNS),
            Get("ff_waitpoint_pending", (at, args.waitpoint_id)),
            KEYS,
            Get("ff_suspension_current", key),
            Scan("waitpoints_of", ident.owner, limit=MAX_WAITPOINTS, columns=counters),
        ]
        if args.idempotency_key and args.dedup_ttl_ms > 0:
            dedup_key = (at, args.waitpoint_id, args.idempotency_key)
            reads.append(Get("ff_signal_dedup", dedup_key, ("signal_id", "expires_at_ms")))
        loaded = await self._store.load(reads)
        executions, found, keys, suspended, counts, *known = loaded.rows
        execution, now = next(map(from_core_row, executions), None), loaded.now_ms
        if execution is None:
            raise NotFound("execution")
        of_execution = (w for w in starmap(model.Waitpoint, found) if w.execution_id == ident.uuid)
        waitpoint, link = await self._verified(
            ident, args, next(of_execution, None), list(starmap(HmacKey, keys)), now
        )
        received, history = sum(count for count, _ in counts), list[Row]()
        most = waitpoints.signal_limit(execution.policy, ident, args)
        is_long = signals.is_long(waitpoint, args.signal_maxlen)
        if 0 < most <= received or is_long:
            history = await self._history(ident, max(most, SIGNAL_PAGE))
            received = len(history) + sum(trimmed for _, trimmed in counts)
        return Delivery(
            now,
            execution,
            waitpoint,
            next(starmap(model.Suspension, suspended), None),
            next((signal for rows in known for signal, until in rows if until > now), None),
            received,
            history if is_long else (),
            link,
        )

    async def _verified(
        self,
        ident: ExecutionId,
        args: model.DeliverSignalArgs,
        waitpoint: model.Waitpoint | None,
        keys: list[HmacKey],
        now: int,
    ) -> tuple[model.Waitpoint, str]:
        """The waitpoint, and the approver of the link. Notes a refused token on the execution."""
        try:
            stored = None if waitpoint is None else token_of(waitpoint, keys)
            approvers: Sequence[str] = () if waitpoint is None else json.loads(waitpoint.approvers)
            token = args.waitpoint_token
            link = tokens.verify(token, ident, args.waitpoint_id, stored, keys, now, approvers)
            if waitpoint is None:
                raise ValidationError(ValidationKind.INVALID_TOKEN, "invalid_token")
        except ValidationError:
            await self._store.commit(signals.stamp_failure(ident.owner, now))
            raise
        return waitpoint, link

    async def _history(self, ident: ExecutionId, limit: int) -> list[Row]:
        """Signals with their waitpoints; counts a repeated signal once, as the counters do not."""
        columns = ("signal_id", "waitpoint_id")
        read = Scan("signals_of", ident.owner, limit=limit, columns=columns)
        return await load_rows(self._store, read)

    async def deliver_approval_signal(
        self, args: model.ApprovalSignalArgs
    ) -> model.SignalAccepted | model.SignalDuplicate:
        """Delivers an operator's decision. The engine derives the token."""
        validation.instance(args, model.ApprovalSignalArgs)
        ident = execution_id(args.execution_id)
        lane = lane_id(args.lane_id)
        wanted = validation.flow_id(args.waitpoint_id, "waitpoint_id")
        name = validation.text(args.signal_name, "signal_name", MAX_KEY_BYTES)
        who = validation.text(args.source_identity, "source_identity", MAX_KEY_BYTES)
        suffix = validation.text(args.idempotency_suffix, "idempotency_suffix", MAX_KEY_BYTES)
        token, now = await self._approval_token(ident, wanted, lane)
        signal = model.DeliverSignalArgs(
            execution_id=ident,
            waitpoint_id=wanted,
            signal_id=uuid.uuid4(),
            waitpoint_token=token,
            signal_name=name,
            signal_category="approval",
            source_type="operator",
            source_identity=who,
            payload_encoding="",
            target_scope="execution",
            idempotency_key=f"approval:{name}:{suffix}",
            dedup_ttl_ms=args.signal_dedup_ttl_ms,
            signal_maxlen=args.maxlen,
            max_signals_per_execution=args.max_signals_per_execution,
            created_at=now,
            now=now,
        )
        return self._reported(await self._deliver(check_signal(signal), signal))

    async def _approval_token(
        self, ident: ExecutionId, waitpoint_id: UUID, lane: str
    ) -> tuple[str, int]:
        """The token of a waitpoint of an execution in this lane, and the clock of the store."""
        reads = (
            Get("ff_exec_core", ident.key, ("lane_id",)),
            Get("ff_waitpoint_pending", (ident.partition_index, waitpoint_id)),
            KEYS,
        )
        loaded = await self._store.load(reads)
        lanes, found, keys = loaded.rows
        if not lanes:
            raise NotFound("execution")
        for (stored_lane,) in lanes:
            if lane != stored_lane:
                raise bad_input(
                    f"lane_mismatch: args.lane_id={lane} exec_core.lane_id={stored_lane}"
                )
        waitpoint = next(starmap(model.Waitpoint, found), None)
        if waitpoint is None or waitpoint.execution_id != ident.uuid or not waitpoint.token_digest:
            raise NotFound("waitpoint")
        return token_or_refused(waitpoint, list(starmap(HmacKey, keys))), loaded.now_ms

    async def wake_parent(self, parent: ExecutionId, waitpoint_key: str) -> None:
        """Signals every open waitpoint of that key."""
        reads = (Scan("waitpoints_of", parent.owner, limit=MAX_WAITPOINTS), KEYS)
        found, key_rows = (await self._store.load(reads)).rows
        keys = list(starmap(HmacKey, key_rows))
        for waitpoint in starmap(model.Waitpoint, found):
            if waitpoint.waitpoint_key != waitpoint_key or not waitpoint.is_open:
                continue
            args = model.DeliverSignalArgs(
                execution_id=parent,
                waitpoint_id=waitpoint.waitpoint_id,
                signal_id=uuid.uuid4(),
                waitpoint_token=token_or_refused(waitpoint, keys),
                signal_name="ended",
                source_type="children",
            )
            with suppress(NotFound, StateError):  # the parent has resumed already
                try:
                    await self._deliver(check_signal(args), args)
                except ValidationError:  # the signing key of the token has been removed
                    await self.resume_execution(parent, "children")

    # ---- without a signal

    async def resume_execution(
        self, execution: ExecutionId, trigger_type: str = "signal", resume_delay_ms: int = 0
    ) -> model.Resumed:
        """Ends a suspension, whether its condition holds or not."""
        ident = execution_id(execution)
        validation.text(trigger_type, "trigger_type", MAX_KEY_BYTES)
        delay = validation.whole(resume_delay_ms, "resume_delay_ms", 0, validation.MAX_TIMESTAMP_MS)

        def rule(found: _Suspended) -> Decision:
            return signals.resume(found.execution, found.suspension, delay, found.now_ms)

        return await self._core.run(lambda: self._suspended(ident), rule)

    async def expire_suspension(
        self, execution: ExecutionId, *, partition: int | str | None = None, now: int | None = None
    ) -> str:
        """Applies the timeout behaviour of a suspension that is overdue. Returns what was done."""
        ident = validation.target(execution, partition, now)
        signal = uuid.uuid4()

        def rule(found: _Suspended) -> Decision:
            at = found.now_ms if now is None else now
            return suspension_timeouts.expire(found.execution, found.suspension, at, signal)

        return await self._core.run(lambda: self._suspended(ident), rule)

    async def _suspended(self, ident: ExecutionId) -> _Suspended:
        key = ident.key
        reads = (Get("ff_exec_core", key, CORE_COLUMNS), Get("ff_suspension_current", key))
        loaded = await self._store.load(reads)
        executions, suspended = loaded.rows
        return _Suspended(
            loaded.now_ms,
            next(map(from_core_row, executions), None),
            next(starmap(model.Suspension, suspended), None),
        )

    async def close_waitpoint(
        self, execution: ExecutionId, waitpoint_id: UUID, reason: str = "proactive_close"
    ) -> str:
        """Closes a waitpoint to signals. A suspension that waits on it stays suspended."""
        ident, wanted = execution_id(execution), validation.flow_id(waitpoint_id, "waitpoint_id")
        validation.text(reason, "reason", MAX_KEY_BYTES)
        return await self._core.run(
            lambda: self._waitpoint(ident.partition_index, wanted),
            lambda found: waitpoints.close(found, ident.uuid, reason),
        )

    async def _waitpoint(self, partition: int, ident: UUID) -> model.Waitpoint | None:
        return await load_one(
            self._store, Get("ff_waitpoint_pending", (partition, ident)), model.Waitpoint
        )

    async def expire_waitpoints(self, limit: int = 100) -> int:
        """Closes expired waitpoints that no suspension uses. Returns their number."""
        now, size = await self._store.now_ms(), validation.limit(limit, MAX_PAGE)
        scan = Scan("waitpoint_expiry", upto=now, limit=size)
        found = await load_all(self._store, scan, model.Waitpoint)
        return await self._core.commit_each(
            [waitpoints.closing(w, "never_committed") for w in found]
        )

    async def forget_signal_keys(self) -> int:
        """Removes expired idempotency keys of signals and suspends. Returns their number."""
        now = await self._store.now_ms()
        reads = (
            Scan("signal_dedup_expiry", upto=now, limit=MAX_FORGOTTEN),
            Scan("suspend_dedup_expiry", upto=now, limit=MAX_FORGOTTEN),
        )
        signal_keys, suspend_keys = (await self._store.load(reads)).rows
        plans = [signals.forget_key(row, now) for row in signal_keys]
        plans += [signals.forget_suspend(row, now) for row in suspend_keys]
        return await self._core.commit_each(plans)

    # ---- tokens

    async def read_waitpoint_token(self, partition: int | str, waitpoint_id: UUID) -> str | None:
        """The token of an open waitpoint, which is a credential."""
        wanted = validation.flow_id(waitpoint_id, "waitpoint_id")
        found = await self._waitpoint(partition_key(partition), wanted)
        if found is None or not found.is_open:
            return None
        keys, _ = await self._keys.keys()
        return token_of(found, keys)

    async def read_held_waitpoint_token(
        self, handle: Handle, waitpoint_id: UUID, approver: str = ""
    ) -> str | None:
        """The token of an open waitpoint of the held execution, or that of an approver's link."""
        fields = self._leases.fields(handle)
        wanted = validation.flow_id(waitpoint_id, "waitpoint_id")
        await self._core.check_held(fields)
        found = await self._waitpoint(fields.execution_id.partition_index, wanted)
        if found is None or not found.is_open or found.execution_id != fields.execution_id.uuid:
            return None
        keys, _ = await self._keys.keys()
        token = token_of(found, keys)
        if not approver or token is None:
            return token
        if approver not in json.loads(found.approvers):
            return None
        return tokens.of_approver(token, keys, fields.execution_id, wanted, approver)
