"""The signals that resumed a suspension, and answers of suspends kept under idempotency keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import starmap
from uuid import UUID

import msgspec
from msgspec import Struct

from flowfabric.codec import token as tokens
from flowfabric.codec.handle import decode_fields
from flowfabric.engine.snapshots import load_all
from flowfabric.engine.waits.signing_keys import KEYS
from flowfabric.errors import EngineError
from flowfabric.ids import ExecutionId
from flowfabric.model import waitpoint as model
from flowfabric.model.lease import Handle, HandleKind
from flowfabric.model.signing_key import HmacKey
from flowfabric.plan import Plan
from flowfabric.rules.waits import suspend as suspensions
from flowfabric.store.port import Get, GetAll, Scan, Store

SIGNAL_PAGE = 10_000


def as_resume_signal(signal: model.Signal) -> model.ResumeSignal:
    return model.ResumeSignal(
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


def resumed_by(
    suspension: model.Suspension, signals: Sequence[model.Signal]
) -> list[model.ResumeSignal]:
    """The signals that satisfied the condition, or those the engine wrote at the timeout."""
    if suspension.close_reason == "timed_out_auto_resume":
        return [as_resume_signal(signal) for signal in signals if signal.source_type == "engine"]
    if suspension.close_reason != "resumed":
        return []
    satisfiers = {UUID(text) for text in json.loads(suspension.satisfier_signal_ids)}
    return [as_resume_signal(signal) for signal in signals if signal.signal_id in satisfiers]


async def load_last_suspension(
    store: Store, ident: ExecutionId
) -> tuple[model.Suspension | None, list[model.Signal]]:
    """The latest suspension of an execution, with its signals."""
    reads = (
        Get("ff_suspension_current", ident.key),
        Scan("signals_of", ident.owner, limit=SIGNAL_PAGE),
    )
    suspensions, signals = (await store.load(reads)).rows
    suspension = next(starmap(model.Suspension, suspensions), None)
    if suspension is None:
        return None, []
    found = starmap(model.Signal, signals)
    return suspension, [each for each in found if each.suspension_id == suspension.suspension_id]


class _StoredWaitpoint(Struct):
    """A waitpoint without its token, which is derived again from the signing key."""

    waitpoint_id: UUID
    waitpoint_key: str
    kid: str
    seal: str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.waitpoint_id})"

    def bound(self, ident: ExecutionId, keys: Sequence[HmacKey]) -> model.BoundWaitpoint:
        """With its token, which is empty when the signing key has been removed."""
        token = tokens.again(self.seal, self.kid, keys, ident, self.waitpoint_id)
        return model.BoundWaitpoint(self.waitpoint_id, self.waitpoint_key, token or "")


class StoredDetails(_StoredWaitpoint):
    suspension_id: UUID
    extras: list[_StoredWaitpoint]
    signals: list[UUID] = []


class StoredAnswer(Struct):
    """The answer of a suspend as it is stored under its key."""

    variant: str
    details: StoredDetails
    handle_opaque_hex: str | None = None

    def __repr__(self) -> str:
        return f"StoredAnswer({self.variant})"


class SuspendReplays:
    """Stores and finds the answers of suspends."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def find(
        self, ident: ExecutionId, args: model.SuspendArgs
    ) -> model.Suspended | model.ConditionMet | None:
        """The earlier answer under this key. An answer that cannot be decoded counts as none."""
        if not args.idempotency_key:
            return None
        key = (ident.partition_index, suspensions.dedup_key(ident.uuid, args.idempotency_key))
        read = Get("ff_suspend_dedup", key, ("outcome_json", "expires_at_ms"))
        loaded = await self._store.load((read, KEYS))
        found, keys = loaded.rows
        for text, expires_at in found:
            if expires_at > loaded.now_ms:
                return await self._decoded(ident, text, list(starmap(HmacKey, keys)))
        return None

    async def _decoded(
        self, ident: ExecutionId, text: str, keys: Sequence[HmacKey]
    ) -> model.Suspended | model.ConditionMet | None:
        try:
            answer = msgspec.json.decode(text, type=StoredAnswer)
            stored = answer.details
            bound = tuple(each.bound(ident, keys) for each in (stored, *stored.extras))
            if answer.handle_opaque_hex is None:
                signals = await self._signals(ident, stored.signals)
                return model.ConditionMet(
                    model.SuspensionDetails(stored.suspension_id, bound, signals)
                )
            opaque = bytes.fromhex(answer.handle_opaque_hex)
            decode_fields(opaque)
            handle = Handle(self._store.tag.label, HandleKind.SUSPENDED, opaque)
            return model.Suspended(model.SuspensionDetails(stored.suspension_id, bound), handle)
        except (msgspec.MsgspecError, EngineError, ValueError, KeyError, TypeError):
            return None

    async def _signals(
        self, ident: ExecutionId, wanted: Sequence[UUID]
    ) -> tuple[model.ResumeSignal, ...]:
        keys = [(ident.partition_index, ident.uuid, signal) for signal in wanted]
        read = GetAll("ff_signal", keys)
        found = await load_all(self._store, read, model.Signal) if keys else []
        found.sort(key=lambda signal: wanted.index(signal.signal_id))
        return tuple(as_resume_signal(signal) for signal in found)


def remember(
    ident: ExecutionId,
    args: model.SuspendArgs,
    answer: model.Suspended | model.ConditionMet,
    now: int,
    *,
    replaces: bool,
) -> Plan:
    """The plan that stores an answer. `replaces`: an expired answer is stored under the key."""
    assert args.idempotency_key is not None
    keep = suspensions.dedup_ms(args.timeout_at, now)
    text = _encoded(answer)
    return suspensions.remember(ident, args.idempotency_key, text, now, keep, known=replaces)


def _encoded(answer: model.Suspended | model.ConditionMet) -> str:
    details = answer.details
    first, *others = map(_stored, details.waitpoints)
    stored = StoredAnswer(
        "Suspended" if isinstance(answer, model.Suspended) else "AlreadySatisfied",
        StoredDetails(
            first.waitpoint_id,
            first.waitpoint_key,
            first.kid,
            first.seal,
            details.suspension_id,
            others,
            [signal.signal_id for signal in details.signals],
        ),
        answer.handle.opaque.hex() if isinstance(answer, model.Suspended) else None,
    )
    return msgspec.json.encode(stored).decode()


def _stored(waitpoint: model.BoundWaitpoint) -> _StoredWaitpoint:
    token = waitpoint.waitpoint_token
    kid, _, _ = token.partition(":")
    return _StoredWaitpoint(
        waitpoint.waitpoint_id, waitpoint.waitpoint_key, kid, tokens.sealed(token)
    )
