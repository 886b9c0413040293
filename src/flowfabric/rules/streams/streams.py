"""Output streams: what an append changes, how much of a stream is kept, and when it is closed.

An append is decided from the stream's row, and committed while the execution's row shows that the
lease is held; it does not write that row. Whether a stream is closed follows from the attempt, so
ending an attempt does not involve its stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.codec.frame_id import frame_id
from flowfabric.errors import Contention, ContentionKind, EngineError, StateError, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model import stream as model
from flowfabric.model.lease import HandleFields
from flowfabric.model.state import ENDED_PHASES
from flowfabric.plan import Plan
from flowfabric.rules.decision import Snapshot
from flowfabric.rules.fence import check_handle
from flowfabric.rules.streams import merge_patch
from flowfabric.rules.streams.ephemeral_frames import kept_frames, limits_of, next_rate
from flowfabric.rules.streams.frames import decode_fields, encode_fields, fields_of, mint
from flowfabric.rules.streams.stream_forms import COUNTS, FORMS, PLAIN

MAX_CACHED = 4_096
"""A longer document is read again for the next patch, since thousands of streams may be cached."""


class Summary(Struct, frozen=True):
    """The document of a stream, and the number of its patches."""

    document: merge_patch.Document
    version: int


class Stream(Struct, frozen=True):
    """A stream before an append: its row, if it exists, and its document, if that is cached."""

    meta: model.StreamMeta | None
    summary: Summary | None
    cap: int


class Bound(NamedTuple):
    """The last of the durable frames to delete."""

    ts_ms: int
    mode_number: int


class Appended(NamedTuple):
    plan: Plan
    stream: Stream
    outcomes: list[model.AppendOutcome]


def frames_over_cap(stream: Stream) -> int:
    """How many durable frames to delete. The caller looks up the last of them."""
    meta = stream.meta
    over = 0 if meta is None else meta.durable_count - meta.durable_trimmed - stream.cap
    return over if over > model.DURABLE_SLACK else 0


def append(
    stream: Stream,
    handle: HandleFields,
    frames: Sequence[model.Frame],
    now: int,
    bound: Bound | None = None,
) -> Appended:
    """Appends all frames or none, under the lease of the handle. Raises for an invalid patch."""
    plain = bound is None and all(type(frame.mode) is model.Durable for frame in frames)
    if plain and stream.meta is not None:
        return _append_durable(stream, stream.meta, handle, frames, now)
    meta = stream.meta or new_meta(handle.execution_id, handle.attempt_index, now)
    draft = _Draft(stream, meta, now)
    last = None if stream.meta is None else (meta.last_ts_ms, meta.last_seq)
    idents = mint(last, now, len(frames))
    versions = [draft.add(frame, ident) for frame, ident in zip(frames, idents, strict=True)]
    trims = draft.trims(bound)
    sums = draft.summary is not stream.summary
    args = {**_arguments(handle, meta), "frames": draft.kept(trims), **draft.counts}
    known = draft.summary
    if sums:
        assert known is not None
        document = _document(known)
        args |= {"document": document, "summary_version": known.version}
        known = known if len(document) <= MAX_CACHED else None
    if trims:
        args |= {f"trim_{mode}": last for mode, last in trims.items()}
        args["trim_ts_ms"] = 0 if bound is None else bound.ts_ms
    opens = stream.meta is None
    plan = FORMS[opens, sums, bool(trims) and not opens].given(args)
    after = Stream(replace(meta, version=meta.version + 1, **draft.counts), known, stream.cap)
    return Appended(plan, after, _outcomes(handle, meta, idents, versions))


def _append_durable(
    stream: Stream,
    meta: model.StreamMeta,
    handle: HandleFields,
    frames: Sequence[model.Frame],
    now: int,
) -> Appended:
    idents = mint((meta.last_ts_ms, meta.last_seq), now, len(frames))
    count, number, size = meta.frame_count, meta.durable_count, meta.total_bytes
    items = []
    for frame, (ts_ms, seq) in zip(frames, idents, strict=True):
        count, number, size = count + 1, number + 1, size + len(frame.bytes)
        stored = encode_fields(fields_of(frame, ts_ms, None))
        items.append((ts_ms, seq, "durable", count, number, frame.seq, None, stored))
    ts_ms, seq = idents[-1]
    counts = {
        "frame_count": count,
        "total_bytes": size,
        "last_ts_ms": ts_ms,
        "last_seq": seq,
        "durable_count": number,
    }
    plan = PLAIN.given({**_arguments(handle, meta), "frames": items, **counts})
    grown = replace(meta, version=meta.version + 1, has_durable_frame=1, **counts)
    after = Stream(grown, stream.summary, stream.cap)
    return Appended(plan, after, _outcomes(handle, meta, idents, [None] * len(idents)))


def _arguments(handle: HandleFields, meta: model.StreamMeta) -> dict[str, object]:
    return {
        "partition_key": meta.partition_key,
        "execution_id": meta.execution_id,
        "attempt_index": meta.attempt_index,
        "lease_epoch": handle.lease_epoch,
        "lease_id": handle.lease_id,
        "worker_instance_id": handle.worker_instance_id,
        "version": meta.version,
    }


def _outcomes(
    handle: HandleFields,
    meta: model.StreamMeta,
    idents: Sequence[tuple[int, int]],
    versions: Sequence[int | None],
) -> list[model.AppendOutcome]:
    name = stream_id(handle.execution_id, meta.attempt_index)
    numbered = enumerate(zip(idents, versions, strict=True), meta.frame_count + 1)
    return [
        model.AppendOutcome(name, f"{ts_ms}-{seq}", count, version)
        for count, ((ts_ms, seq), version) in numbered
    ]


Stored = tuple[int, int, str, int, int, int | None, int | None, str]
"""A frame as the items of `InsertEach`: the columns from `ts_ms` to `fields`."""


class _Draft:
    """The changes of a stream, collected frame by frame."""

    def __init__(self, stream: Stream, meta: model.StreamMeta, now: int) -> None:
        self.now = now
        self.counts: dict[str, Any] = {name: getattr(meta, name) for name in COUNTS}
        self.summary = stream.summary
        self.items: list[Stored] = []

    def add(self, frame: model.Frame, ident: tuple[int, int]) -> int | None:
        """Adds a frame. The result is the version of the document, if the frame patches it."""
        counts, mode = self.counts, frame.mode
        version = expires = None
        match mode:
            case model.Durable():
                counts["durable_count"] = number = counts["durable_count"] + 1
                counts["has_durable_frame"] = 1
            case model.DurableSummary():
                counts["summary_count"] = number = counts["summary_count"] + 1
                counts["has_durable_frame"] = 1
                version = self._patch(frame)
            case _:
                counts["live_count"] = number = counts["live_count"] + 1
                expires = self._live(mode)
        counts["frame_count"] += 1
        counts["total_bytes"] += len(frame.bytes)
        counts["last_ts_ms"], counts["last_seq"] = ident
        stored = encode_fields(fields_of(frame, ident[0], version))
        self.items.append(
            (*ident, mode.wire, counts["frame_count"], number, frame.seq, expires, stored)
        )
        return version

    def _patch(self, frame: model.Frame) -> int:
        before = self.summary or Summary({}, 0)
        self.summary = Summary(
            merge_patch.merge(before.document, merge_patch.parse_patch(frame.bytes)),
            before.version + 1,
        )
        return self.summary.version

    def _live(self, mode: model.BestEffortLive) -> int:
        """Adapts the number of kept frames to the rate of live frames; the result is the expiry."""
        counts, limits = self.counts, limits_of(mode)
        rate = next_rate(counts["ema_rate_hz"], counts["last_append_ts_ms"], self.now, limits)
        counts["ema_rate_hz"], counts["last_append_ts_ms"] = rate, self.now
        counts["maxlen_applied_last"] = kept_frames(rate, limits)
        return self.now + 2 * limits.ttl_ms

    def trims(self, bound: Bound | None) -> dict[str, int]:
        """The number of the last frame to delete by mode; empty when none is deleted."""
        found = {
            "durable": 0 if bound is None else bound.mode_number,
            "summary": self._over("summary", model.SUMMARY_CAP, model.SUMMARY_SLACK),
            "best_effort": self._over("live", self.counts["maxlen_applied_last"] or 0, 0),
        }
        if bound is not None:
            self.counts["durable_trimmed"] = bound.mode_number
        return found if any(found.values()) else {}

    def _over(self, mode: str, cap: int, slack: int) -> int:
        count, trimmed = self.counts[f"{mode}_count"], self.counts[f"{mode}_trimmed"]
        if count - trimmed <= cap + slack:
            return 0
        self.counts[f"{mode}_trimmed"] = last = count - cap
        return int(last)

    def kept(self, trims: dict[str, int]) -> list[Stored]:
        """The frames to insert: those that would be deleted at once are left out."""
        return [item for item in self.items if item[4] > trims[item[2]]] if trims else self.items


def _document(summary: Summary) -> str:
    text = merge_patch.document_bytes(summary.document)
    merge_patch.check_document_size(text)
    return text.decode()


def stored_summary(document: str, version: int) -> Summary:
    return Summary(merge_patch.parse_document(document.encode()), version)


def outcome_of_stored(
    handle: HandleFields, ts_ms: int, seq: int, number: int, fields: str
) -> model.AppendOutcome:
    """The outcome of an append that was committed before."""
    version = decode_fields(fields).get("summary_version")
    name = stream_id(handle.execution_id, handle.attempt_index)
    patched = None if version is None else int(version)
    return model.AppendOutcome(name, frame_id(ts_ms, seq), number, patched)


def new_meta(execution: ExecutionId, attempt_index: int, now: int) -> model.StreamMeta:
    return model.StreamMeta(execution.partition_index, execution.uuid, attempt_index, now)


def stream_id(execution: ExecutionId, attempt_index: int) -> str:
    return f"{execution}:{attempt_index}"


def refusal(snapshot: Snapshot, handle: HandleFields) -> EngineError | None:
    """The error of a refused append; None if the lease is held and the stream has changed."""
    refused = check_handle(snapshot, handle, marks=False)
    if refused is None:
        return None
    error = refused.error
    if isinstance(error, Contention) and error.kind is ContentionKind.EXECUTION_NOT_ACTIVE:
        return StateError(StateKind.STREAM_CLOSED)
    return error


_REASONS = {
    "success": "attempt_success",
    "failed": "attempt_failure",
    "retry": "attempt_failure",
    "cancelled": "attempt_cancelled",
    "interrupted_reclaimed": "reclaimed",
    "expired": "expired",
    "skipped": "dependency_impossible",
}
_TIMED_OUT = {
    ("failed", "suspension_timeout:fail"),
    ("cancelled", "suspension_timeout:cancel"),
    ("expired", "suspension_timeout:expire"),
}
"""Compared as a whole: a caller's failure reason may have the same prefix."""

LEASE_LOST_CAUSES = ("lease_expired", "lease_revoked")
"""Interrupt causes that close the stream unless the same attempt continues."""


class StreamExecution(Struct, frozen=True):
    """The columns of an execution that decide whether its stream is closed."""

    lifecycle_phase: str
    attempt_index: int
    ownership_state: str
    interrupt_cause: str | None
    lease_expired_at: int | None
    last_transition_at: int

    @property
    def ended(self) -> bool:
        return self.lifecycle_phase in ENDED_PHASES


class AttemptEnd(Struct, frozen=True):
    """The columns of an attempt that say how it ended."""

    attempt_index: int
    terminal_at_ms: int | None
    outcome: str | None
    failure_reason: str | None


def closure(execution: StreamExecution, attempt: AttemptEnd) -> tuple[int, str] | None:
    """When and why a stream was closed. None while it is open, also in a suspension or a delay."""
    if attempt.terminal_at_ms is not None:
        reason = _REASONS.get(attempt.outcome or "", "attempt_failure")
        if (attempt.outcome, attempt.failure_reason) in _TIMED_OUT:
            reason = "suspension_timeout"
        return attempt.terminal_at_ms, reason
    cause = execution.interrupt_cause
    if (
        execution.attempt_index == attempt.attempt_index
        and execution.ownership_state != "leased"
        and cause in LEASE_LOST_CAUSES
    ):
        return execution.lease_expired_at or execution.last_transition_at, cause
    return None
