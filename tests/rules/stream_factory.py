"""Streams and frames for rule tests, and what an append has stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowfabric.model.stream import (
    BestEffortLive,
    Durable,
    DurableSummary,
    Frame,
    FrameKind,
    FrameMode,
    StreamMeta,
)
from flowfabric.plan import Plan
from flowfabric.rules.streams import streams
from flowfabric.rules.streams.streams import Appended, Bound, Stream, Summary

from .factory import IDENT, NOW, execution, handle

HELD = handle(execution("RUNNING"))
OF_STREAM = (IDENT.partition_index, IDENT.uuid, 0)
CAP = 10
LIVE = BestEffortLive(5_000)
SMALL = BestEffortLive(5_000, 2, 4)
PATCH = DurableSummary()


def frame(data: bytes = b"x", mode: FrameMode | None = None, **said: Any) -> Frame:
    return Frame(data, FrameKind.Event, mode=mode or Durable(), **said)


def patch(data: bytes = b'{"a":1}', **said: Any) -> Frame:
    return frame(data, PATCH, **said)


def live(mode: BestEffortLive = LIVE) -> Frame:
    return frame(b"tick", mode)


def new(cap: int = CAP) -> Stream:
    return Stream(None, Summary({}, 0), cap)


def begun(summary: Summary | None = Summary({}, 0), cap: int = CAP, **said: Any) -> Stream:  # noqa: B008
    known: dict[str, Any] = {
        "frame_count": 1,
        "total_bytes": 1,
        "last_ts_ms": NOW,
        "durable_count": 1,
        "has_durable_frame": 1,
    }
    return Stream(StreamMeta(*OF_STREAM, NOW, version=1, **{**known, **said}), summary, cap)


def appended(
    stream: Stream, *frames: Frame, now: int = NOW, bound: Bound | None = None
) -> Appended:
    return streams.append(stream, HELD, frames, now, bound)


def said(plan: Plan) -> dict[str, Any]:
    return dict(zip(plan.form.args, plan.values, strict=True))


def rows(made: Appended) -> list[dict[str, Any]]:
    """The written items."""
    names = (
        "ts_ms",
        "seq",
        "mode",
        "number",
        "mode_number",
        "client_seq",
        "expires_at_ms",
        "fields",
    )
    return [dict(zip(names, item, strict=True)) for item in said(made.plan)["frames"]]


def meta_of(made: Appended) -> StreamMeta:
    assert made.stream.meta is not None
    return made.stream.meta


def grown(stream: Stream, several: Sequence[Frame], size: int = 1) -> tuple[Stream, list[Appended]]:
    """A stream after several appends of so many frames each."""
    made = []
    for at in range(0, len(several), size):
        made.append(appended(stream, *several[at : at + size]))
        stream = made[-1].stream
    return stream, made
