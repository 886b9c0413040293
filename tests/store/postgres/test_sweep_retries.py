"""A sweep whose rows were taken between read and lock is repeated while more rows match."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest

from flowfabric.plan import Arg, Form, Pick, Update
from flowfabric.store.postgres.effects import Effects
from flowfabric.store.postgres.executor import statement_of
from flowfabric.store.postgres.sweeps import MAX_ATTEMPTS, run_sweeps

TAKE = Form(
    "t_look_again",
    Update("ff_exec_core", (), {"priority": 1}),
    pick=Pick("ready", group={"lane_id": Arg("lane"), "namespace": "default", "gate": ""}),
    returning=("priority",),
)


class Answers:
    """A session that answers claims and probes from two lists."""

    def __init__(self, claims: list[list[Any]], there_is_more: list[bool]) -> None:
        self._claims, self._more = claims, there_is_more
        self.asked = 0

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        if sql == statement_of(TAKE).probe:
            self.asked += 1
            return [(0,)] if self._more.pop(0) else []
        return self._claims.pop(0)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return nullcontext()


@pytest.mark.parametrize(
    ("claims", "more", "found", "asked"),
    [
        ([[(5, 1, 1, 7)]], [], [(7,)], 0),
        ([[]], [False], [], 1),
        ([[], [(5, 1, 1, 7)]], [True], [(7,)], 1),
        ([[] for _ in range(MAX_ATTEMPTS)], [True] * MAX_ATTEMPTS, [], MAX_ATTEMPTS),
    ],
)
async def test_an_empty_sweep_is_repeated_only_while_more_rows_match(
    claims: list[list[Any]], more: list[bool], found: list[Any], asked: int
) -> None:
    session = Answers(claims, more)
    assert await run_sweeps(session, [(TAKE(lane="a"), 1)], None, Effects()) == [found]
    assert (session.asked, claims) == (asked, [])
