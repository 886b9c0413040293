"""Forms that append frames to a stream, and that delete expired ones."""

from __future__ import annotations

from itertools import product

from flowfabric import plan as p
from flowfabric.model.stream import PATCH_KIND
from flowfabric.rules.columns import by_args, from_args
from flowfabric.rules.fragments import EXEC, LIVE_LEASE

META, FRAME, SUMMARY = "ff_stream_meta", "ff_stream_frame", "ff_stream_summary"

_KEY = ("partition_key", "execution_id", "attempt_index")
STREAM = by_args(*_KEY)
_LEASE_IS_HELD = p.Present(EXEC, LIVE_LEASE)
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
_OPEN = p.Insert(
    META,
    {**from_args(*_KEY), "created_at_ms": p.Now(), **from_args(*COUNTS), "version": 1},
    (_LEASE_IS_HELD,),
)
_UNCHANGED: tuple[p.Guard, ...] = (
    *STREAM,
    p.Cond("version", "=", p.Arg("version")),
    _LEASE_IS_HELD,
)
_CONTINUE = p.Update(META, _UNCHANGED, {**from_args(*COUNTS), "version": p.Add(1)})
_FRAMES = p.InsertEach(
    FRAME,
    {
        **from_args(*_KEY),
        "ts_ms": p.Item("ts_ms"),
        "seq": p.Item("seq"),
        "mode": p.Item("mode"),
        "number": p.Item("number"),
        "mode_number": p.Item("mode_number"),
        "client_seq": p.Item("client_seq"),
        "expires_at_ms": p.Item("expires_at_ms"),
        "created_at_ms": p.Now(),
        "fields": p.Item("fields"),
    },
    p.Arg("frames"),
)
_SUMMED = p.Upsert(
    SUMMARY,
    {
        **from_args(*_KEY),
        "document_json": p.Arg("document"),
        "version": p.Arg("summary_version"),
        "patch_kind": PATCH_KIND,
        "last_updated_ms": p.Now(),
        "first_applied_ms": p.Now(),
    },
    {
        "document_json": p.Arg("document"),
        "version": p.Arg("summary_version"),
        "last_updated_ms": p.Now(),
    },
)


def _trim(mode: str, *more: p.Cond) -> p.Delete:
    last = p.Cond("mode_number", "<=", p.Arg(f"trim_{mode}"))
    return p.Delete(FRAME, (*STREAM, p.Cond("mode", "=", mode), last, *more))


# Implied by the mode, but SQLite uses a partial index only for a statement that repeats its
# condition.
_NOT_DURABLE = p.Cond("mode", "!=", "durable")
_TRIMS = (
    _trim("durable", p.Cond("ts_ms", "<=", p.Arg("trim_ts_ms"))),
    _trim("summary", _NOT_DURABLE),
    _trim("best_effort", _NOT_DURABLE),
)
_NOTIFY = p.Wake("frames", p.Arg("execution_id"))

PLAIN = p.Form(
    "stream_append",
    p.Update(
        META,
        _UNCHANGED,
        {**from_args(*_DURABLE_COUNTS), "has_durable_frame": 1, "version": p.Add(1)},
    ),
    _FRAMES,
    _NOTIFY,
)
"""Appends durable frames to an existing stream, which is the common case."""


def _append_form(*, opens: bool, sums: bool, trims: bool) -> p.Form:
    suffix = ("_summary" if sums else "") + ("_trim" if trims else "")
    name = f"stream_open{suffix}" if opens else f"stream_append{suffix or '_live'}"
    return p.Form(
        name,
        _OPEN if opens else _CONTINUE,
        _FRAMES,
        *([_SUMMED] if sums else []),
        *(_TRIMS if trims else []),
        _NOTIFY,
    )


FORMS: dict[tuple[bool, bool, bool], p.Form] = {
    (opens, sums, trims): _append_form(opens=opens, sums=sums, trims=trims)
    for opens, sums, trims in product((True, False), repeat=3)
    if not (opens and trims)
}
"""By whether the stream begins, its document changes, and old frames are deleted."""

FORGET_FRAME = p.Form(
    "stream_forget_frame",
    p.Delete(FRAME, (*by_args(*_KEY, "ts_ms", "seq"), p.Cond("expires_at_ms", "<=", p.Arg("now")))),
)
