"""Suspends: creating waitpoints, suspending an attempt, and reading the signals that resumed it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from itertools import count, starmap
from typing import Any

from msgspec import Struct

from flowfabric.codec import token as tokens
from flowfabric.codec.handle import encode_handle
from flowfabric.engine import validation
from flowfabric.engine.core import Core
from flowfabric.engine.leases.facts import LeaseCache
from flowfabric.engine.waits.argument_checks import MAX_KEY_BYTES, check_suspend
from flowfabric.engine.waits.signing_keys import KEYS, token_of
from flowfabric.engine.waits.suspend_replay import (
    SIGNAL_PAGE,
    SuspendReplays,
    as_resume_signal,
    load_last_suspension,
    remember,
    resumed_by,
)
from flowfabric.errors import StateError, StateKind
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model import waitpoint as model
from flowfabric.model.lease import Handle, HandleFields, HandleKind, LeaseFence
from flowfabric.model.signing_key import HmacKey
from flowfabric.plan import Applied
from flowfabric.rules.decision import Commit, Reject, Snapshot
from flowfabric.rules.fence import check_fence, check_handle
from flowfabric.rules.leases import attempts
from flowfabric.rules.waits import suspend as suspensions
from flowfabric.rules.waits import waitpoints
from flowfabric.rules.waits.suspend import SuspendSnapshot
from flowfabric.store.port import Get, GetAll, Read, Scan

MAX_EXPIRY_MS = 2**63 - 1


class _SuspendRows(Struct, frozen=True):
    """The rows of a suspend. `has_answer`: the key has an answer, perhaps an expired one."""

    held: Snapshot
    snapshot: SuspendSnapshot
    keys: list[HmacKey]
    has_answer: bool


class Suspend:
    def __init__(self, core: Core, leases: LeaseCache) -> None:
        self._core, self._store, self._leases = core, core.store, leases
        self._replays = SuspendReplays(core.store)

    async def create_waitpoint(
        self,
        handle: Handle,
        waitpoint_key: str = "",
        expires_in_ms: int = 86_400_000,
        signal_names: Sequence[str] = (),
        payload_schema: dict[str, Any] | None = None,
        approvers: Sequence[str] = (),
    ) -> model.PendingWaitpoint:
        """Creates a waitpoint that keeps signals until the suspend. The lease is kept."""
        fields = self._leases.fields(handle)
        validation.text(waitpoint_key, "waitpoint_key", MAX_KEY_BYTES)
        validation.whole(expires_in_ms, "expires_in_ms", 0, MAX_EXPIRY_MS)
        validation.payload_schema(payload_schema)
        asked = validation.approvers(approvers)
        names = [validation.text(name, "signal_names", MAX_KEY_BYTES) for name in signal_names]
        validation.whole(len(names), "signal_names", 0, model.MAX_BINDINGS)
        held, (stored_keys,) = await self._core.snapshots.held(fields, KEYS)
        refused = check_handle(held, fields)
        if refused is not None:
            await self._core.refuse(refused)
        key, ident = tokens.signing_key(list(starmap(HmacKey, stored_keys))), uuid.uuid4()
        token = tokens.mint(key, fields.execution_id, ident)
        plan = waitpoints.create_waitpoint(
            fields,
            ident,
            waitpoint_key or f"wpk:{ident}",
            token,
            key.kid,
            held.now_ms,
            min(held.now_ms + expires_in_ms, MAX_EXPIRY_MS),
            names,
            payload_schema,
            asked,
        )
        await self._core.run_fenced(fields, Commit(plan))
        links = tuple((each, tokens.mint(key, fields.execution_id, ident, each)) for each in asked)
        return model.PendingWaitpoint(ident, token, links)

    async def suspend(
        self, handle: Handle, args: model.SuspendArgs
    ) -> model.Suspended | model.ConditionMet:
        """Suspends the attempt until its condition holds and releases the lease.

        Answers `ConditionMet`, and keeps the lease, when earlier signals satisfy the condition.
        """
        if isinstance(handle, Handle) and handle.kind is HandleKind.SUSPENDED:
            raise StateError(StateKind.ALREADY_SUSPENDED)
        await self._check(args)
        fields = self._leases.fields(handle)
        known = await self._replays.find(fields.execution_id, args)
        if known is not None:
            return known
        result = await self._suspend(fields, args)
        if isinstance(result, model.Suspended):
            self._leases.forget(handle)
        return result

    async def suspend_by_triple(
        self, execution: ExecutionId, fence: LeaseFence, args: model.SuspendArgs
    ) -> model.Suspended | model.ConditionMet:
        """As `suspend`, for callers that name the lease instead of a handle."""
        ident = execution_id(execution)
        await self._check(args)
        validation.instance(fence, LeaseFence, "fence")
        known = await self._replays.find(ident, args)
        if known is not None:
            return known
        snapshot = await self._core.snapshots.load(ident)
        stored = snapshot.execution
        refused = check_fence(snapshot, fence, 0 if stored is None else stored.attempt_index, None)
        if refused is not None:
            await self._core.refuse(refused)
        assert stored is not None
        return await self._suspend(attempts.holder(stored, self._store.tag), args)

    async def _check(self, args: model.SuspendArgs) -> None:
        check_suspend(args)
        problem = suspensions.check_args(args, await self._store.now_ms())
        if problem is not None:
            raise problem

    async def _suspend(
        self, fields: HandleFields, args: model.SuspendArgs
    ) -> model.Suspended | model.ConditionMet:
        for tries in count(1):
            rows = await self._load(fields, args)
            snapshot = rows.snapshot
            refused = check_handle(rows.held, fields)
            problem = refused or suspensions.check_stored(snapshot, fields, args)
            if problem is not None:
                # The same call may have been applied meanwhile.
                known = await self._replays.find(fields.execution_id, args)
                if known is not None:
                    return known
                await self._core.refuse(problem if isinstance(problem, Reject) else Reject(problem))
            assert rows.held.execution is not None
            args = suspensions.timed(args, rows.held.execution, snapshot.now_ms)
            bound, kid = _bound(fields.execution_id, args, snapshot, rows.keys)
            found = suspensions.replay(args, snapshot.signals)
            result = self._result(fields, args, bound, found, snapshot)
            if found.met:
                stored = snapshot.waitpoints[args.waitpoints[0].waitpoint_id]
                now = snapshot.now_ms if args.now is None else args.now
                plans = waitpoints.consume(fields, stored, now)
            else:
                plans = suspensions.suspend(fields, args, snapshot, bound, found, kid)
            if args.idempotency_key:
                ident, now = fields.execution_id, snapshot.now_ms
                plans.append(remember(ident, args, result, now, replaces=rows.has_answer))
            if isinstance(await self._store.commit_together(plans), Applied):
                return result
            await self._core.pause(tries)
        raise AssertionError("the last pause raises")

    async def _load(self, fields: HandleFields, args: model.SuspendArgs) -> _SuspendRows:
        ident = fields.execution_id
        at = ident.partition_index
        first = args.waitpoints[0]
        uses_pending = isinstance(first, model.UsePending)
        reads: list[Read] = [
            Get("ff_suspension_current", ident.key),
            GetAll("ff_waitpoint_pending", [(at, each.waitpoint_id) for each in args.waitpoints]),
            KEYS,
        ]
        if uses_pending:
            reads.append(Scan("signals_of", ident.owner, limit=SIGNAL_PAGE))
        if args.idempotency_key:
            key = suspensions.dedup_key(ident.uuid, args.idempotency_key)
            reads.append(Get("ff_suspend_dedup", (at, key), ("idempotency_key",)))
        held, rows = await self._core.snapshots.held(fields, *reads)
        suspended, stored, keys, *rest = rows
        signals = starmap(model.Signal, rest.pop(0)) if uses_pending else ()
        snapshot = SuspendSnapshot(
            held.now_ms,
            next(starmap(model.Suspension, suspended), None),
            {waitpoint.waitpoint_id: waitpoint for waitpoint in starmap(model.Waitpoint, stored)},
            [signal for signal in signals if signal.waitpoint_id == first.waitpoint_id],
        )
        return _SuspendRows(held, snapshot, list(starmap(HmacKey, keys)), any(rest))

    def _result(
        self,
        fields: HandleFields,
        args: model.SuspendArgs,
        bound: Sequence[model.BoundWaitpoint],
        found: suspensions.ConditionState,
        snapshot: SuspendSnapshot,
    ) -> model.Suspended | model.ConditionMet:
        if found.met:
            satisfying = tuple(
                as_resume_signal(signal)
                for signal in snapshot.signals
                if signal.signal_id in found.satisfiers
            )
            return model.ConditionMet(
                model.SuspensionDetails(args.suspension_id, tuple(bound), satisfying)
            )
        handle = Handle(self._store.tag.label, HandleKind.SUSPENDED, encode_handle(fields))
        return model.Suspended(model.SuspensionDetails(args.suspension_id, tuple(bound)), handle)

    # ---- signals

    async def observe_signals(self, handle: Handle) -> list[model.ResumeSignal]:
        """All signals so far for a suspended handle; for any other, those that resumed it."""
        fields = self._leases.fields(handle)
        suspension, signals = await load_last_suspension(self._store, fields.execution_id)
        if suspension is None or suspension.attempt_index != fields.attempt_index:
            return []
        if handle.kind is HandleKind.SUSPENDED:
            return [as_resume_signal(signal) for signal in signals]
        return resumed_by(suspension, signals)

    async def read_resume_signals(self, execution: ExecutionId) -> list[model.ResumeSignal]:
        """The signals that ended the latest suspension, whichever attempt it was of."""
        suspension, signals = await load_last_suspension(self._store, execution_id(execution))
        return [] if suspension is None else resumed_by(suspension, signals)


def _bound(
    ident: ExecutionId, args: model.SuspendArgs, snapshot: SuspendSnapshot, keys: Sequence[HmacKey]
) -> tuple[list[model.BoundWaitpoint], str]:
    """The waitpoints with their tokens, and the signing key of new ones."""
    bound, kid = [], ""
    for binding in args.waitpoints:
        if isinstance(binding, model.UsePending):
            stored = snapshot.waitpoints[binding.waitpoint_id]
            token = token_of(stored, keys) or ""
            bound.append(model.BoundWaitpoint(stored.waitpoint_id, stored.waitpoint_key, token))
            continue
        key = tokens.signing_key(keys)
        kid = key.kid
        token = tokens.mint(key, ident, binding.waitpoint_id)
        bound.append(model.BoundWaitpoint(binding.waitpoint_id, suspensions.key_of(binding), token))
    return bound, kid
