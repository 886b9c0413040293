"""Which frames of a stream are kept."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from flowfabric.model.stream import (
    DURABLE_SLACK,
    SUMMARY_CAP,
    SUMMARY_SLACK,
    BestEffortLive,
)
from flowfabric.rules.streams import streams
from flowfabric.rules.streams.streams import Bound, Stream, Summary

from .factory import NOW
from .stream_factory import (
    CAP,
    SMALL,
    appended,
    begun,
    frame,
    grown,
    live,
    meta_of,
    new,
    patch,
    rows,
    said,
)


@pytest.mark.parametrize(
    ("meta", "over"),
    [
        ({"durable_count": CAP}, 0),
        ({"durable_count": CAP + DURABLE_SLACK}, 0),
        ({"durable_count": CAP + DURABLE_SLACK + 1}, DURABLE_SLACK + 1),
        (
            {"durable_count": 1_000 + CAP + DURABLE_SLACK + 1, "durable_trimmed": 1_000},
            DURABLE_SLACK + 1,
        ),
        ({"durable_count": 5_000, "durable_trimmed": 5_000 - CAP}, 0),
        (
            {
                "durable_count": 0,
                "live_count": 9_999,
                "summary_count": 9_999,
                "frame_count": 19_998,
            },
            0,
        ),
    ],
)
def test_durable_frames_are_overdue_beyond_the_slack(meta: dict[str, int], over: int) -> None:
    assert streams.frames_over_cap(begun(**meta)) == over


def test_nothing_is_overdue_before_the_stream_has_begun() -> None:
    assert streams.frames_over_cap(new(0)) == 0


def test_durable_frames_go_up_to_the_bound() -> None:
    made = appended(begun(durable_count=300, frame_count=300), frame(), bound=Bound(NOW - 5, 290))
    given = said(made.plan)
    assert made.plan.form.name == "stream_append_trim"
    assert (
        given["trim_durable"],
        given["trim_ts_ms"],
        given["trim_summary"],
        given["trim_best_effort"],
    ) == (290, NOW - 5, 0, 0)
    assert (meta_of(made).durable_trimmed, meta_of(made).durable_count) == (290, 301)
    assert streams.frames_over_cap(made.stream) == 0
    assert len(rows(made)) == 1


def test_a_bound_with_a_patch_cuts_and_sums() -> None:
    made = appended(begun(durable_count=300), patch(), bound=Bound(NOW, 290))
    assert made.plan.form.name == "stream_append_summary_trim"
    assert said(made.plan)["trim_durable"] == 290


def test_summary_frames_are_cut_to_the_cap_beyond_the_slack() -> None:
    stream, made = grown(begun(), [patch() for _ in range(SUMMARY_CAP + SUMMARY_SLACK + 1)])
    assert [each.plan.form.name.endswith("_trim") for each in made] == [False] * (
        SUMMARY_CAP + SUMMARY_SLACK
    ) + [True]
    last = said(made[-1].plan)
    assert (last["trim_summary"], last["trim_durable"], last["trim_best_effort"]) == (
        SUMMARY_SLACK + 1,
        0,
        0,
    )
    assert stream.meta is not None and (stream.meta.summary_count, stream.meta.summary_trimmed) == (
        129,
        65,
    )
    assert stream.summary == Summary({"a": 1}, 129)


@pytest.mark.parametrize("stream", [new(), begun()], ids=["a new stream", "one that goes on"])
def test_what_would_go_at_once_is_not_even_written(stream: Stream) -> None:
    made = appended(
        stream,
        *(patch(b'{"n":%d}' % n) for n in range(200)),
        frame(),
        *(live(SMALL) for _ in range(20)),
    )
    kept = rows(made)
    assert [row["mode_number"] for row in kept if row["mode"] == "summary"] == list(range(137, 201))
    assert [row["mode_number"] for row in kept if row["mode"] == "best_effort"] == list(
        range(17, 21)
    )
    assert len([row for row in kept if row["mode"] == "durable"]) == 1
    assert (
        len(made.outcomes) == 221
        and meta_of(made).summary_trimmed == 136
        and meta_of(made).live_trimmed == 16
    )
    assert said(made.plan)["document"] == '{"n":199}'


def test_the_first_live_frame_keeps_the_floor() -> None:
    after = meta_of(appended(new(), live()))
    assert (after.maxlen_applied_last, after.ema_rate_hz, after.last_append_ts_ms) == (64, 6.4, NOW)
    assert after.has_durable_frame == 0


def test_many_at_once_are_kept_up_to_the_ceiling() -> None:
    stream, _ = grown(new(), [live(BestEffortLive(30_000, 64, 100)) for _ in range(300)], 50)
    assert stream.meta is not None
    assert (stream.meta.maxlen_applied_last, stream.meta.live_count, stream.meta.live_trimmed) == (
        100,
        300,
        200,
    )


def test_live_frames_have_no_slack() -> None:
    stream, made = grown(new(), [live(SMALL) for _ in range(6)])
    assert [said(each.plan).get("trim_best_effort", 0) for each in made] == [0, 0, 0, 0, 1, 2]
    assert stream.meta is not None and stream.meta.live_count - stream.meta.live_trimmed == 4


def test_a_slow_stream_keeps_less_again() -> None:
    stream, _ = grown(new(), [live(SMALL) for _ in range(4)])
    made = appended(stream, live(replace(SMALL, ema_alpha=1.0)), now=NOW + 3_600_000)
    assert meta_of(made).maxlen_applied_last == 2
    assert said(made.plan)["trim_best_effort"] == 3


def test_only_live_frames_move_the_rate() -> None:
    stream = begun(ema_rate_hz=3.0, last_append_ts_ms=NOW - 9, maxlen_applied_last=64, live_count=3)
    for frames in ([frame()], [patch()], [frame(), patch()]):
        after = meta_of(appended(stream, *frames))
        assert (after.ema_rate_hz, after.last_append_ts_ms, after.maxlen_applied_last) == (
            3.0,
            NOW - 9,
            64,
        )
