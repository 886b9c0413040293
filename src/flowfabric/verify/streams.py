"""Checks of output streams: order, counts, gaps, and frames after the end."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from flowfabric.model.attempt import Attempt
from flowfabric.model.stream import StreamMeta
from flowfabric.verify.snapshot import Snapshot, StreamKey
from flowfabric.verify.violation import Check, Finding, invariant

DURABLE, SUMMARY, BEST_EFFORT = "durable", "summary", "best_effort"
CLOCK_SLACK_MS = 1_000
"""Tolerated difference between the clocks of processes on one database."""
_TIMED_BY_THE_STORE = ("success", "retry", "failed", "interrupted_reclaimed")
_TIMED_BEFORE = ("suspension_timeout", "budget_exceeded")
"""Ends whose time is that of their decision, which precedes the commit."""


@invariant("I10")
def frames_are_in_order(snapshot: Snapshot) -> Iterator[Finding]:
    """I10: the ids and numbers of a stream's frames are unique and rise."""
    for key, frames in snapshot.frames.items():
        for early, late in pairwise(frames):
            if early.number == late.number:
                yield key, f"two frames have number {early.number}"
            elif early.place >= late.place:
                yield key, f"frame {late.number} has id {late.id}, the one before it {early.id}"
        of_mode = Counter((frame.mode, frame.mode_number) for frame in frames)
        for (mode, number), times in of_mode.items():
            if times > 1:
                yield key, f"{times} {mode} frames have number {number} of their mode"


@invariant("I11")
def counts_match_the_frames(snapshot: Snapshot) -> Iterator[Finding]:
    """I11: the counts and the last id of a stream match its frames."""
    for key, meta in snapshot.streams.items():
        frames = snapshot.frames.get(key, [])
        total = sum(count for _, _, count in _bounds(meta))
        if meta.frame_count != total or total < 1:
            yield key, f"{meta.frame_count} frames, which is not the sum of its modes"
        if bool(meta.has_durable_frame) != bool(meta.durable_count + meta.summary_count):
            yield key, f"has_durable_frame is {meta.has_durable_frame}"
        last = (meta.last_ts_ms, meta.last_seq)
        for frame in frames[-1:]:
            newest = frame.number == meta.frame_count
            wrong = frame.place != last if newest else frame.place >= last
            if wrong or frame.number > meta.frame_count:
                said = f"{meta.frame_count} frames up to {meta.last_ts_ms}-{meta.last_seq}"
                yield key, f"{said}, but its last frame is {frame.number} with id {frame.id}"


@invariant("I11")
def kept_frames_have_no_gap(snapshot: Snapshot) -> Iterator[Finding]:
    """I11: no frame is missing between the last trimmed and the newest."""
    for key, meta in snapshot.streams.items():
        frames = snapshot.frames.get(key, [])
        for mode, trimmed, count in _bounds(meta):
            found = {frame.mode_number for frame in frames if frame.mode == mode}
            wanted = set(range(trimmed + 1, count + 1))
            if found - wanted:
                yield key, f"{mode} frame {min(found - wanted)} outside of {trimmed + 1} to {count}"
            if mode != BEST_EFFORT and wanted - found:
                yield key, f"{mode} frame {min(wanted - found)} is gone, trimmed were {trimmed}"


@invariant("I11")
def documents_match_their_patches(snapshot: Snapshot) -> Iterator[Finding]:
    """I11: the version of a document is the number of its patches, and it is a JSON object."""
    for key in snapshot.streams.keys() | snapshot.summaries.keys():
        meta, row = snapshot.streams.get(key), snapshot.summaries.get(key)
        patches = 0 if meta is None else meta.summary_count
        document, version = ("{}", 0) if row is None else row
        if version != patches:
            yield key, f"{patches} patches made a document of version {version}"
        if not _is_object(document):
            yield key, "its document is not a JSON object"


@invariant("I5")
def nothing_is_written_after_the_end(snapshot: Snapshot) -> Iterator[Finding]:
    """I5: no frame is written after the end of its attempt."""
    for key, frames in snapshot.frames.items():
        attempt = _attempt(snapshot, key)
        ended = None if attempt is None else _ended_at(attempt)
        latest = max((frame.created_at_ms for frame in frames), default=0)
        if ended is not None and latest > ended + CLOCK_SLACK_MS:
            yield key, f"a frame was written at {latest}, the attempt had ended at {ended}"


@invariant("I15")
def client_numbers_are_unique(snapshot: Snapshot) -> Iterator[Finding]:
    """I15: a frame that a client sends again with the same number is stored once."""
    for key, frames in snapshot.frames.items():
        for seq, times in Counter(frame.client_seq for frame in frames).items():
            if seq is not None and times > 1:
                yield key, f"{times} frames have the caller's number {seq}"


@invariant("I16")
def streams_belong_to_attempts(snapshot: Snapshot) -> Iterator[Finding]:
    """I16: no frame or document without a stream, no stream without an attempt."""
    for key in snapshot.streams:
        if _attempt(snapshot, key) is None:
            yield key, "stream without an attempt"
    for what, keys in (("frame", snapshot.frames.keys()), ("document", snapshot.summaries.keys())):
        for key in keys - snapshot.streams.keys():
            yield key, f"{what} without a stream"


def _attempt(snapshot: Snapshot, key: StreamKey) -> Attempt | None:
    return next((a for a in snapshot.attempts.get(key[:2], []) if a.attempt_index == key[2]), None)


def _ended_at(attempt: Attempt) -> int | None:
    before = (attempt.failure_reason or "").startswith(_TIMED_BEFORE)
    return None if before or attempt.outcome not in _TIMED_BY_THE_STORE else attempt.terminal_at_ms


def _bounds(meta: StreamMeta) -> tuple[tuple[str, int, int], ...]:
    return (
        (DURABLE, meta.durable_trimmed, meta.durable_count),
        (SUMMARY, meta.summary_trimmed, meta.summary_count),
        (BEST_EFFORT, meta.live_trimmed, meta.live_count),
    )


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


STREAM_CHECKS: dict[str, Check] = {
    "I10 frames": frames_are_in_order,
    "I11 counts": counts_match_the_frames,
    "I11 kept": kept_frames_have_no_gap,
    "I11 documents": documents_match_their_patches,
    "I5 streams": nothing_is_written_after_the_end,
    "I15 frames": client_numbers_are_unique,
    "I16 streams": streams_belong_to_attempts,
}
