"""Output streams: what an append writes and returns."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.model.stream import (
    MAX_SUMMARY_BYTES,
    PATCH_KIND,
    Durable,
    Frame,
    FrameMode,
    StreamMeta,
)
from flowfabric.plan import Applied, Form, Refused
from flowfabric.rules.streams import stream_forms, streams
from flowfabric.rules.streams.frames import decode_fields
from flowfabric.rules.streams.streams import Bound, Stream, Summary
from flowfabric.store.memory import MemoryStore

from .factory import IDENT, NOW, attempt, commit, execution, run, seeded
from .stream_factory import (
    HELD,
    LIVE,
    OF_STREAM,
    PATCH,
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

_EVERY: dict[str, FrameMode] = {"durable": Durable(), "summary": PATCH, "best_effort": LIVE}
STREAM = f"{IDENT}:0"


@pytest.mark.parametrize(
    ("stream", "frames", "form"),
    [
        (new(), [frame()], "stream_open"),
        (new(), [live()], "stream_open"),
        (new(), [patch()], "stream_open_summary"),
        (new(), [frame(), live(), patch()], "stream_open_summary"),
        (begun(), [frame(), frame()], "stream_append"),
        (begun(), [live()], "stream_append_live"),
        (begun(), [frame(), live()], "stream_append_live"),
        (begun(), [patch()], "stream_append_summary"),
        (begun(), [frame(), patch(), live()], "stream_append_summary"),
        (
            begun(live_count=4, maxlen_applied_last=4, ema_rate_hz=0.1),
            [live(SMALL)],
            "stream_append_trim",
        ),
        (begun(summary_count=128), [patch()], "stream_append_summary_trim"),
    ],
)
def test_the_form_follows_from_the_required_changes(
    stream: Stream, frames: list[Frame], form: str
) -> None:
    assert appended(stream, *frames).plan.form.name == form


def test_every_form_has_a_name_of_its_own() -> None:
    several: list[Form] = [streams.PLAIN, stream_forms.FORGET_FRAME, *streams.FORMS.values()]
    assert len({form.name for form in several}) == len(several) == 8


def test_every_form_is_held_to_the_lease_and_to_what_was_read() -> None:
    made = [
        appended(stream, *frames)
        for stream in (new(), begun())
        for frames in ([frame()], [live()], [patch()])
    ]
    for each in made:
        given = said(each.plan)
        assert (given["partition_key"], given["execution_id"], given["attempt_index"]) == OF_STREAM
        held = (HELD.lease_epoch, HELD.lease_id, HELD.worker_instance_id)
        assert (given["lease_epoch"], given["lease_id"], given["worker_instance_id"]) == held
    assert [said(each.plan).get("version") for each in made] == [None, None, None, 1, 1, 1]


@pytest.mark.parametrize("wire", _EVERY)
def test_a_frame_is_stored_under_its_mode(wire: str) -> None:
    made = appended(
        new(), frame(b'{"a":1}', _EVERY[wire], seq=7, correlation_id="c", frame_type="log")
    )
    (row,) = rows(made)
    assert (row["ts_ms"], row["seq"], row["mode"], row["number"], row["mode_number"]) == (
        NOW,
        0,
        wire,
        1,
        1,
    )
    assert row["client_seq"] == 7
    assert row["expires_at_ms"] == (NOW + 10_000 if wire == "best_effort" else None)
    more = {"summary": {"summary_version": "1"}, "best_effort": {"ttl_ms": "5000"}}.get(wire, {})
    assert decode_fields(row["fields"]) == {
        "correlation_id": "c",
        "encoding": "utf8",
        "frame_type": "log",
        "mode": wire,
        "payload": '{"a":1}',
        "source": "worker",
        "ts": str(NOW),
        **more,
    }


@pytest.mark.parametrize("stream", [new(), begun()], ids=["a new stream", "one that goes on"])
def test_a_mixed_batch_counts_each_mode_separately(stream: Stream) -> None:
    made = appended(stream, frame(b"12"), live(), patch(b'{"a":1}'), frame(b"3"), patch(b'{"b":2}'))
    before = stream.meta or StreamMeta(*OF_STREAM, NOW)
    first, durable = before.frame_count + 1, before.durable_count
    assert [(r["mode"], r["number"], r["mode_number"]) for r in rows(made)] == [
        ("durable", first, durable + 1),
        ("best_effort", first + 1, 1),
        ("summary", first + 2, 1),
        ("durable", first + 3, durable + 2),
        ("summary", first + 4, 2),
    ]
    after = meta_of(made)
    assert (after.frame_count, after.durable_count) == (
        before.frame_count + 5,
        before.durable_count + 2,
    )
    assert (after.summary_count, after.live_count, after.has_durable_frame) == (2, 1, 1)
    assert after.total_bytes == before.total_bytes + 2 + 4 + 7 + 1 + 7
    assert made.stream.summary == Summary({"a": 1, "b": 2}, 2)
    assert [outcome.summary_version for outcome in made.outcomes] == [None, None, 1, None, 2]


@pytest.mark.parametrize("frames", [[frame(), frame()], [live(), live()], [patch(), frame()]])
def test_what_is_known_afterwards_is_what_the_store_holds(frames: list[Frame]) -> None:
    """The next append is decided from this state without a read."""
    for stream in (new(), begun()):
        made = appended(stream, *frames)
        given, after = said(made.plan), msgspec.structs.asdict(meta_of(made))
        assert after["version"] == (stream.meta.version if stream.meta else 0) + 1
        assert {name: after[name] for name in given if name in after and name != "version"} == {
            name: value for name, value in given.items() if name in after and name != "version"
        }
        assert after["has_durable_frame"] == (1 if stream.meta or frames[0].mode != LIVE else 0)
        assert made.stream.cap == stream.cap


def test_a_store_ends_up_with_what_is_known() -> None:
    """For opening, appending, patching and trimming, and for the lease alone."""
    found = execution("RUNNING")
    store, stream = seeded(found, attempt(found)), new()
    batches = [
        [frame()],
        [frame(), frame(seq=3)],
        [live(SMALL)] * 6,
        [patch()] * 130,
        [live(SMALL), frame()],
        [patch(b"{}")],
    ]
    for at, several in enumerate(batches):
        made = appended(stream, *several, now=NOW, bound=Bound(NOW, 1) if at == 4 else None)
        assert isinstance(commit(store, made.plan), Applied)
        (row,), frames, summary = _stored(store)
        assert StreamMeta(*row) == replace(meta_of(made), created_at_ms=NOW)
        counts = meta_of(made)
        kept = (counts.durable_count, counts.summary_count, counts.live_count)
        gone = (counts.durable_trimmed, counts.summary_trimmed, counts.live_trimmed)
        assert len(frames) == sum(kept) - sum(gone)
        assert [each[4] for each in summary] == (
            [made.stream.summary.version] if counts.summary_count and made.stream.summary else []
        )
        assert isinstance(commit(store, made.plan), Refused), "once"
        stream = made.stream
    assert isinstance(
        commit(store, streams.append(stream, replace(HELD, lease_epoch=2), [frame()], NOW).plan),
        Refused,
    )


def _stored(store: MemoryStore) -> tuple[list[Any], list[Any], list[Any]]:
    found = run(store.dump((stream_forms.META, stream_forms.FRAME, stream_forms.SUMMARY)))
    return found[stream_forms.META], found[stream_forms.FRAME], found[stream_forms.SUMMARY]


def test_the_plain_way_leaves_what_the_full_one_does() -> None:
    stream = begun()
    plain = appended(stream, frame(b"1"), frame(b"2", seq=4))
    full = appended(stream, frame(b"1"), frame(b"2", seq=4), bound=Bound(NOW, 0))
    assert plain.plan.form is streams.PLAIN and full.plan.form is not streams.PLAIN
    assert (plain.outcomes, plain.stream) == (full.outcomes, full.stream)
    assert rows(plain) == rows(full)


@pytest.mark.parametrize(
    ("stream", "now", "ids"),
    [
        (new(), NOW, [f"{NOW}-0", f"{NOW}-1"]),
        (begun(), NOW, [f"{NOW}-1", f"{NOW}-2"]),
        (begun(last_seq=41), NOW, [f"{NOW}-42", f"{NOW}-43"]),
        (begun(), NOW + 1, [f"{NOW + 1}-0", f"{NOW + 1}-1"]),
        (begun(), NOW - 500, [f"{NOW}-1", f"{NOW}-2"]),
    ],
    ids=["the first", "the same millisecond", "far into it", "later", "the clock stepped back"],
)
@pytest.mark.parametrize("mode", [Durable(), LIVE], ids=["plain", "full"])
def test_ids_rise(stream: Stream, now: int, ids: list[str], mode: FrameMode) -> None:
    made = appended(stream, frame(mode=mode), frame(mode=mode), now=now)
    assert [outcome.frame_id for outcome in made.outcomes] == ids
    assert [f"{row['ts_ms']}-{row['seq']}" for row in rows(made)] == ids
    after = meta_of(made)
    assert f"{after.last_ts_ms}-{after.last_seq}" == ids[-1]
    assert {decode_fields(row["fields"])["ts"] for row in rows(made)} == {ids[0].partition("-")[0]}


def test_the_count_is_of_every_append_there_was() -> None:
    stream, made = grown(new(), [live(SMALL) for _ in range(20)])
    assert [outcome.frame_count for each in made for outcome in each.outcomes] == list(range(1, 21))
    assert stream.meta is not None and (stream.meta.frame_count, stream.meta.live_count) == (20, 20)
    assert {outcome.stream_id for each in made for outcome in each.outcomes} == {STREAM}


def test_the_document_is_written_compact_and_sorted_with_its_version() -> None:
    made = appended(
        begun(Summary({"b": {"x": 1, "y": 2}}, 4)),
        patch(b'{"b":{"x":null,"z":"__ff_null__"}, "a":[1, 2]}'),
    )
    given = said(made.plan)
    assert (given["document"], given["summary_version"]) == ('{"a":[1,2],"b":{"y":2,"z":null}}', 5)
    assert made.outcomes[0].summary_version == 5
    assert any(
        getattr(step, "row", {}).get("patch_kind") == PATCH_KIND for step in made.plan.form.steps
    )


def test_a_patch_that_changes_nothing_is_a_version_all_the_same() -> None:
    made = appended(begun(Summary({"a": 1}, 1)), patch(b"{}"))
    assert (said(made.plan)["document"], made.stream.summary) == ('{"a":1}', Summary({"a": 1}, 2))


@pytest.mark.parametrize("bad", [b"", b"[1]", b"\xff", b'{"a":' * 17 + b"1" + b"}" * 17])
def test_one_bad_patch_and_nothing_is_decided(bad: bytes) -> None:
    with pytest.raises(ValidationError) as caught:
        appended(begun(), frame(), patch(), patch(bad))
    assert caught.value.kind is ValidationKind.INVALID_INPUT


def test_a_document_that_would_grow_too_large_is_refused() -> None:
    near = Summary({"a": "x" * (MAX_SUMMARY_BYTES - len('{"a":""}'))}, 1)
    made = appended(begun(near), patch(b"{}"))
    assert (said(made.plan)["summary_version"], made.stream.summary) == (2, None), (
        "one so long is not kept at hand"
    )
    with pytest.raises(ValidationError) as caught:
        appended(begun(near), patch(b'{"b":1}'))
    assert caught.value.kind is ValidationKind.RETENTION_LIMIT_EXCEEDED


def test_the_stored_document() -> None:
    assert streams.stored_summary('{"a":[null]}', 3) == Summary({"a": [None]}, 3)
    for bad in ("", "[]", '{"a"', "nul"):
        with pytest.raises(ValidationError) as caught:
            streams.stored_summary(bad, 1)
        assert caught.value.kind is ValidationKind.CORRUPTION
        assert caught.value.detail.startswith("corrupt summary document in ff_stream_summary: ")


@pytest.mark.parametrize(("mode", "version"), [(Durable(), None), (PATCH, 1), (LIVE, None)])
def test_the_outcome_of_a_stored_frame_is_the_same(mode: FrameMode, version: int | None) -> None:
    made = appended(new(), frame(b'{"a":1}', mode, seq=5))
    (row,) = rows(made)
    again = streams.outcome_of_stored(HELD, row["ts_ms"], row["seq"], row["number"], row["fields"])
    assert again == made.outcomes[0]
    assert again.summary_version == version
