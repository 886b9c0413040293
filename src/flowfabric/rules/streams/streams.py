"""Output streams: what an append changes, how much of a stream is kept, and when it is over.

An append is decided from the stream's own row and committed while the execution's row says that the lease still holds; it writes
nothing there. Whether a stream is closed is read off the attempt, so no end of an attempt has to know of streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from flowfabric.codec.frame_id import frame_id
from flowfabric.errors import Contention, ContentionKind, EngineError, StateError, StateKind
from flowfabric.ids import ExecutionId
from flowfabric.model.lease import HandleFields
from flowfabric.model.state import ENDED_PHASES
from flowfabric.model.stream import (
    DURABLE_SLACK,
    PATCH_KIND,
    SUMMARY_CAP,
    SUMMARY_SLACK,
    AppendOutcome,
    BestEffortLive,
    Durable,
    DurableSummary,
    Frame,
    StreamMeta,
)
from flowfabric.plan import (
    Add,
    Arg,
    Cond,
    Delete,
    Form,
    Insert,
    InsertEach,
    Item,
    Now,
    Plan,
    Present,
    Update,
    Upsert,
    Wake,
)
from flowfabric.rules.decision import Snapshot
from flowfabric.rules.fence import check_handle
from flowfabric.rules.fragments import EXEC, KEY, LIVE_LEASE
from flowfabric.rules.streams.ephemeral_frames import kept, next_rate, sanitised
from flowfabric.rules.streams.frames import decode_fields, encode_fields, fields_of, mint
from flowfabric.rules.streams.merge_patch import (
    check_document_size,
    document_bytes,
    merge,
    parse_document,
    parse_patch,
)

MAX_AT_HAND = 4_096
"""A longer document is read again for the next patch: thousands of streams may be at hand at once."""
META, FRAME, SUMMARY = "ff_stream_meta", "ff_stream_frame", "ff_stream_summary"

_STREAM = (*KEY, Cond("attempt_index", "=", Arg("attempt_index")))
_OF_STREAM: dict[str, Any] = {
    name: Arg(name) for name in ("partition_key", "execution_id", "attempt_index")
}
_HOLDS = Present(EXEC, LIVE_LEASE)
_ALWAYS = ("frame_count", "total_bytes", "last_ts_ms", "last_seq", "durable_count")
_COUNTED = (
    *_ALWAYS,
    "has_durable_frame",
    "durable_trimmed",
    "summary_count",
    "summary_trimmed",
    "live_count",
    "live_trimmed",
    "ema_rate_hz",
    "last_append_ts_ms",
    "maxlen_applied_last",
)
_COUNTS: dict[str, Any] = {name: Arg(name) for name in _COUNTED}
_OPEN = Insert(META, {**_OF_STREAM, "created_at_ms": Now(), **_COUNTS, "version": 1}, (_HOLDS,))
_AT_VERSION = (*_STREAM, Cond("version", "=", Arg("version")), _HOLDS)
_GO_ON = Update(META, _AT_VERSION, {**_COUNTS, "version": Add(1)})
_PLAINLY = Update(
    META,
    _AT_VERSION,
    {**{name: Arg(name) for name in _ALWAYS}, "has_durable_frame": 1, "version": Add(1)},
)
_FRAMES = InsertEach(
    FRAME,
    {
        **_OF_STREAM,
        "ts_ms": Item("ts_ms"),
        "seq": Item("seq"),
        "mode": Item("mode"),
        "number": Item("number"),
        "mode_number": Item("mode_number"),
        "client_seq": Item("client_seq"),
        "expires_at_ms": Item("expires_at_ms"),
        "created_at_ms": Now(),
        "fields": Item("fields"),
    },
    Arg("frames"),
)
_SUMMED = Upsert(
    SUMMARY,
    {
        **_OF_STREAM,
        "document_json": Arg("document"),
        "version": Arg("summary_version"),
        "patch_kind": PATCH_KIND,
        "last_updated_ms": Now(),
        "first_applied_ms": Now(),
    },
    {"document_json": Arg("document"), "version": Arg("summary_version"), "last_updated_ms": Now()},
)


def _trim(mode: str, *more: Cond) -> Delete:
    return Delete(
        FRAME,
        (*_STREAM, Cond("mode", "=", mode), Cond("mode_number", "<=", Arg(f"trim_{mode}")), *more),
    )


_PASSING = Cond("mode", "!=", "durable")
"""Says no more than the mode itself, but SQLite takes an index of some rows only for a statement that repeats which."""
_TRIMS = (
    _trim("durable", Cond("ts_ms", "<=", Arg("trim_ts_ms"))),
    _trim("summary", _PASSING),
    _trim("best_effort", _PASSING),
)
_TOLD = Wake("frames", Arg("execution_id"))

PLAIN = Form("stream_append", _PLAINLY, _FRAMES, _TOLD)
"""What nearly every append is: durable frames, and nothing else to see to."""

FORMS: dict[tuple[bool, bool, bool], Form] = {
    (opens, sums, trims): Form(
        f"stream_{'open' if opens else 'append'}{'_summary' if sums else ''}{'_trim' if trims else ''}"
        + ("" if opens or sums or trims else "_live"),
        _OPEN if opens else _GO_ON,
        _FRAMES,
        *([_SUMMED] if sums else []),
        *(_TRIMS if trims else []),
        _TOLD,
    )
    for opens, sums, trims in product((True, False), repeat=3)
    if not (opens and trims)
}
"""By whether the stream begins, whether its document changes, and whether old frames go."""

FORGET_FRAME = Form(
    "stream_forget_frame",
    Delete(
        FRAME,
        (
            *_STREAM,
            Cond("ts_ms", "=", Arg("ts_ms")),
            Cond("seq", "=", Arg("seq")),
            Cond("expires_at_ms", "<=", Arg("now")),
        ),
    ),
)


class Summary(Struct, frozen=True):
    """The document as it is, and how many patches made it."""

    document: dict[str, Any]
    version: int


class Stream(Struct, frozen=True):
    """A stream as an append finds it: its row, if it has begun, and its document, if a patch was read or written here."""

    meta: StreamMeta | None
    summary: Summary | None
    cap: int


class Bound(NamedTuple):
    """The last of the durable frames that are to go."""

    ts_ms: int
    mode_number: int


class Appended(NamedTuple):
    plan: Plan
    stream: Stream
    outcomes: list[AppendOutcome]


def overdue(stream: Stream) -> int:
    """How many durable frames are to go first: somebody has to look up which."""
    meta = stream.meta
    over = 0 if meta is None else meta.durable_count - meta.durable_trimmed - stream.cap
    return over if over > DURABLE_SLACK else 0


def append(
    stream: Stream,
    handle: HandleFields,
    frames: Sequence[Frame],
    now: int,
    bound: Bound | None = None,
) -> Appended:
    """All of them or none, under the lease of the handle. A bad patch is the caller's error."""
    if (
        bound is None
        and stream.meta is not None
        and all(type(frame.mode) is Durable for frame in frames)
    ):
        return _append_plainly(stream, stream.meta, handle, frames, now)
    meta = stream.meta or new_meta(handle.execution_id, handle.attempt_index, now)
    draft = _Draft(stream, meta, now)
    idents = mint(
        None if stream.meta is None else (meta.last_ts_ms, meta.last_seq), now, len(frames)
    )
    versions = [draft.add(frame, ident) for frame, ident in zip(frames, idents, strict=True)]
    trims = draft.trims(bound)
    sums = draft.summary is not stream.summary
    args = {**_arguments(handle, meta), "frames": draft.kept(trims), **draft.counts}
    known = draft.summary
    if sums:
        assert known is not None
        args |= {"document": _document(known), "summary_version": known.version}
        known = known if len(args["document"]) <= MAX_AT_HAND else None
    if trims:
        args |= {f"trim_{mode}": last for mode, last in trims.items()}
        args["trim_ts_ms"] = 0 if bound is None else bound.ts_ms
    opens = stream.meta is None
    plan = FORMS[opens, sums, bool(trims) and not opens].given(args)
    after = Stream(replace(meta, version=meta.version + 1, **draft.counts), known, stream.cap)
    return Appended(plan, after, _outcomes(handle, meta, idents, versions))


def _append_plainly(
    stream: Stream, meta: StreamMeta, handle: HandleFields, frames: Sequence[Frame], now: int
) -> Appended:
    idents = mint((meta.last_ts_ms, meta.last_seq), now, len(frames))
    count, number, size = meta.frame_count, meta.durable_count, meta.total_bytes
    items = []
    for frame, (ts_ms, seq) in zip(frames, idents, strict=True):
        count, number, size = count + 1, number + 1, size + len(frame.bytes)
        items.append(
            (
                ts_ms,
                seq,
                "durable",
                count,
                number,
                frame.seq,
                None,
                encode_fields(fields_of(frame, ts_ms, None)),
            )
        )
    ts_ms, seq = idents[-1]
    counts = {
        "frame_count": count,
        "total_bytes": size,
        "last_ts_ms": ts_ms,
        "last_seq": seq,
        "durable_count": number,
    }
    plan = PLAIN.given({**_arguments(handle, meta), "frames": items, **counts})
    after = Stream(
        replace(meta, version=meta.version + 1, has_durable_frame=1, **counts),
        stream.summary,
        stream.cap,
    )
    return Appended(plan, after, _outcomes(handle, meta, idents, [None] * len(idents)))


def _arguments(handle: HandleFields, meta: StreamMeta) -> dict[str, Any]:
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
    meta: StreamMeta,
    idents: Sequence[tuple[int, int]],
    versions: Sequence[int | None],
) -> list[AppendOutcome]:
    name = stream_id(handle.execution_id, meta.attempt_index)
    return [
        AppendOutcome(name, f"{ts_ms}-{seq}", count, version)
        for count, ((ts_ms, seq), version) in enumerate(
            zip(idents, versions, strict=True), meta.frame_count + 1
        )
    ]


class _Draft:
    """A stream being changed, frame by frame."""

    def __init__(self, stream: Stream, meta: StreamMeta, now: int) -> None:
        self.now = now
        self.counts: dict[str, Any] = {name: getattr(meta, name) for name in _COUNTED}
        self.summary = stream.summary
        self.items: list[tuple[Any, ...]] = []

    def add(self, frame: Frame, ident: tuple[int, int]) -> int | None:
        """The version of the document, where it has one."""
        counts, mode = self.counts, frame.mode
        version = expires = None
        match mode:
            case Durable():
                counts["durable_count"] = number = counts["durable_count"] + 1
                counts["has_durable_frame"] = 1
            case DurableSummary():
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

    def _patch(self, frame: Frame) -> int:
        before = self.summary or Summary({}, 0)
        self.summary = Summary(merge(before.document, parse_patch(frame.bytes)), before.version + 1)
        return self.summary.version

    def _live(self, mode: BestEffortLive) -> int:
        """How much is kept follows the rate at which live frames come."""
        counts, knobs = self.counts, sanitised(mode)
        rate = next_rate(counts["ema_rate_hz"], counts["last_append_ts_ms"], self.now, knobs)
        counts["ema_rate_hz"], counts["last_append_ts_ms"] = rate, self.now
        counts["maxlen_applied_last"] = kept(rate, knobs)
        return self.now + 2 * knobs.ttl_ms

    def trims(self, bound: Bound | None) -> dict[str, int]:
        """Per mode, the last frame that goes, when any does."""
        found = {
            "durable": 0 if bound is None else bound.mode_number,
            "summary": self._over("summary", SUMMARY_CAP, SUMMARY_SLACK),
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

    def kept(self, trims: dict[str, int]) -> list[tuple[Any, ...]]:
        """What would go at once is not even written."""
        return [item for item in self.items if item[4] > trims[item[2]]] if trims else self.items


def _document(summary: Summary) -> str:
    text = document_bytes(summary.document)
    check_document_size(text)
    return text.decode()


def stored_summary(document: str, version: int) -> Summary:
    return Summary(parse_document(document.encode()), version)


def written(handle: HandleFields, ts_ms: int, seq: int, number: int, fields: str) -> AppendOutcome:
    """The outcome of an append that went through before."""
    version = decode_fields(fields).get("summary_version")
    name = stream_id(handle.execution_id, handle.attempt_index)
    return AppendOutcome(
        name, frame_id(ts_ms, seq), number, None if version is None else int(version)
    )


def new_meta(execution: ExecutionId, attempt_index: int, now: int) -> StreamMeta:
    return StreamMeta(execution.partition_index, execution.uuid, attempt_index, now)


def stream_id(execution: ExecutionId, attempt_index: int) -> str:
    return f"{execution}:{attempt_index}"


def why_refused(snapshot: Snapshot, handle: HandleFields) -> EngineError | None:
    """The exact error, or None when the lease holds and the stream itself had moved."""
    refused = check_handle(snapshot, handle, marks=False)
    if refused is None:
        return None
    error = refused.error
    if isinstance(error, Contention) and error.kind is ContentionKind.EXECUTION_NOT_ACTIVE:
        return StateError(StateKind.STREAM_CLOSED)
    return error


# ---- closing

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
"""The words of the timeout itself: the reason somebody gives for a failure may begin like them."""

TAKEN_BACK = ("lease_expired", "lease_revoked")
"""Ends that are none when the same attempt goes on."""


class Standing(Struct, frozen=True):
    """What of an execution says whether a stream goes on, column by column."""

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
    """What of an attempt says how it ended, column by column."""

    attempt_index: int
    terminal_at_ms: int | None
    outcome: str | None
    failure_reason: str | None


def closure(execution: Standing, attempt: AttemptEnd) -> tuple[int, str] | None:
    """When and why the stream of an attempt ended; None while it may go on, also through a suspension or a delay."""
    if attempt.terminal_at_ms is not None:
        timed_out = (attempt.outcome, attempt.failure_reason) in _TIMED_OUT
        reason = (
            "suspension_timeout"
            if timed_out
            else _REASONS.get(attempt.outcome or "", "attempt_failure")
        )
        return attempt.terminal_at_ms, reason
    cause = execution.interrupt_cause
    if (
        execution.attempt_index == attempt.attempt_index
        and execution.ownership_state != "leased"
        and cause in TAKEN_BACK
    ):
        return execution.lease_expired_at or execution.last_transition_at, cause
    return None
