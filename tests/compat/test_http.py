"""Every recorded request to the original is answered as one of its backends does, or
docs/compatibility.md says why not.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from flowfabric.engine.engine import Engine
from flowfabric.testing import ManualClock
from tests.compat.recorded import BACKENDS, REPLAYED, Answered, Exchange, alike, answered, recorded
from tests.compat.replaying import Replay
from tests.server.client import served, stores

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
ROW = re.compile(r"\| (`.+`) \| ([\d, ]+) \| ([\d, ]+) \| (.+) \|")
STEP = re.compile(r"`([^`]+)`")


class Difference(Struct, frozen=True):
    original: frozenset[int]
    here: int
    why: str


@cache
def runs() -> dict[str, dict[str, Exchange]]:
    return {backend: {each.step: each for each in recorded(backend)} for backend in BACKENDS}


def of_step(step: str) -> list[Answered]:
    """By the backends of the original that were asked this."""
    found = [run[step] for run in runs().values() if step in run]
    return [answered(each.status, each.body) for each in found]


@cache
def listed() -> dict[str, Difference]:
    """The table of the page. A row of several steps has one status for all of them, or one for
    each.
    """
    table: dict[str, Difference] = {}
    for steps, original, here, why in ROW.findall(PAGE.read_text(encoding="utf-8")):
        names, statuses = STEP.findall(steps), _numbers(here)
        for name, status in zip(
            names, statuses if len(statuses) > 1 else statuses * len(names), strict=True
        ):
            assert name not in table, f"{name} stands there twice"
            table[name] = Difference(frozenset(_numbers(original)), status, why)
    return table


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


@stores
async def test_every_recorded_request_is_answered_alike_or_listed(
    engine: Engine, clock: ManualClock
) -> None:
    run, different = list(runs()[REPLAYED].values()), dict[str, Answered]()
    async with served(engine) as client:
        replay = Replay(engine, client, run, clock.now_ms)
        for exchange in run:
            ours = await replay.send(exchange)
            if not any(alike(ours, theirs) for theirs in of_step(exchange.step)):
                different[exchange.step] = ours
    unlisted = {
        step: (ours, of_step(step)) for step, ours in different.items() if step not in listed()
    }
    assert not unlisted
    assert set(listed()) - set(different) == set(), "these are listed, and equal"
    assert {step: ours.status for step, ours in different.items()} == {
        step: listed()[step].here for step in different
    }


def test_the_table_tells_what_the_original_answers() -> None:
    assert len(runs()[REPLAYED]) > 300
    for step, difference in listed().items():
        assert difference.original == {each.status for each in of_step(step)}, step


def test_the_backends_of_the_original_were_asked_the_same() -> None:
    """But for a page of a listing that its SQLite does not have."""
    wanted = list(runs()[REPLAYED])
    for backend in BACKENDS:
        missing = {"list next"} if backend == "sqlite" else set()
        assert list(runs()[backend]) == [step for step in wanted if step not in missing]


CREATED = {
    "Created": {
        "execution_id": "{fp:1}:4747963f-75b2-4155-8f2f-fefe3f6447e2",
        "public_state": "waiting",
    }
}
CONTENTION = {"error": "contention: StaleGraphRevision", "kind": "contention", "retryable": True}


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        (
            (201, CREATED),
            (
                201,
                {
                    "Created": {
                        **CREATED["Created"],
                        "execution_id": "{fp:9}:" + "0" * 8 + "-0000" * 3 + "-" + "0" * 12,
                    }
                },
            ),
            True,
        ),
        ((200, CREATED), (201, CREATED), False),
        (
            (201, CREATED),
            (201, {"Created": {**CREATED["Created"], "public_state": "delayed"}}),
            False,
        ),
        ((201, CREATED), (201, {"Created": {"public_state": "waiting"}}), False),
        ((201, {**CREATED, "more": 1}), (201, CREATED), False),
        ((200, {"now": 1_794_846_409_091}), (200, {"now": 1_794_846_400_000}), True),
        ((200, {"now": 1_794_846_409_091}), (200, {"now": "1794846409091"}), False),
        ((200, {"count": 3}), (200, {"count": 4}), False),
        ((200, [1, 2]), (200, [1]), False),
        ((409, {**CONTENTION, "title": "Conflict"}), (409, CONTENTION), True),
        ((409, {**CONTENTION, "retryable": False}), (409, CONTENTION), False),
        ((409, {**CONTENTION, "kind": "conflict"}), (409, CONTENTION), False),
        ((409, {**CONTENTION, "error": "terminal: Terminal"}), (409, CONTENTION), False),
        ((404, {"error": "not found: flow"}), (404, {"error": "not found: execution"}), False),
        ((400, {"error": "invalid_input: limit"}), (400, {"error": "limit must be >= 1"}), True),
        ((400, {"error": "limit: 1 to 1000"}), (400, {"error": "invalid_input: limit"}), False),
        ((400, {"error": "invalid query"}), (400, {"_text": "Failed to deserialize"}), True),
        ((404, {"error": "no such path"}), (405, {"_text": ""}), False),
    ],
)
def test_what_counts_as_alike(ours: tuple[int, Any], theirs: tuple[int, Any], same: bool) -> None:
    assert alike(answered(*ours), answered(*theirs)) is same
