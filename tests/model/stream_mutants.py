"""Planted bugs of output streams, for the machine of streams to notice."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from itertools import count
from typing import Any

from msgspec import structs

from flowfabric.codec import frame_id
from flowfabric.engine.events import long_poll
from flowfabric.engine.streams import stream_writer
from flowfabric.engine.streams import streams as reading
from flowfabric.engine.streams.stream_writer import StreamWriter
from flowfabric.engine.streams.streams import Page
from flowfabric.plan import Delete, Form, Insert, Present, Update
from flowfabric.rules.streams import ephemeral_frames, merge_patch, streams
from flowfabric.rules.streams.streams import _Draft

from .mutants import Patch, Plant, with_steps

STREAM_MUTANTS: dict[str, Plant] = {}


def mutant(plant: Plant) -> Plant:
    STREAM_MUTANTS[plant.__name__] = plant
    return plant


def on_forms(patch: Patch, change: Any) -> None:
    """The same change to every form an append can take."""
    patch.setattr(streams, "PLAIN", change(streams.PLAIN))
    patch.setattr(streams, "FORMS", {key: change(form) for key, form in streams.FORMS.items()})


# ---- the fence


def asking(patch: Patch, change: Any) -> None:
    """The guard of an append on the execution is changed."""

    def changed(form: Form) -> Form:
        head: Any = form.steps[0]
        where = tuple(
            other for g in head.where for other in (change(g) if isinstance(g, Present) else (g,))
        )
        made = (
            Insert(head.table, head.row, where)
            if isinstance(head, Insert)
            else Update(head.table, where, head.set)
        )
        return with_steps(form, (made, *form.steps[1:]))

    on_forms(patch, changed)


def not_comparing(patch: Patch, *columns: str) -> None:
    def change(guard: Present) -> tuple[Present, ...]:
        return (Present(guard.table, tuple(c for c in guard.where if c.column not in columns)),)

    asking(patch, change)


@mutant
def append_without_a_lease(patch: Patch) -> None:
    asking(patch, lambda guard: ())


@mutant
def append_after_the_lease_ran_out(patch: Patch) -> None:
    not_comparing(patch, "lease_expires_at_ms")


@mutant
def append_by_whoever_held_it_once(patch: Patch) -> None:
    not_comparing(
        patch, "lease_epoch", "current_lease_id", "current_worker_instance_id", "attempt_index"
    )


@mutant
def closed_is_called_not_active(patch: Patch) -> None:
    honest = streams.check_handle

    def why_refused(snapshot: Any, handle: Any) -> Any:
        refused = honest(snapshot, handle, marks=False)
        return None if refused is None else refused.error

    patch.setattr(streams, "refusal", why_refused)


# ---- ids, counts and numbers


@mutant
def ids_come_from_the_wall_clock_alone(patch: Patch) -> None:
    seqs = count()
    patch.setattr(streams, "mint", lambda last, now, n: [(now, next(seqs)) for _ in range(n)])


@mutant
def same_millisecond_begins_anew_after_the_clock_was_set_back(patch: Patch) -> None:
    honest = streams.mint

    def mint(last: Any, now: int, n: int) -> Any:
        return honest(None if last is not None and last[0] > now else last, now, n)

    patch.setattr(streams, "mint", mint)


@mutant
def count_is_of_what_is_kept(patch: Patch) -> None:
    honest = streams._outcomes

    def outcomes(handle: Any, meta: Any, idents: Any, versions: Any) -> Any:
        gone = meta.durable_trimmed + meta.summary_trimmed + meta.live_trimmed
        return honest(
            handle, structs.replace(meta, frame_count=meta.frame_count - gone), idents, versions
        )

    patch.setattr(streams, "_outcomes", outcomes)


@mutant
def bytes_counted_once_per_batch(patch: Patch) -> None:
    honest = _Draft.add

    def add(self: Any, frame: Any, ident: Any) -> Any:
        before = self.counts["total_bytes"]
        found = honest(self, frame, ident)
        if len(self.items) > 1:
            self.counts["total_bytes"] = before
        return found

    patch.setattr(_Draft, "add", add)


@mutant
def callers_number_ignored(patch: Patch) -> None:
    async def read(self: Any, target: Any, append: Any) -> Any:
        stream, _ = await honest(self, target, append)
        return stream, {}

    honest = StreamWriter._read
    patch.setattr(StreamWriter, "_read", read)


@mutant
def callers_number_not_stored(patch: Patch) -> None:
    honest = streams._append_durable

    def append(stream: Any, meta: Any, handle: Any, frames: Sequence[Any], now: int) -> Any:
        return honest(
            stream, meta, handle, [structs.replace(frame, seq=None) for frame in frames], now
        )

    patch.setattr(streams, "_append_durable", append)


@mutant
def what_is_known_is_not_asked_again(patch: Patch) -> None:
    """A frame with a number is written from the cached state."""
    patch.setattr(
        stream_writer, "_needs_read", lambda stream, frames: bool(streams.frames_over_cap(stream))
    )


# ---- what is kept


@mutant
def live_trim_takes_durable_frames(patch: Patch) -> None:
    def change(form: Form) -> Form:
        def spread(step: Any) -> Any:
            if not isinstance(step, Delete) or not any(
                getattr(c, "value", None) == "best_effort" for c in step.where
            ):
                return step
            return Delete(
                step.table, tuple(c for c in step.where if getattr(c, "column", None) != "mode")
            )

        return with_steps(form, tuple(spread(step) for step in form.steps))

    on_forms(patch, change)


@mutant
def cut_one_too_far(patch: Patch) -> None:
    honest = streams.frames_over_cap
    patch.setattr(streams, "frames_over_cap", lambda stream: honest(stream) + (honest(stream) > 0))


@mutant
def never_cut(patch: Patch) -> None:
    patch.setattr(streams, "frames_over_cap", lambda stream: 0)


@mutant
def patches_cut_without_slack(patch: Patch) -> None:
    honest = _Draft._over
    patch.setattr(_Draft, "_over", lambda self, mode, cap, slack: honest(self, mode, cap, 0))


@mutant
def live_frames_kept_by_the_rate_of_the_last_two(patch: Patch) -> None:
    honest = ephemeral_frames.next_rate
    patch.setattr(
        streams,
        "next_rate",
        lambda rate, last, now, knobs: honest(rate, last, now, knobs._replace(alpha=1.0)),
    )


@mutant
def live_ceiling_ignored(patch: Patch) -> None:
    honest = ephemeral_frames.kept_frames
    patch.setattr(
        streams, "kept_frames", lambda rate, knobs: honest(rate, knobs._replace(ceiling=99))
    )


@mutant
def live_frames_expire_after_one_lifetime(patch: Patch) -> None:
    honest = _Draft._live
    patch.setattr(_Draft, "_live", lambda self, mode: honest(self, mode) - mode.ttl_ms)


# ---- documents


@mutant
def summary_version_does_not_rise(patch: Patch) -> None:
    honest = _Draft._patch

    def patched(self: Any, frame: Any) -> int:
        version = honest(self, frame)
        self.summary = structs.replace(self.summary, version=1)
        return min(version, 1)

    patch.setattr(_Draft, "_patch", patched)


@mutant
def sentinel_is_shown(patch: Patch) -> None:
    patch.setattr(merge_patch, "_with_nulls", lambda value: value)


@mutant
def empty_object_replaces(patch: Patch) -> None:
    honest = merge_patch._merged
    patch.setattr(
        merge_patch, "_merged", lambda target, patched: honest(target, patched) if patched else {}
    )


@mutant
def null_is_stored(patch: Patch) -> None:
    def merged(target: Any, patched: Any) -> Any:
        made = dict(target) if isinstance(target, dict) else {}
        for key, value in patched.items():
            made[key] = merged(made.get(key), value) if isinstance(value, dict) else value
        return made

    patch.setattr(merge_patch, "_merged", merged)


# ---- reading and following


@mutant
def a_tail_begins_with_its_cursor(patch: Patch) -> None:
    honest = reading.frame_id.after

    def after(text: Any, field: str = "after") -> Any:
        ts_ms, seq = honest(text, field)
        return (ts_ms, seq - 1) if seq else (ts_ms, seq)

    patch.setattr(frame_id, "after", after)


@mutant
def last_of_a_range_left_out(patch: Patch) -> None:
    honest = frame_id.upper_bound

    def upper(text: Any, field: str = "to") -> Any:
        found = honest(text, field)
        return found if found is None or not found[1] else (found[0], found[1] - 1)

    patch.setattr(frame_id, "upper_bound", upper)


@mutant
def live_frames_shown_to_who_does_not_want_them(patch: Patch) -> None:
    for place in (reading, long_poll):
        patch.setattr(place, "visible", lambda visibility: "frames")


@mutant
def the_end_is_never_told(patch: Patch) -> None:
    patch.setattr(streams, "closure", lambda execution, attempt: None)


@mutant
def a_lost_lease_closes_for_good(patch: Patch) -> None:
    patch.setattr(Page, "is_over", property(lambda self: self.closed is not None))


@mutant
def follower_ends_with_its_attempt(patch: Patch) -> None:
    honest = long_poll.LongPoll.follow_stream

    def follow(self: Any, *said: Any, later_attempts: bool = True) -> Any:
        return honest(self, *said, later_attempts=False)

    patch.setattr(long_poll.LongPoll, "follow_stream", follow)


@mutant
def follower_skips_the_first_frame_of_the_next_attempt(patch: Patch) -> None:
    honest = long_poll.LongPoll.follow_stream

    async def follow(
        self: Any, execution: Any, attempt_index: int = 0, *said: Any, later_attempts: bool = True
    ) -> Any:
        at = attempt_index
        async for index, frame in honest(
            self, execution, attempt_index, *said, later_attempts=later_attempts
        ):
            if index == at:
                yield index, frame
            at = index

    patch.setattr(long_poll.LongPoll, "follow_stream", follow)


@mutant
def follower_keeps_its_cursor_for_the_next_attempt(patch: Patch) -> None:
    honest = reading.Streams.tail

    async def tail(self: Any, key: Any, after: Any, *said: Any) -> Any:
        far = self.__dict__.setdefault("_far", {})
        far[key[:2]] = after = max(after, far.get(key[:2], after))
        return await honest(self, key, after, *said)

    patch.setattr(reading.Streams, "tail", tail)


@mutant
def nobody_is_woken_by_a_frame(patch: Patch) -> None:
    def change(form: Form) -> Form:
        silent = copy.copy(form)
        silent.wakes = ()
        return silent

    on_forms(patch, change)


@mutant
def a_tail_of_what_is_over_waits(patch: Patch) -> None:
    honest = reading.Streams.tail

    async def tail(
        self: Any, key: Any, after: Any, wait_s: float, size: int, index: str, enough: Any
    ) -> Any:
        follows = size == reading.FOLLOWED_PAGE
        return await honest(
            self,
            key,
            after,
            wait_s,
            size,
            index,
            enough if follows else lambda page: not page.has_attempt,
        )

    patch.setattr(reading.Streams, "tail", tail)
