"""Forms that append frames to a stream, and that forget expired ones."""

from __future__ import annotations

from itertools import product

from flowfabric.model.stream import PATCH_KIND
from flowfabric.plan import (
    Add,
    Arg,
    Cond,
    Delete,
    Form,
    Guard,
    Insert,
    InsertEach,
    Item,
    Now,
    Present,
    Update,
    Upsert,
    Wake,
)
from flowfabric.rules.columns import by_args, from_args
from flowfabric.rules.fragments import EXEC, LIVE_LEASE

META, FRAME, SUMMARY = "ff_stream_meta", "ff_stream_frame", "ff_stream_summary"

_KEY = ("partition_key", "execution_id", "attempt_index")
STREAM = by_args(*_KEY)
_LEASE_IS_HELD = Present(EXEC, LIVE_LEASE)
_DURABLE_COUNTS = ("frame_count", "total_bytes", "last_ts_ms", "last_seq", "durable_count")
COUNTS = (
    *_DURABLE_COUNTS,
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
_OPEN = Insert(
    META,
    {**from_args(*_KEY), "created_at_ms": Now(), **from_args(*COUNTS), "version": 1},
    (_LEASE_IS_HELD,),
)
_UNCHANGED: tuple[Guard, ...] = (*STREAM, Cond("version", "=", Arg("version")), _LEASE_IS_HELD)
_CONTINUE = Update(META, _UNCHANGED, {**from_args(*COUNTS), "version": Add(1)})
_FRAMES = InsertEach(
    FRAME,
    {
        **from_args(*_KEY),
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
        **from_args(*_KEY),
        "document_json": Arg("document"),
        "version": Arg("summary_version"),
        "patch_kind": PATCH_KIND,
        "last_updated_ms": Now(),
        "first_applied_ms": Now(),
    },
    {"document_json": Arg("document"), "version": Arg("summary_version"), "last_updated_ms": Now()},
)


def _trim(mode: str, *more: Cond) -> Delete:
    last = Cond("mode_number", "<=", Arg(f"trim_{mode}"))
    return Delete(FRAME, (*STREAM, Cond("mode", "=", mode), last, *more))


# Implied by the mode, but SQLite uses a partial index only for a statement that repeats its
# condition.
_NOT_DURABLE = Cond("mode", "!=", "durable")
_TRIMS = (
    _trim("durable", Cond("ts_ms", "<=", Arg("trim_ts_ms"))),
    _trim("summary", _NOT_DURABLE),
    _trim("best_effort", _NOT_DURABLE),
)
_NOTIFY = Wake("frames", Arg("execution_id"))

PLAIN = Form(
    "stream_append",
    Update(
        META,
        _UNCHANGED,
        {**from_args(*_DURABLE_COUNTS), "has_durable_frame": 1, "version": Add(1)},
    ),
    _FRAMES,
    _NOTIFY,
)
"""Appends durable frames to an existing stream, which is the common case."""


def _append_form(*, opens: bool, sums: bool, trims: bool) -> Form:
    suffix = ("_summary" if sums else "") + ("_trim" if trims else "")
    name = f"stream_open{suffix}" if opens else f"stream_append{suffix or '_live'}"
    return Form(
        name,
        _OPEN if opens else _CONTINUE,
        _FRAMES,
        *([_SUMMED] if sums else []),
        *(_TRIMS if trims else []),
        _NOTIFY,
    )


FORMS: dict[tuple[bool, bool, bool], Form] = {
    (opens, sums, trims): _append_form(opens=opens, sums=sums, trims=trims)
    for opens, sums, trims in product((True, False), repeat=3)
    if not (opens and trims)
}
"""By whether the stream begins, its document changes, and old frames are deleted."""

FORGET_FRAME = Form(
    "stream_forget_frame",
    Delete(FRAME, (*by_args(*_KEY, "ts_ms", "seq"), Cond("expires_at_ms", "<=", Arg("now")))),
)
