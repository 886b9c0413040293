"""What has to arrive: one, all, or so many different ones, over one waitpoint or several."""

from __future__ import annotations

import json

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.waitpoint import (
    AllOf,
    Condition,
    Count,
    CountKind,
    OperatorOnly,
    Single,
    TimeoutOnly,
    all_of_waitpoints,
    any_of_waitpoints,
)
from flowfabric.testing import ManualClock

from .helpers import other_uuid, state
from .suspend_helpers import (
    Parked,
    closed_for,
    park,
    seed,
    signal,
    signals,
    sound,
    suspension,
    waitpoint,
)

ADDED, MET = "appended_to_waitpoint", "resume_condition_satisfied"
AGAIN, WRONG, NOWHERE = (
    "appended_to_waitpoint_duplicate",
    "signal_ignored_matcher_failed",
    "signal_ignored_not_in_condition",
)
WAITS, SIGS, SOURCES = (
    CountKind.DISTINCT_WAITPOINTS,
    CountKind.DISTINCT_SIGNALS,
    CountKind.DISTINCT_SOURCES,
)
Step = tuple[str, str, str, str]
"""The key, the name, the source, and the effect."""


async def play(engine: Engine, parked: Parked, steps: list[Step]) -> None:
    """Each signal has its effect, and the execution is suspended until the one that
    completes it.
    """
    for key, name, source, effect in steps:
        assert await state(engine, parked.ident) == "SUSPENDED"
        assert await signal(engine, parked, name, key, source_identity=source) == effect, (
            key,
            name,
            source,
        )
    assert await state(engine, parked.ident) == ("READY" if steps[-1][3] == MET else "SUSPENDED")


CASES: dict[str, tuple[tuple[str, ...], Condition, list[Step]]] = {
    "one by name": (
        ("a",),
        Single("a", "go"),
        [("a", "no", "s", ADDED), ("a", "Go", "s", ADDED), ("a", "go", "s", MET)],
    ),
    "any signal": (("a",), Single("a"), [("a", "", "", MET)]),
    "only an operator": (("a",), OperatorOnly(), [("a", "go", "s", ADDED)]),
    "two names": (
        ("a",),
        AllOf((Single("a", "x"), Single("a", "y"))),
        [
            ("a", "x", "s", ADDED),
            ("a", "x", "t", AGAIN),
            ("a", "z", "s", WRONG),
            ("a", "y", "s", MET),
        ],
    ),
    "the other way": (
        ("a",),
        AllOf((Single("a", "x"), Single("a", "y"))),
        [("a", "y", "s", ADDED), ("a", "x", "s", MET)],
    ),
    "three waitpoints": (
        ("a", "b", "c"),
        all_of_waitpoints("a", "b", "c"),
        [
            ("c", "x", "s", ADDED),
            ("a", "x", "s", ADDED),
            ("c", "y", "s", AGAIN),
            ("b", "x", "s", MET),
        ],
    ),
    "any of three": (("a", "b", "c"), any_of_waitpoints("a", "b", "c"), [("b", "x", "s", MET)]),
    "waitpoints": (
        ("a", "b", "c"),
        Count(2, WAITS, ("a", "b", "c")),
        [("a", "x", "s", ADDED), ("a", "y", "t", AGAIN), ("c", "x", "s", MET)],
    ),
    "signals": (
        ("a",),
        Count(3, SIGS, ("a",)),
        [("a", "x", "s", ADDED), ("a", "x", "s", ADDED), ("a", "x", "s", MET)],
    ),
    "sources": (
        ("a", "b"),
        Count(2, SOURCES, ("a", "b")),
        [("a", "x", "s", ADDED), ("b", "x", "s", AGAIN), ("b", "x", "t", MET)],
    ),
    "sources by name": (
        ("a",),
        Count(2, SOURCES, ("a",), "yes"),
        [
            ("a", "yes", "s", ADDED),
            ("a", "no", "t", WRONG),
            ("a", "yes", "s", AGAIN),
            ("a", "yes", "t", MET),
        ],
    ),
    "sources of their own": (
        ("a", "b"),
        AllOf((Count(2, SOURCES, ("a",)), Count(2, SOURCES, ("b",)))),
        [
            ("a", "x", "s", ADDED),
            ("b", "x", "s", ADDED),
            ("b", "x", "t", ADDED),
            ("b", "x", "u", ADDED),
            ("a", "x", "t", MET),
        ],
    ),
    "one signal feeds several": (
        ("a",),
        AllOf((Single("a", "x"), Count(1, SIGS, ("a",)), AllOf((Single("a"),)))),
        [("a", "x", "s", MET)],
    ),
    "and an operator": (
        ("a",),
        AllOf((Single("a"), OperatorOnly())),
        [("a", "x", "s", ADDED), ("a", "x", "s", AGAIN)],
    ),
    "four deep": (
        ("a", "b"),
        AllOf((Single("b", "y"), AllOf((AllOf((Count(1, WAITS, ("a",), "x"),)),)))),
        [("a", "y", "s", WRONG), ("a", "x", "s", ADDED), ("b", "y", "s", MET)],
    ),
    "exclamation in names": (
        ("a#:b",),
        Count(2, SIGS, ("a#:b",)),
        [("a#:b", "leaf:", "#", ADDED), ("a#:b", "'", '"', MET)],
    ),
}


@pytest.mark.parametrize(("keys", "condition", "steps"), CASES.values(), ids=CASES.keys())
async def test_conditions(
    engine: Engine,
    clock: ManualClock,
    keys: tuple[str, ...],
    condition: Condition,
    steps: list[Step],
) -> None:
    await seed(engine)
    parked = await park(engine, *keys, resume_condition=condition)
    tokens = {w.waitpoint_token for w in parked.by_key.values()}
    assert len(tokens) == len(keys)
    await play(engine, parked, steps)
    heard, found = await signals(engine, parked.ident), await suspension(engine, parked.ident)
    assert sorted(s.observed_effect for s in heard) == sorted(step[3] for step in steps)
    counted = {str(s.signal_id) for s in heard if s.observed_effect in (MET, ADDED)}
    if steps[-1][3] == MET:
        assert await closed_for(engine, parked.ident) == ("resumed", {"resumed"})
        (closer,) = (s.signal_id for s in heard if s.observed_effect == MET)
        assert found.closer_signal_id == closer
    if not isinstance(condition, Single | OperatorOnly):
        assert set(json.loads(found.satisfier_signal_ids)) == counted
    for key, bound in parked.by_key.items():
        stored = await waitpoint(engine, parked.ident, bound)
        assert stored.signal_count == sum(step[0] == key for step in steps)
        matched = sum(step[0] == key and step[3] in (ADDED, AGAIN, MET) for step in steps)
        assert (
            isinstance(condition, Single | OperatorOnly) or stored.matched_signal_count == matched
        )
    await sound(engine)


async def test_a_waitpoint_that_no_node_listens_on(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, "bound", resume_condition=Count(1, SIGS, ("elsewhere",)))
    await play(engine, parked, [("bound", "x", "s", NOWHERE)])
    assert (await waitpoint(engine, parked.ident, parked.waitpoint)).matched_signal_count == 0
    assert len(await engine.observe_signals(parked.handle)) == 1


async def test_only_its_time_ends_it(engine: Engine, clock: ManualClock) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=TimeoutOnly(), timeout_at=clock() + 5)
    await play(engine, parked, [("wp", "x", "s", ADDED)])
    clock.advance(5)
    assert await engine.expire_suspension(parked.ident) == "failed"


async def test_the_same_signal_again_is_no_other_signal(engine: Engine) -> None:
    await seed(engine)
    parked = await park(engine, resume_condition=Count(2, SIGS, ("wp",)))
    one = other_uuid()
    assert await signal(engine, parked, signal_id=one) == ADDED
    assert await signal(engine, parked, signal_id=one) == AGAIN
    assert len(await signals(engine, parked.ident)) == 1
    assert await signal(engine, parked) == MET
    await sound(engine)
