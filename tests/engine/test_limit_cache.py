"""The gates of a lane are cached: one read for concurrent callers, and a new read after
a wake-up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.rules.limits.limit_scopes import GATES
from flowfabric.store.port import Loaded, Read, Scan
from tests.patience import patient

from .helpers import LANE
from .limit_helpers import quota_lane, several


class Looks:
    """Counts the reads of a lane's gates; each is answered when `through` is set."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.through = 0, asyncio.Event()
        load = engine.store.load

        async def counted(reads: Sequence[Read]) -> Loaded:
            if isinstance(reads[0], Scan) and reads[0].index == "lane_gates":
                self.count += 1
                loaded = await load(reads)
                await self.through.wait()
                return loaded
            return await load(reads)

        monkeypatch.setattr(engine.store, "load", counted)

    async def begun(self, times: int) -> None:
        async with patient(10):
            while self.count < times:  # noqa: ASYNC110
                await asyncio.sleep(0)


async def test_concurrent_callers_share_one_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(engine, monkeypatch)
    asking = [
        asyncio.ensure_future(engine.parts.limit_cache.gates(LANE, "default")) for _ in range(16)
    ]
    await looks.begun(1)
    looks.through.set()
    assert await asyncio.gather(*asking) == [()] * 16
    assert looks.count == 1
    engine.store.hub.ring([(GATES, LANE)])
    before = looks.count
    await asyncio.gather(*(engine.parts.limit_cache.gates(LANE, "default") for _ in range(16)))
    assert looks.count == before + 1


async def test_a_caller_after_a_wakeup_shares_no_earlier_read(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(engine, monkeypatch)
    early: Any = asyncio.ensure_future(engine.parts.limit_cache.gates(LANE, "default"))
    await looks.begun(1)
    limit = await quota_lane(engine, cap=1)
    await several(engine, 1)
    late: Any = asyncio.ensure_future(engine.parts.limit_cache.gates(LANE, "default"))
    await looks.begun(2)
    looks.through.set()
    assert await late == (str(limit),)
    await early
    assert await engine.parts.limit_cache.gates(LANE, "default") == (str(limit),)
