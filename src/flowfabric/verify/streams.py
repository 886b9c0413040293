"""The checks of output streams: frames in order, counted, kept without holes, and none from after the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from flowfabric.model.attempt import Attempt
from flowfabric.model.stream import StreamMeta
from flowfabric.verify.snapshot import FrameRow, Snapshot, StreamKey
from flowfabric.verify.violation import Check, Violation, about

DURABLE, SUMMARY, LIVE = "durable", "summary", "best_effort"
CLOCK_SLACK_MS = 1_000
"""Processes on one database may differ a little in what time it is."""
_TIMED_BY_THE_STORE = ("success", "retry", "failed", "interrupted_reclaimed")
_TIMED_BEFORE = ("suspension_timeout", "budget_exceeded")
"""These ends carry the time at which they were decided, which is before they were written. So do cancels and deadlines."""


def frames_are_in_order(world: Snapshot) -> Iterator[Violation]:
    """I10: the ids of a stream rise as its frames were written, and no place is taken twice."""
    for key, frames in world.frames.items():
        for early, late in pairwise(frames):
            if early.number == late.number:
                yield Violation("I10", _about(key), f"two frames have number {early.number}")
            elif early.place >= late.place:
                yield Violation(
                    "I10",
                    _about(key),
                    f"frame {late.number} has id {late.id}, the one before it {early.id}",
                )
        for (mode, number), times in Counter(
            (frame.mode, frame.mode_number) for frame in frames
        ).items():
            if times > 1:
                yield Violation(
                    "I10", _about(key), f"{times} {mode} frames have number {number} of their mode"
                )


def counts_tell_the_frames(world: Snapshot) -> Iterator[Violation]:
    """I11: what a stream says of itself (how many frames, which was the last) is what its frames say."""
    for key, meta in world.streams.items():
        frames = world.frames.get(key, [])
        if (
            meta.frame_count != meta.durable_count + meta.summary_count + meta.live_count
            or meta.frame_count < 1
        ):
            yield Violation(
                "I11", _about(key), f"{meta.frame_count} frames, which is not the sum of its modes"
            )
        if bool(meta.has_durable_frame) != bool(meta.durable_count + meta.summary_count):
            yield Violation("I11", _about(key), f"has_durable_frame is {meta.has_durable_frame}")
        last = (meta.last_ts_ms, meta.last_seq)
        for frame in frames[-1:]:
            newest = frame.number == meta.frame_count
            if frame.number > meta.frame_count or (
                frame.place != last if newest else frame.place >= last
            ):
                said = f"{meta.frame_count} frames up to {meta.last_ts_ms}-{meta.last_seq}"
                yield Violation(
                    "I11",
                    _about(key),
                    f"{said}, but its last frame is {frame.number} with id {frame.id}",
                )


def kept_without_holes(world: Snapshot) -> Iterator[Violation]:
    """I11: of the frames that are kept none is missing between the last one trimmed and the newest."""
    for key, meta in world.streams.items():
        there = _numbers(world.frames.get(key, []))
        for mode, trimmed, count in _bounds(meta):
            found = there.get(mode, set())
            wanted = set(range(trimmed + 1, count + 1))
            if found - wanted:
                yield Violation(
                    "I11",
                    _about(key),
                    f"{mode} frame {min(found - wanted)} outside of {trimmed + 1} to {count}",
                )
            if mode != LIVE and wanted - found:
                yield Violation(
                    "I11",
                    _about(key),
                    f"{mode} frame {min(wanted - found)} is gone, trimmed were {trimmed}",
                )


def summaries_tell_their_patches(world: Snapshot) -> Iterator[Violation]:
    """I11: a document's version is the number of its patches, and it can be read."""
    for key in world.streams.keys() | world.summaries.keys():
        meta, row = world.streams.get(key), world.summaries.get(key)
        patches = 0 if meta is None else meta.summary_count
        document, version = ("{}", 0) if row is None else row
        if version != patches:
            yield Violation(
                "I11", _about(key), f"{patches} patches made a document of version {version}"
            )
        if not _is_object(document):
            yield Violation("I11", _about(key), "its document is no JSON object")


def nothing_is_written_after_the_end(world: Snapshot) -> Iterator[Violation]:
    """I5: no frame is from after the end of its attempt."""
    for key, frames in world.frames.items():
        attempt = _attempt(world, key)
        ended = None if attempt is None else _ended_at(attempt)
        latest = max((frame.created_at_ms for frame in frames), default=0)
        if ended is not None and latest > ended + CLOCK_SLACK_MS:
            yield Violation(
                "I5",
                _about(key),
                f"a frame was written at {latest}, the attempt had ended at {ended}",
            )


def callers_numbers_are_used_once(world: Snapshot) -> Iterator[Violation]:
    """I15: a frame sent again under the caller's own number is not written again."""
    for key, frames in world.frames.items():
        for seq, times in Counter(
            frame.client_seq for frame in frames if frame.client_seq is not None
        ).items():
            if times > 1:
                yield Violation(
                    "I15", _about(key), f"{times} frames have the caller's number {seq}"
                )


def streams_belong_to_attempts(world: Snapshot) -> Iterator[Violation]:
    """I16: no frame and no document without its stream, no stream without its attempt."""
    for key in world.streams:
        if _attempt(world, key) is None:
            yield Violation("I16", _about(key), "stream without an attempt")
    for what, keys in (("frame", world.frames.keys()), ("document", world.summaries.keys())):
        for key in keys - world.streams.keys():
            yield Violation("I16", _about(key), f"{what} without a stream")


def _about(key: StreamKey) -> str:
    return f"{about(key[:2])} attempt {key[2]}"


def _attempt(world: Snapshot, key: StreamKey) -> Attempt | None:
    return next((a for a in world.attempts.get(key[:2], []) if a.attempt_index == key[2]), None)


def _ended_at(attempt: Attempt) -> int | None:
    if attempt.outcome not in _TIMED_BY_THE_STORE or (attempt.failure_reason or "").startswith(
        _TIMED_BEFORE
    ):
        return None
    return attempt.terminal_at_ms


def _numbers(frames: list[FrameRow]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for frame in frames:
        found.setdefault(frame.mode, set()).add(frame.mode_number)
    return found


def _bounds(meta: StreamMeta) -> tuple[tuple[str, int, int], ...]:
    return (
        (DURABLE, meta.durable_trimmed, meta.durable_count),
        (SUMMARY, meta.summary_trimmed, meta.summary_count),
        (LIVE, meta.live_trimmed, meta.live_count),
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


STREAM_CHECKS: dict[str, Check] = {
    "I10 frames": frames_are_in_order,
    "I11 counts": counts_tell_the_frames,
    "I11 kept": kept_without_holes,
    "I11 documents": summaries_tell_their_patches,
    "I5 streams": nothing_is_written_after_the_end,
    "I15 frames": callers_numbers_are_used_once,
    "I16 streams": streams_belong_to_attempts,
}
