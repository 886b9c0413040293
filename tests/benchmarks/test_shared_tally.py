"""Workers of several processes share a tally."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest
from benchmarks.peers.protocol import SharedTally

_WORKER = """
import sys
from pathlib import Path
from benchmarks.peers.protocol import SharedTally
tally = SharedTally(Path(sys.argv[1]))
for _ in range(3):
    tally.start()
    tally.finish()
"""


async def test_the_time_is_from_the_first_start_to_the_last_end_of_any_process(
    tmp_path: Path,
) -> None:
    own = SharedTally(tmp_path)
    began = time.perf_counter()
    own.start()
    started = time.perf_counter()
    for _ in range(2):
        worker = await asyncio.create_subprocess_exec(sys.executable, "-c", _WORKER, str(tmp_path))
        assert await worker.wait() == 0
    ending = time.perf_counter()
    own.finish()
    ended = time.perf_counter()
    seconds = await SharedTally(tmp_path).seconds(7)
    assert ending - started <= seconds <= ended - began


async def test_it_waits_for_the_last(tmp_path: Path) -> None:
    tally = SharedTally(tmp_path)
    counting = asyncio.ensure_future(SharedTally(tmp_path).seconds(2))
    tally.start()
    tally.finish()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(counting), 0.05)
    tally.finish()
    assert await counting > 0
