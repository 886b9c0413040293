"""A call that is under way is shared."""

from __future__ import annotations

import asyncio

import pytest

from flowfabric.store.single_flight import SingleFlight
from tests.patience import patient


class Call:
    """Counts its starts; the test ends it."""

    def __init__(self) -> None:
        self.begun = 0
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def __call__(self) -> str:
        self.begun += 1
        return await self.end


async def begun(call: Call, times: int) -> None:
    async with patient(10):
        while call.begun < times:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_concurrent_callers_share_one_call_and_a_later_one_begins_another() -> None:
    shared, call = SingleFlight(), Call()
    asking = [asyncio.ensure_future(shared.once("a", call)) for _ in range(5)]
    await begun(call, 1)
    asking.append(asyncio.ensure_future(shared.once("a", call)))
    call.end.set_result("done")
    assert await asyncio.gather(*asking) == ["done"] * 6
    assert call.begun == 1
    assert await shared.once("a", call) == "done"
    assert call.begun == 2


async def test_another_key_is_another_call() -> None:
    shared, call = SingleFlight(), Call()
    asking = [asyncio.ensure_future(shared.once(key, call)) for key in ("a", "b", "a")]
    await begun(call, 2)
    call.end.set_result("done")
    await asyncio.gather(*asking)
    assert call.begun == 2


async def test_a_cancelled_caller_does_not_cancel_the_call() -> None:
    shared, call = SingleFlight(), Call()
    first, second = (asyncio.ensure_future(shared.once("a", call)) for _ in range(2))
    await begun(call, 1)
    first.cancel()
    await asyncio.wait([first])
    call.end.set_result("done")
    assert await second == "done" and first.cancelled()


async def test_a_failure_reaches_all_callers_and_is_not_cached() -> None:
    shared, call, better = SingleFlight(), Call(), Call()
    asking = [asyncio.ensure_future(shared.once("a", call)) for _ in range(2)]
    await begun(call, 1)
    call.end.set_exception(RuntimeError("injected"))
    for each in asking:
        with pytest.raises(RuntimeError, match="injected"):
            await each
    better.end.set_result("done")
    assert await shared.once("a", better) == "done"
