"""Suspending: waitpoints ahead of time, parking an attempt, and what it sees when it goes on."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.codec import token as tokens
from flowfabric.codec.handle import decode_fields, encode_handle
from flowfabric.engine import validation
from flowfabric.engine.core import CORE_COLUMNS, from_core_row
from flowfabric.engine.waits.signing_keys import KEYS, SigningKeys
from flowfabric.errors import (
    EngineError,
    StateError,
    StateKind,
    ValidationError,
    ValidationKind,
    invalid,
)
from flowfabric.ids import ExecutionId, execution_id
from flowfabric.model.attempt import Attempt
from flowfabric.model.lease import Handle, HandleFields, HandleKind, LeaseFence
from flowfabric.model.signing_key import HmacKey
from flowfabric.model.waitpoint import (
    MAX_BINDINGS,
    AllOf,
    BoundWaitpoint,
    ConditionMet,
    Count,
    CountKind,
    FreshWaitpoint,
    OperatorOnly,
    PendingWaitpoint,
    ResumePolicy,
    ResumeSignal,
    Signal,
    Single,
    SuspendArgs,
    Suspended,
    Suspension,
    SuspensionDetails,
    TimeoutBehavior,
    TimeoutOnly,
    UsePending,
    Waitpoint,
)
from flowfabric.plan import Applied
from flowfabric.rules.decision import Commit, Reject, Snapshot
from flowfabric.rules.fence import check_fence, check_handle
from flowfabric.rules.leases import attempts
from flowfabric.rules.waits import suspend as suspensions
from flowfabric.rules.waits import waitpoints
from flowfabric.rules.waits.suspend import SuspendSnapshot
from flowfabric.store.port import Get, GetAll, Loaded, Read, Scan

MAX_EXPIRY_MS = 2**63 - 1
MAX_TEXT_BYTES = 4_096
MAX_KEY_BYTES = 256
SIGNAL_PAGE = 10_000


class _Outcome(Struct):
    """A suspend as it is remembered under its key."""

    variant: str
    details: dict[str, Any]
    handle_opaque_hex: str | None = None

    def __repr__(self) -> str:
        return f"_Outcome({self.variant})"


class Suspend(SigningKeys):
    async def create_waitpoint(
        self,
        handle: Handle,
        waitpoint_key: str = "",
        expires_in_ms: int = 86_400_000,
        signal_names: Sequence[str] = (),
        payload_schema: dict[str, Any] | None = None,
        approvers: Sequence[str] = (),
    ) -> PendingWaitpoint:
        """A mailbox ahead of the suspension: what arrives in it is kept, of `signal_names` only if given. The lease stays."""
        fields = self.fields(handle)
        validation.text(waitpoint_key, "waitpoint_key", MAX_KEY_BYTES)
        validation.whole(expires_in_ms, "expires_in_ms", 0, MAX_EXPIRY_MS)
        validation.payload_schema(payload_schema)
        asked = validation.approvers(approvers)
        names = [validation.text(name, "signal_names", MAX_KEY_BYTES) for name in signal_names]
        validation.whole(len(names), "signal_names", 0, MAX_BINDINGS)
        reads: list[Read] = [
            Get("ff_exec_core", _key(fields), CORE_COLUMNS),
            Get("ff_attempt", (*_key(fields), fields.attempt_index)),
            KEYS,
        ]
        loaded = await self.store.load(reads)
        snapshot, keys = _held(loaded), [HmacKey(*row) for row in loaded.rows[2]]
        refused = check_handle(snapshot, fields)
        if refused is not None:
            await self._refuse(refused)
        key, ident = tokens.signing_key(keys), uuid.uuid4()
        token = tokens.mint(key, fields.execution_id, ident)
        expires = min(snapshot.now_ms + expires_in_ms, MAX_EXPIRY_MS)
        name = waitpoint_key or f"wpk:{ident}"
        plan = waitpoints.create_waitpoint(
            fields,
            ident,
            name,
            token,
            key.kid,
            snapshot.now_ms,
            expires,
            names,
            payload_schema,
            asked,
        )
        await self.by_holder(fields, Commit(plan))
        links = tuple((each, tokens.mint(key, fields.execution_id, ident, each)) for each in asked)
        return PendingWaitpoint(ident, token, links)

    async def suspend(self, handle: Handle, args: SuspendArgs) -> Suspended | ConditionMet:
        """Parks the attempt until its condition holds, without holding a worker; or says that it holds already."""
        if isinstance(handle, Handle) and handle.kind is HandleKind.SUSPENDED:
            raise StateError(StateKind.ALREADY_SUSPENDED)
        _check(args)
        await self._check_now(args)
        fields = self.fields(handle)
        known = await self._known(fields.execution_id, args)
        if known is not None:
            return known
        result = await self._suspend(fields, args, lambda snapshot: check_handle(snapshot, fields))
        if isinstance(result, Suspended):
            self.forget(handle)
        return result

    async def suspend_by_triple(
        self, execution: ExecutionId, fence: LeaseFence, args: SuspendArgs
    ) -> Suspended | ConditionMet:
        """As `suspend`, for callers who name the lease instead of holding a handle."""
        ident = execution_id(execution)
        _check(args)
        await self._check_now(args)
        if not isinstance(fence, LeaseFence):
            raise invalid("fence", "a LeaseFence", type(fence).__name__)
        known = await self._known(ident, args)
        if known is not None:
            return known
        snapshot = await self.snapshot(ident)
        stored = snapshot.execution
        refused = check_fence(snapshot, fence, 0 if stored is None else stored.attempt_index, None)
        if refused is not None:
            await self._refuse(refused)
        assert stored is not None
        fields = attempts.holder(stored, self.store.tag)
        return await self._suspend(fields, args, lambda found: check_handle(found, fields))

    async def _check_now(self, args: SuspendArgs) -> None:
        problem = suspensions.check_args(args, await self.store.now_ms())
        if problem is not None:
            raise problem

    async def _suspend(
        self, fields: HandleFields, args: SuspendArgs, fence: Callable[[Snapshot], Reject | None]
    ) -> Suspended | ConditionMet:
        tries = 0
        while True:
            snapshot, around, keys, outdated = await self._around_wait(fields, args)
            refused = fence(snapshot) or suspensions.check_stored(around, fields, args)
            if refused is not None:
                known = await self._known(
                    fields.execution_id, args
                )  # the same suspend, asked twice at once
                if known is not None:
                    return known
                await self._refuse(refused if isinstance(refused, Reject) else Reject(refused))
            assert snapshot.execution is not None
            args = suspensions.timed(args, snapshot.execution, around.now_ms)
            bound, kid = _bound(fields.execution_id, args, around, keys)
            found = suspensions.replay(args, around.signals)
            result = self._result(fields, args, bound, found, around)
            if found.met:
                stored = around.waitpoints[args.waitpoints[0].waitpoint_id]
                plans = waitpoints.consume(
                    fields, stored, around.now_ms if args.now is None else args.now
                )
            else:
                plans = suspensions.suspend(fields, args, around, bound, found, kid)
            if args.idempotency_key:
                plans.append(
                    self._remember(fields.execution_id, args, result, around.now_ms, known=outdated)
                )
            if isinstance(await self.store.commit_together(plans), Applied):
                return result
            tries += 1
            await self._pause(tries)

    async def _around_wait(
        self, fields: HandleFields, args: SuspendArgs
    ) -> tuple[Snapshot, SuspendSnapshot, list[HmacKey], bool]:
        """All that a suspend is decided by, in one look."""
        ident = fields.execution_id
        at = ident.partition_index
        reads: list[Read] = [
            Get("ff_exec_core", _key(fields), CORE_COLUMNS),
            Get("ff_attempt", (*_key(fields), fields.attempt_index)),
            Get("ff_suspension_current", (at, ident.uuid)),
            GetAll(
                "ff_waitpoint_pending", [(at, binding.waitpoint_id) for binding in args.waitpoints]
            ),
            KEYS,
        ]
        pending = isinstance(args.waitpoints[0], UsePending)
        if pending:
            reads.append(
                Scan(
                    "signals_of",
                    {"partition_key": at, "execution_id": ident.uuid},
                    limit=SIGNAL_PAGE,
                )
            )
        if args.idempotency_key:
            key = suspensions.dedup_key(ident.uuid, args.idempotency_key)
            reads.append(Get("ff_suspend_dedup", (at, key), ("idempotency_key",)))
        loaded = await self.store.load(reads)
        rows = loaded.rows[2:]
        signals = [Signal(*row) for row in rows[3]] if pending else []
        wanted = args.waitpoints[0].waitpoint_id
        around = SuspendSnapshot(
            loaded.now_ms,
            Suspension(*rows[0][0]) if rows[0] else None,
            {row[1]: Waitpoint(*row) for row in rows[1]},
            [signal for signal in signals if signal.waitpoint_id == wanted],
        )
        keys = [HmacKey(*row) for row in rows[2]]
        return _held(loaded), around, keys, bool(args.idempotency_key and rows[-1])

    def _result(
        self,
        fields: HandleFields,
        args: SuspendArgs,
        bound: Sequence[BoundWaitpoint],
        found: suspensions.ConditionState,
        around: SuspendSnapshot,
    ) -> Suspended | ConditionMet:
        if found.met:
            heard = tuple(
                _seen(signal) for signal in around.signals if signal.signal_id in found.satisfiers
            )
            return ConditionMet(SuspensionDetails(args.suspension_id, tuple(bound), heard))
        handle = Handle(self._label, HandleKind.SUSPENDED, encode_handle(fields))
        return Suspended(SuspensionDetails(args.suspension_id, tuple(bound)), handle)

    # ---- asked again under the same key

    def _remember(
        self,
        ident: ExecutionId,
        args: SuspendArgs,
        result: Suspended | ConditionMet,
        now: int,
        *,
        known: bool,
    ) -> Any:
        details = result.details
        first, *others = map(_remembered, details.waitpoints)
        said = _Outcome(
            "Suspended" if isinstance(result, Suspended) else "AlreadySatisfied",
            {
                "suspension_id": str(details.suspension_id),
                **first,
                "extras": others,
                "signals": [str(heard.signal_id) for heard in details.signals],
            },
            result.handle.opaque.hex() if isinstance(result, Suspended) else None,
        )
        text = msgspec.json.encode(said).decode()
        assert args.idempotency_key is not None
        keep = suspensions.dedup_ms(args.timeout_at, now)
        return suspensions.remember(ident, args.idempotency_key, text, now, keep, known=known)

    async def _known(
        self, ident: ExecutionId, args: SuspendArgs
    ) -> Suspended | ConditionMet | None:
        """What a suspend under this key answered before; one that cannot be read counts as none."""
        if not args.idempotency_key:
            return None
        key = (ident.partition_index, suspensions.dedup_key(ident.uuid, args.idempotency_key))
        loaded = await self.store.load(
            (Get("ff_suspend_dedup", key, ("outcome_json", "expires_at_ms")), KEYS)
        )
        keys = [HmacKey(*row) for row in loaded.rows[1]]
        if not loaded.rows[0] or loaded.rows[0][0][1] <= loaded.now_ms:
            return None
        try:
            said = msgspec.json.decode(loaded.rows[0][0][0], type=_Outcome)
            listed = [said.details, *said.details["extras"]]
            bound = tuple(_rebound(ident, w, keys) for w in listed)
            details = SuspensionDetails(UUID(said.details["suspension_id"]), bound)
            if said.handle_opaque_hex is None:
                heard = await self._heard(
                    ident, [UUID(one) for one in said.details.get("signals", ())]
                )
                return ConditionMet(SuspensionDetails(details.suspension_id, bound, heard))
            opaque = bytes.fromhex(said.handle_opaque_hex)
            decode_fields(opaque)
            return Suspended(details, Handle(self._label, HandleKind.SUSPENDED, opaque))
        except (msgspec.MsgspecError, EngineError, ValueError, KeyError, TypeError):
            return None

    # ---- what was heard

    async def _heard(self, ident: ExecutionId, wanted: Sequence[UUID]) -> tuple[ResumeSignal, ...]:
        keys = [(ident.partition_index, ident.uuid, signal) for signal in wanted]
        rows = (await self.store.load((GetAll("ff_signal", keys),))).rows[0] if keys else []
        return tuple(
            sorted(
                (_seen(Signal(*row)) for row in rows), key=lambda seen: wanted.index(seen.signal_id)
            )
        )

    async def observe_signals(self, handle: Handle) -> list[ResumeSignal]:
        """To a suspended handle all signals so far; to any other those that made it go on."""
        fields = self.fields(handle)
        suspension, signals = await self._last_heard(fields.execution_id)
        if suspension is None or suspension.attempt_index != fields.attempt_index:
            return []
        if handle.kind is HandleKind.SUSPENDED:
            return [_seen(signal) for signal in signals]
        return _that_resumed(suspension, signals)

    async def read_resume_signals(self, execution: ExecutionId) -> list[ResumeSignal]:
        """What ended the latest suspension, whichever attempt it was of: the one after a crash is to know it as well."""
        suspension, signals = await self._last_heard(execution_id(execution))
        return [] if suspension is None else _that_resumed(suspension, signals)

    async def _last_heard(self, ident: ExecutionId) -> tuple[Suspension | None, list[Signal]]:
        owner = {"partition_key": ident.partition_index, "execution_id": ident.uuid}
        loaded = await self.store.load(
            (
                Get("ff_suspension_current", tuple(owner.values())),
                Scan("signals_of", owner, limit=SIGNAL_PAGE),
            )
        )
        if not loaded.rows[0]:
            return None, []
        suspension = Suspension(*loaded.rows[0][0])
        signals = [Signal(*row) for row in loaded.rows[1]]
        return suspension, [
            signal for signal in signals if signal.suspension_id == suspension.suspension_id
        ]


def _remembered(waitpoint: BoundWaitpoint) -> dict[str, str]:
    """All but its token, which is made again."""
    token = waitpoint.waitpoint_token
    seal = {"kid": token.partition(":")[0], "seal": tokens.sealed(token)}
    return {
        "waitpoint_id": str(waitpoint.waitpoint_id),
        "waitpoint_key": waitpoint.waitpoint_key,
        **seal,
    }


def _rebound(ident: ExecutionId, said: dict[str, str], keys: Sequence[HmacKey]) -> BoundWaitpoint:
    """A waitpoint as it was remembered, with its token made again; without one if its key is gone."""
    waitpoint = UUID(said["waitpoint_id"])
    return BoundWaitpoint(
        waitpoint,
        said["waitpoint_key"],
        tokens.again(said["seal"], said["kid"], keys, ident, waitpoint) or "",
    )


def _that_resumed(suspension: Suspension, signals: Sequence[Signal]) -> list[ResumeSignal]:
    if suspension.close_reason == "timed_out_auto_resume":
        return [_seen(signal) for signal in signals if signal.source_type == "engine"]
    satisfiers = {UUID(text) for text in json.loads(suspension.satisfier_signal_ids)}
    return (
        [_seen(s) for s in signals if s.signal_id in satisfiers]
        if suspension.close_reason == "resumed"
        else []
    )


def _key(fields: HandleFields) -> tuple[int, UUID]:
    return fields.execution_id.partition_index, fields.execution_id.uuid


def _held(loaded: Loaded) -> Snapshot:
    """From an execution and its attempt, read first."""
    found, tried = loaded.rows[:2]
    return Snapshot(
        loaded.now_ms,
        from_core_row(found[0]) if found else None,
        Attempt(*tried[0]) if tried else None,
    )


def token_of(waitpoint: Waitpoint, keys: Sequence[HmacKey]) -> str | None:
    """Its token, made again; none if the key that signed it is gone."""
    ident = ExecutionId.of(waitpoint.partition_key, waitpoint.execution_id)
    return tokens.again(
        waitpoint.token_digest, waitpoint.token_kid, keys, ident, waitpoint.waitpoint_id
    )


def _bound(
    ident: ExecutionId, args: SuspendArgs, around: SuspendSnapshot, keys: Sequence[HmacKey]
) -> tuple[list[BoundWaitpoint], str]:
    """The waitpoints with their tokens; a pending one keeps its own, whatever has rotated since."""
    bound, kid = [], ""
    for binding in args.waitpoints:
        if isinstance(binding, UsePending):
            stored = around.waitpoints[binding.waitpoint_id]
            bound.append(
                BoundWaitpoint(
                    stored.waitpoint_id, stored.waitpoint_key, token_of(stored, keys) or ""
                )
            )
            continue
        key = tokens.signing_key(keys)
        kid = key.kid
        token = tokens.mint(key, ident, binding.waitpoint_id)
        bound.append(BoundWaitpoint(binding.waitpoint_id, suspensions.key_of(binding), token))
    return bound, kid


def _seen(signal: Signal) -> ResumeSignal:
    return ResumeSignal(
        signal.signal_id,
        signal.signal_name,
        signal.signal_category,
        signal.source_type,
        signal.source_identity,
        signal.correlation_id,
        signal.accepted_at_ms,
        signal.payload,
        signal.comment,
        signal.link,
    )


def _check(args: object) -> None:
    """Types and sizes; what they mean together is a rule."""
    if not isinstance(args, SuspendArgs):
        raise invalid("args", "SuspendArgs", type(args).__name__)
    validation.flow_id(args.suspension_id, "suspension_id")
    if not isinstance(args.waitpoints, list | tuple):
        raise invalid(
            "waitpoints", "a list of FreshWaitpoint or UsePending", type(args.waitpoints).__name__
        )
    validation.whole(len(args.waitpoints), "waitpoints", 0, MAX_BINDINGS)
    for binding in args.waitpoints:
        if not isinstance(binding, FreshWaitpoint | UsePending):
            raise invalid("waitpoints", "FreshWaitpoint or UsePending", binding)
        validation.flow_id(binding.waitpoint_id, "waitpoint_id")
        if isinstance(binding, FreshWaitpoint):
            validation.text(binding.waitpoint_key, "waitpoint_key", MAX_KEY_BYTES)
            validation.payload_schema(binding.payload_schema)
    _check_condition(args.resume_condition, 0)
    validation.text(str(args.reason_code), "reason_code", MAX_KEY_BYTES)
    validation.text(args.requested_by, "requested_by", MAX_KEY_BYTES)
    validation.optional_timestamp(args.timeout_at, "timeout_at")
    validation.optional_timestamp(args.now, "now")
    validation.optional_text(
        args.continuation_metadata_pointer, "continuation_metadata_pointer", MAX_TEXT_BYTES
    )
    validation.optional_text(args.idempotency_key, "idempotency_key", MAX_TEXT_BYTES)
    try:
        TimeoutBehavior(args.timeout_behavior)
    except ValueError:
        raise invalid(
            "timeout_behavior", ", ".join(TimeoutBehavior), args.timeout_behavior
        ) from None
    if not isinstance(args.resume_policy, ResumePolicy):
        raise invalid("resume_policy", "a ResumePolicy", args.resume_policy)
    if args.resume_policy.resume_delay_ms is not None:
        validation.whole(
            args.resume_policy.resume_delay_ms, "resume_delay_ms", 0, validation.MAX_TIMESTAMP_MS
        )


MAX_PARSED_DEPTH = 16


def _check_condition(condition: object, depth: int) -> None:
    if depth > MAX_PARSED_DEPTH:
        raise ValidationError(
            ValidationKind.INVALID_INPUT, f"depth {depth} exceeds cap 4 at path <root>"
        )
    match condition:
        case Single(waitpoint_key=key, name=name):
            validation.text(key, "waitpoint_key", MAX_KEY_BYTES)
            validation.optional_text(name, "signal name", MAX_KEY_BYTES)
        case AllOf(members=several) | Count(waitpoints=several) if not isinstance(
            several, list | tuple
        ):
            raise invalid(
                "resume_condition", "a list of members or of waitpoint keys", type(several).__name__
            )
        case Count(n=n, count_kind=kind, waitpoints=keys, name=name, veto=veto):
            validation.whole(n, "n", 0, 2**31 - 1)
            if not isinstance(kind, CountKind):
                raise invalid("count_kind", ", ".join(CountKind), kind)
            for key in keys:
                validation.text(key, "waitpoint_key", MAX_KEY_BYTES)
            validation.optional_text(name, "signal name", MAX_KEY_BYTES)
            validation.optional_text(veto, "veto", MAX_KEY_BYTES)
        case AllOf(members=members):
            for member in members:
                _check_condition(member, depth + 1)
        case OperatorOnly() | TimeoutOnly():
            return
        case _:
            raise invalid(
                "resume_condition",
                "Single, AllOf, Count, OperatorOnly or TimeoutOnly",
                type(condition).__name__,
            )
