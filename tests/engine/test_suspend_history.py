"""A waitpoint keeps its newest signals; what its condition counts, and how many came, is never
forgotten.
"""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.errors import ValidationError, ValidationKind
from flowfabric.ids import ExecutionId
from flowfabric.model.waitpoint import Count, CountKind, OperatorOnly, Single
from flowfabric.testing import ManualClock

from .helpers import running
from .suspend_helpers import (
    park,
    park_held,
    pending,
    seed,
    signal,
    signal_args,
    signals,
    sound,
    waitpoint,
)

MOST = 3


async def kept(engine: Engine, ident: ExecutionId) -> list[UUID]:
    return [found.signal_id for found in await signals(engine, ident)]


async def test_the_newest_stay(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(
        engine, "a", "b", resume_condition=Count(9, CountKind.DISTINCT_SOURCES, ("a", "b"))
    )
    elsewhere = uuid4()
    await signal(engine, parked, key="b", signal_id=elsewhere)
    sent = [uuid4() for _ in range(7)]
    for at, ident in enumerate(sent):
        clock.advance(1)
        await signal(engine, parked, key="a", signal_id=ident, signal_maxlen=MOST)
        assert await kept(engine, parked.ident) == [
            elsewhere,
            *sent[max(at + 1 - MOST, 0) : at + 1],
        ]
    stored = await waitpoint(engine, parked.ident, parked.by_key["a"])
    assert (stored.signal_count, stored.signals_trimmed) == (7, 4)
    assert [seen.signal_id for seen in await engine.observe_signals(parked.handle)] == [
        elsewhere,
        *sent[-MOST:],
    ]
    await sound(engine)


async def test_a_long_history_is_cut_an_eighth_at_a_time(
    engine: Engine, clock: ManualClock
) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=OperatorOnly())
    lengths = []
    for _ in range(24):
        clock.advance(1)
        await signal(engine, parked, signal_maxlen=16)
        lengths.append(len(await kept(engine, parked.ident)))
    assert lengths == [*range(1, 19), 16, 17, 18, 16, 17, 18]
    await sound(engine)


async def test_no_limit_keeps_all(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=OperatorOnly())
    for _ in range(5):
        await signal(engine, parked, signal_maxlen=0)
    assert len(await kept(engine, parked.ident)) == 5


async def test_what_the_condition_counts_stays(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    condition = Count(2, CountKind.DISTINCT_SOURCES, ("k",))
    parked = await park(engine, "k", resume_condition=condition)
    first, last = uuid4(), uuid4()
    await signal(engine, parked, signal_id=first, source_identity="ann", signal_maxlen=MOST)
    for _ in range(6):
        clock.advance(1)
        await signal(engine, parked, source_identity="ann", signal_maxlen=MOST)
    clock.advance(1)
    assert first in await kept(engine, parked.ident)
    assert (
        await signal(engine, parked, signal_id=last, source_identity="bob", signal_maxlen=MOST)
        == "resume_condition_satisfied"
    )
    found = await kept(engine, parked.ident)
    assert (found[0], found[-1], len(found)) == (first, last, MOST)
    await sound(engine)


async def test_early_signals_are_trimmed_too(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    ahead = await pending(engine, held, "ahead")
    sent = [uuid4() for _ in range(5)]
    for one in sent:
        clock.advance(1)
        await engine.deliver_signal(
            signal_args(ident, ahead, "other", signal_id=one, signal_maxlen=MOST)
        )
    assert await kept(engine, ident) == sent[-MOST:]
    await sound(engine)


async def test_the_same_signal_again_takes_no_place(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=OperatorOnly())
    sent = [uuid4() for _ in range(MOST)]
    for one in [*sent, sent[0], sent[0], sent[0]]:
        clock.advance(1)
        await signal(engine, parked, signal_id=one, signal_maxlen=MOST)
    assert await kept(engine, parked.ident) == [sent[1], sent[2], sent[0]]


async def test_trimmed_signals_count_for_the_limit(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=OperatorOnly())
    for _ in range(5):
        clock.advance(1)
        await signal(engine, parked, signal_maxlen=1, max_signals_per_execution=5)
    with pytest.raises(ValidationError) as caught:
        await signal(engine, parked, signal_maxlen=1, max_signals_per_execution=5)
    assert caught.value.kind is ValidationKind.SIGNAL_LIMIT_EXCEEDED
    assert len(await kept(engine, parked.ident)) == 1


async def test_a_signal_that_ends_it_trims_as_well(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    ident, held = await running(engine)
    parked = await park_held(engine, ident, held, "k", resume_condition=Single("k", "go"))
    for name in ("no", "no", "go"):
        clock.advance(1)
        await signal(engine, parked, name, signal_maxlen=1)
    (left,) = await signals(engine, ident)
    assert left.signal_name == "go"
    await sound(engine)
