"""Calls that carry the units of several callers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from flowfabric.errors import TransportError
from flowfabric.store.valkey.coalescer import MAX_WEIGHT, Coalescer
from flowfabric.store.valkey.units import Done, Unit


class Server:
    """Answers a call when it is told to."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[bytes], asyncio.Future[None]]] = []
        self.coalescer = Coalescer(self._run)

    async def _run(self, units: Sequence[Unit]) -> list[Done]:
        answered = asyncio.get_running_loop().create_future()
        self.calls.append(([unit.packed for unit in units], answered))
        await answered
        return [Done(0, [unit.packed], []) for unit in units]

    def submit(self, *names: str, weight: int = 1) -> list[asyncio.Future[Done]]:
        return [self.coalescer.submit(Unit(name.encode(), weight, (), {})) for name in names]

    def sent(self) -> list[str]:
        return [b"".join(names).decode() for names, _ in self.calls]

    async def answer(self, error: Exception | None = None) -> None:
        """Answers the last call, and waits for what follows from it."""
        call = self.calls[-1][1]
        call.set_exception(error) if error else call.set_result(None)
        await settled()

    async def answer_all(self) -> None:
        while not self.calls[-1][1].done():
            await self.answer()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_units_are_sent_in_their_order_one_call_at_a_time() -> None:
    server = Server()
    first = server.submit("a")
    await settled()
    others = server.submit("b", "c", "d", "e")
    await settled()
    assert server.sent() == ["a"]
    await server.answer()
    await server.answer_all()
    assert "".join(server.sent()) == "abcde"
    assert [each.result().answers for each in (*first, *others)] == [[b"%c" % c] for c in b"abcde"]


async def test_a_call_takes_half_so_that_the_next_is_under_way_while_callers_go_on() -> None:
    server = Server()
    waiting = server.submit(*"abcdefgh")
    await settled()
    assert server.sent() == ["abcd"]
    under_way: list[list[str]] = []
    waiting[0].add_done_callback(lambda _: under_way.append(server.sent()))
    await server.answer()
    assert under_way == [["abcd", "efgh"]]


async def test_a_call_has_a_bounded_weight_and_at_least_one_unit() -> None:
    server = Server()
    server.submit(*"abcdef", weight=MAX_WEIGHT // 2)
    server.submit("g", weight=MAX_WEIGHT * 2)
    await settled()
    await server.answer_all()
    assert server.sent() == ["ab", "cd", "ef", "g"]


async def test_the_error_of_a_call_reaches_its_callers_and_no_others() -> None:
    server = Server()
    waiting = server.submit(*"abcd")
    await settled()
    await server.answer(TransportError("valkey", "gone"))
    await server.answer_all()
    for each in waiting[:2]:
        with pytest.raises(TransportError, match="gone"):
            each.result()
    assert [each.result().answers for each in waiting[2:]] == [[b"c"], [b"d"]]


async def test_a_cancelled_caller_does_not_affect_the_others_of_its_call() -> None:
    server = Server()
    waiting = server.submit(*"abcd")
    await settled()
    waiting[0].cancel()
    await server.answer()
    assert waiting[1].result().answers == [b"b"]
    await server.answer_all()
    await server.coalescer.finish()
    assert waiting[3].done()
