"""Summaries, live frames, and how much of a stream is kept."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from flowfabric.engine.background import LoopSettings
from flowfabric.engine.engine import Engine
from flowfabric.errors import StateKind, ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.loops.upkeep import RetentionTrimmer
from flowfabric.model.lease import Handle
from flowfabric.model.stream import (
    DURABLE_SLACK,
    SUMMARY_CAP,
    SUMMARY_SLACK,
    BestEffortLive,
    SummaryDocument,
)
from flowfabric.plan import Applied, Arg, Form, Update
from flowfabric.rules.streams.merge_patch import merge
from flowfabric.rules.streams.stream_forms import STREAM as OF_STREAM
from flowfabric.rules.streams.stream_forms import SUMMARY
from flowfabric.testing import ManualClock

from .helpers import dump, refused, running
from .stream_helpers import KEPT, frame, frames, keeping, live, meta, patch, rising, say, texts

FEW = BestEffortLive(5_000, 4, 8)
SPOIL = Form("t_spoil", Update(SUMMARY, OF_STREAM, {"document_json": Arg("document")}))


async def summary(engine: Engine, ident: ExecutionId) -> SummaryDocument:
    found = await engine.read_summary(ident, 0)
    assert found is not None
    return found


async def spoil(engine: Engine, ident: ExecutionId, document: str) -> None:
    """Damages the row in the database."""
    values = {
        "partition_key": ident.partition_index,
        "execution_id": ident.uuid,
        "attempt_index": 0,
        "document": document,
    }
    assert isinstance(await engine.store.commit(SPOIL(**values)), Applied)


def modes(found: Any) -> list[str]:
    return [each.mode for each in found]


# ---- summaries


async def test_patches_build_up_a_document(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    assert await engine.read_summary(ident, 0) is None
    began = clock()
    steps: list[tuple[str, str]] = [
        (
            '{"b": {"x": 1, "y": [1, {"z": null}]}, "a": "\\u20ac"}',
            '{"a":"\u20ac","b":{"x":1,"y":[1,{"z":null}]}}',
        ),
        ('{"b": {"x": null}, "c": {}}', '{"a":"\u20ac","b":{"y":[1,{"z":null}]},"c":{}}'),
        ('{"b": {}, "a": null}', '{"b":{"y":[1,{"z":null}]},"c":{}}'),
        (
            '{"b": {"y": ["__ff_null__", [{"k": "__ff_null__"}]]}}',
            '{"b":{"y":[null,[{"k":null}]]},"c":{}}',
        ),
        ('{"b": "__ff_null__", "c": {"__ff_null__": 1}}', '{"b":null,"c":{"__ff_null__":1}}'),
        ('{"b": {"deep": {"er": 1.50}}, "c": [1E2, -0.0, 18446744073709551616]}', ""),
        ("{}", '{"b":{"deep":{"er":1.5}},"c":[100.0,-0.0,18446744073709551616]}'),
    ]
    for version, (given, document) in enumerate(steps, 1):
        outcome = await engine.append_frame(handle, patch(given))
        found = await summary(engine, ident)
        assert (outcome.summary_version, found.version, found.patch_kind) == (
            version,
            version,
            "json-merge-patch",
        )
        assert (found.first_applied_ms, found.last_updated_ms) == (began, clock())
        if document:
            assert found.document_json == document.encode(), "the same bytes on every store"
        clock.advance(10)
    assert await texts(engine, ident) == [given for given, _ in steps]
    assert [each.fields["summary_version"] for each in await frames(engine, ident)] == [
        str(n) for n in range(1, 8)
    ]


async def test_text_that_a_database_might_not_take(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.append_frame(
        handle, patch(r'{"nul\u0000": "\u0000", "e\"": "\\\ud83d\ude00\u007f", "": "\u2028"}')
    )
    await Engine(engine.store).append_frame(handle, patch('{"n": 1}'))
    found = json.loads((await summary(engine, ident)).document_json)
    assert found == {"nul\0": "\0", 'e"': "\\\U0001f600\x7f", "": "\u2028", "n": 1}


async def test_patches_at_once_are_one_behind_the_other(engine: Engine) -> None:
    ident, handle = await running(engine)
    two = (engine, Engine(engine.store))
    given = [{"last": n, "of": {str(n % 5): n, str((n + 1) % 5): None}} for n in range(60)]
    calls = [
        two[n % 2].append_frame(handle, patch(json.dumps(each))) for n, each in enumerate(given)
    ]
    outcomes = await asyncio.gather(*calls)
    assert sorted(o.summary_version or 0 for o in outcomes) == list(range(1, 61))
    document: dict[str, Any] = {}
    for at in sorted(range(60), key=lambda n: outcomes[n].summary_version or 0):
        document = merge(document, given[at])
    found = await summary(engine, ident)
    assert (json.loads(found.document_json), found.version) == (document, 60)
    shown = await frames(engine, ident)
    assert [int(each.fields["summary_version"]) for each in shown] == list(range(1, 61)), (
        "in the order of their ids"
    )


async def test_a_document_does_not_grow_without_end(engine: Engine) -> None:
    _, handle = await running(engine)
    large = "x" * 65_000
    for n in range(16):
        await engine.append_frame(handle, patch(json.dumps({str(n): large})))
    before = await dump(engine)
    with pytest.raises(ValidationError) as caught:
        await engine.append_frame(handle, patch(json.dumps({"more": large})))
    assert caught.value.kind is ValidationKind.RETENTION_LIMIT_EXCEEDED
    assert await dump(engine) == before
    await say(engine, handle, "plain frames go on")
    assert (await engine.append_frame(handle, patch('{"0":null}'))).summary_version == 17


@pytest.mark.parametrize("document", ["[1]", '"text"', '{"a":' * 40 + "1" + "}" * 40])
async def test_a_damaged_document_refuses_patches_only(engine: Engine, document: str) -> None:
    ident, handle = await running(engine)
    await engine.append_frame(handle, patch('{"a":1}'))
    await spoil(engine, ident, document)
    other = Engine(engine.store)
    before = await dump(engine)
    with pytest.raises(ValidationError) as caught:
        await other.append_frame(handle, patch('{"b":1}'))
    assert caught.value.kind is ValidationKind.CORRUPTION
    assert caught.value.detail.startswith("corrupt summary document in ff_stream_summary: ")
    with pytest.raises(ValidationError):
        await other.append_frames(handle, [frame("x"), patch('{"b":1}')])
    assert await dump(engine) == before
    assert (await other.append_frame(handle, frame("plain"))).frame_count == 2
    assert (await other.append_frame(handle, frame("once", seq=1))).frame_count == 3
    await engine.complete(handle)
    await refused(other.append_frame(handle, patch('{"b":1}')), StateKind.STREAM_CLOSED)


async def test_the_newest_patches_are_kept_and_the_document_for_good(engine: Engine) -> None:
    ident, handle = await running(engine)
    await say(engine, handle, "durable")
    for n in range(SUMMARY_CAP + SUMMARY_SLACK):
        await engine.append_frame(handle, patch(json.dumps({"n": n})))
    assert len(await frames(engine, ident)) == 1 + SUMMARY_CAP + SUMMARY_SLACK
    await engine.append_frame(handle, patch('{"n":"last"}'))
    found = await frames(engine, ident)
    assert [each.fields["summary_version"] for each in found[1:]] == [
        str(n) for n in range(66, 130)
    ]
    assert (await summary(engine, ident)).document_json == b'{"n":"last"}'


async def test_a_large_batch_of_patches_keeps_its_end(engine: Engine) -> None:
    ident, handle = await running(engine)
    outcomes = await engine.append_frames(handle, [patch(json.dumps({"n": n})) for n in range(256)])
    assert [o.summary_version for o in outcomes] == list(range(1, 257))
    assert len(await frames(engine, ident)) == SUMMARY_CAP
    assert (await summary(engine, ident)).version == 256
    assert (await engine.append_frame(handle, patch("{}"))).summary_version == 257


# ---- live frames


async def test_the_first_live_frame_keeps_the_floor(engine: Engine) -> None:
    ident, handle = await running(engine)
    await engine.append_frame(handle, live())
    found = await meta(engine, ident)
    assert found is not None
    assert (found.maxlen_applied_last, found.ema_rate_hz, found.has_durable_frame) == (64, 6.4, 0)


async def test_live_frames_are_kept_up_to_the_ceiling_and_durable_ones_stay(engine: Engine) -> None:
    ident, handle = await running(engine)
    for n in range(30):
        await engine.append_frames(
            handle,
            [live(str(n), FEW), *([frame(f"d{n}")] if n % 10 == 0 else []), live(f"{n}b", FEW)],
        )
    found = await frames(engine, ident)
    assert [each.payload.decode() for each in found if each.mode == "durable"] == [
        "d0",
        "d10",
        "d20",
    ]
    ticks = [each.payload.decode() for each in found if each.mode == "best_effort"]
    assert ticks == [text for n in range(26, 30) for text in (str(n), f"{n}b")] and rising(found)
    held = await meta(engine, ident)
    assert held is not None and (held.maxlen_applied_last, held.live_count, held.frame_count) == (
        8,
        60,
        63,
    )


async def test_when_they_come_slower_fewer_are_kept(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.append_frames(handle, [live(str(n), FEW) for n in range(20)])
    assert len(await frames(engine, ident)) == 8
    clock.advance(20_000)
    await engine.append_frame(handle, live("late", BestEffortLive(5_000, 4, 8, 1.0)))
    assert await texts(engine, ident) == ["17", "18", "19", "late"]


async def test_live_frames_expire_after_two_lifetimes(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.append_frames(
        handle,
        [
            live("short", BestEffortLive(1_000)),
            frame("durable"),
            live("long", BestEffortLive(2_000)),
        ],
    )
    await engine.append_frame(handle, live("none", BestEffortLive(0)))
    clock.advance(1)
    assert await engine.forget_live_frames() == 0, "a lifetime is at least a millisecond"
    clock.advance(1)
    assert await engine.forget_live_frames() == 1
    clock.advance(1_997)
    assert await engine.forget_live_frames() == 0
    clock.advance(1)
    assert (await engine.forget_live_frames(), await texts(engine, ident)) == (
        1,
        ["durable", "long"],
    )
    clock.advance(2_000)
    assert (await engine.forget_live_frames(1), await texts(engine, ident)) == (1, ["durable"])
    assert await engine.forget_live_frames() == 0
    outcome = await engine.append_frame(handle, live("again"))
    assert outcome.frame_count == 5 and await texts(engine, ident) == ["durable", "again"]


async def test_forgetting_goes_in_bounded_steps(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.append_frames(handle, [live(str(n)) for n in range(10)])
    clock.advance(10_000)
    assert [await engine.forget_live_frames(4) for _ in range(4)] == [4, 4, 2, 0]
    assert await texts(engine, ident) == []


async def test_the_retention_loop_forgets_live_frames(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine)
    await engine.append_frames(handle, [live(str(n)) for n in range(10)] + [frame("stays")])
    clock.advance(10_000)
    assert await RetentionTrimmer(LoopSettings()).run(engine) == 10
    assert await texts(engine, ident) == ["stays"]


# ---- durable frames


async def fill(engine: Engine, handle: Handle, count: int, size: int = 250) -> None:
    for at in range(0, count, size):
        await engine.append_frames(
            handle, [frame(str(n)) for n in range(at, min(at + size, count))]
        )


async def test_durable_frames_are_cut_to_the_cap_beyond_the_slack(engine: Engine) -> None:
    ident, handle = await running(engine, policy=keeping(10))
    await fill(engine, handle, 10 + DURABLE_SLACK)
    assert len(await frames(engine, ident)) == 10 + DURABLE_SLACK
    await say(engine, handle, "one more")
    assert len(await frames(engine, ident)) == 10 + DURABLE_SLACK + 1
    await say(engine, handle, "and it is time")
    assert await texts(engine, ident) == [
        *(str(n) for n in range(257, 266)),
        "one more",
        "and it is time",
    ]


async def test_three_thousand_appends_keep_the_newest(engine: Engine) -> None:
    ident, handle = await running(engine, policy=keeping(50))
    outcomes = await asyncio.gather(
        *(engine.append_frame(handle, frame(str(n))) for n in range(3_000))
    )
    assert [o.frame_count for o in outcomes] == list(range(1, 3_001))
    kept = await texts(engine, ident)
    assert kept == [str(n) for n in range(3_000 - len(kept), 3_000)]
    assert 50 <= len(kept) <= 50 + 2 * DURABLE_SLACK
    found = await meta(engine, ident)
    assert found is not None and found.durable_count - found.durable_trimmed == len(kept)


async def test_one_at_a_time_the_cap_holds_all_along(engine: Engine, clock: ManualClock) -> None:
    ident, handle = await running(engine, policy=keeping(5))
    for n in range(600):
        await engine.append_frame(handle, frame(str(n)))
        clock.advance(n % 2)
    kept = await texts(engine, ident)
    assert (
        kept == [str(n) for n in range(600 - len(kept), 600)]
        and 5 <= len(kept) <= 5 + DURABLE_SLACK + 1
    )


async def test_modes_are_cut_each_by_itself(engine: Engine) -> None:
    ident, handle = await running(engine, policy=keeping(20))
    for n in range(0, 600, 50):
        several = [
            f
            for at in range(n, n + 50)
            for f in (frame(f"d{at}"), patch(json.dumps({"n": at})), live(f"l{at}", FEW))
        ]
        await engine.append_frames(handle, several)
    found = await frames(engine, ident)
    by_mode = {
        mode: [each for each in found if each.mode == mode]
        for mode in ("durable", "summary", "best_effort")
    }
    assert 20 <= len(by_mode["durable"]) <= 20 + DURABLE_SLACK + 50
    assert SUMMARY_CAP <= len(by_mode["summary"]) <= SUMMARY_CAP + SUMMARY_SLACK
    assert len(by_mode["best_effort"]) == 8
    for mode, letter in (("durable", "d"), ("best_effort", "l")):
        kept = [each.payload.decode() for each in by_mode[mode]]
        assert kept == [f"{letter}{n}" for n in range(600 - len(kept), 600)]
    assert modes(await frames(engine, ident, visibility=KEPT)) == [
        m for m in modes(found) if m != "best_effort"
    ]
    held = await meta(engine, ident)
    assert held is not None and (held.frame_count, (await summary(engine, ident)).version) == (
        1_800,
        600,
    )


async def test_a_cap_of_nothing_keeps_the_slack(engine: Engine) -> None:
    ident, handle = await running(engine, policy=keeping(0))
    for n in range(600):
        await engine.append_frame(handle, frame(str(n)))
    kept = await texts(engine, ident)
    assert 1 <= len(kept) <= DURABLE_SLACK + 1 and kept[-1] == "599"


async def test_a_cap_that_shrank_by_thousands_is_reached_in_steps(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flowfabric.engine.streams.stream_writer.MAX_TRIMMED", 300)
    ident, handle = await running(engine)
    await fill(engine, handle, 1_500)
    monkeypatch.setattr("flowfabric.model.stream.DURABLE_CAP", 10)
    other = Engine(engine.store)
    lengths = []
    for n in range(6):
        await other.append_frame(handle, frame(f"x{n}"))
        lengths.append(len(await frames(engine, ident)))
    assert lengths == [1_201, 902, 603, 304, 11, 12]
    assert (await texts(engine, ident))[-6:] == [f"x{n}" for n in range(6)]


async def test_a_number_is_known_for_as_long_as_its_frame_is_kept(engine: Engine) -> None:
    ident, handle = await running(engine, policy=keeping(1))
    first = await engine.append_frame(handle, frame("numbered", seq=1))
    await fill(engine, handle, DURABLE_SLACK, 256)
    assert await engine.append_frame(handle, frame("numbered", seq=1)) == first
    await say(engine, handle, "one more", "and it is time")
    assert "numbered" not in await texts(engine, ident)
    assert (
        await engine.append_frame(handle, frame("numbered", seq=1))
    ).frame_count == DURABLE_SLACK + 4
