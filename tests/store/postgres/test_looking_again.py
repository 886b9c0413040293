"""A claim whose rows were taken between its looking and its locking looks again; one that finds nothing to take does not."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

import pytest

from flowfabric.plan import Arg, Form, Pick, Update
from flowfabric.store.postgres.executor import Effects, text_of
from flowfabric.store.postgres.sweeps import MAX_LOOKS, run_sweeps

TAKE = Form(
    "t_look_again",
    Update("ff_exec_core", (), {"priority": 1}),
    pick=Pick("ready", group={"lane_id": Arg("lane"), "namespace": "default", "gate": ""}),
    returning=("priority",),
)


class Answers:
    """A session that answers the claims and the questions in between from two lists."""

    def __init__(self, claims: list[list[Any]], there_is_more: list[bool]) -> None:
        self._claims, self._more = claims, there_is_more
        self.asked = 0

    async def fetch(self, sql: str, *args: Any) -> Sequence[Any]:
        if sql == text_of(TAKE).probe:
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
        ([[] for _ in range(MAX_LOOKS)], [True] * MAX_LOOKS, [], MAX_LOOKS),
    ],
)
async def test_an_empty_claim_looks_again_only_while_there_is_more(
    claims: list[list[Any]], more: list[bool], found: list[Any], asked: int
) -> None:
    session = Answers(claims, more)
    assert await run_sweeps(session, [(TAKE(lane="a"), 1)], None, Effects()) == [found]
    assert (session.asked, claims) == (asked, [])
