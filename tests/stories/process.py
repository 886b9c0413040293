"""A process in a test: engine, worker and loops on a shared store, and a point at which it
stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric import App, Worker
from flowfabric.engine.engine import Engine
from flowfabric.loops.loop import Loop
from flowfabric.loops.supervisor import Supervisor
from flowfabric.store.port import Store
from tests.patience import patience

LEASE = "10m"
LEASE_MS = 600_000
MAX_PASSES, UNTIMED_PASSES = 200, 2
PROJECTOR = "flow_projector"
"""It sums up every unfinished flow in every pass; no story waits for that."""
WRITES = ("commit", "commit_together", "commit_many", "sweep", "sweeps", "commit_and_sweep")
READS = ("load", "now_ms", "next_due", "read_events", "last_event")
PATIENCE_S = 60.0


class Gate:
    """A store as one process sees it. At the n-th write, before it or right after it, the process
    stops.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.writes = 0
        self.halted, self.thawed = asyncio.Event(), asyncio.Event()
        self._at, self._after, self._is_dead = -1, False, False
        for name in (*WRITES, *READS):
            setattr(self, name, self._through(getattr(store, name), counts=name in WRITES))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def at(self, write: int, *, after: bool) -> None:
        """Sets the point, counted from now."""
        self._at, self._after = self.writes + write, after

    def disarm(self) -> None:
        self._at = -1

    def halt(self) -> None:
        self.disarm()
        self.thawed.clear()
        self.halted.set()

    def thaw(self) -> None:
        self.halted.clear()
        self.thawed.set()

    def _through(
        self, call: Callable[..., Awaitable[Any]], *, counts: bool
    ) -> Callable[..., Awaitable[Any]]:
        async def asked(*args: Any, **kwargs: Any) -> Any:
            here = False
            if counts:
                self.writes += 1
                here = self.writes == self._at
            if here and not self._after:
                self.halt()
            await self._stand()
            answer = await call(*args, **kwargs)
            if here and self._after:
                self.halt()
            await self._stand()
            return answer

        return asked

    def die(self) -> None:
        """Ends every later call and every stopped one."""
        self._is_dead = True
        self.halt()
        self.thawed.set()

    async def _stand(self) -> None:
        if self.halted.is_set():
            await self.thawed.wait()
        if self._is_dead:
            raise asyncio.CancelledError("the process died")


class Process:
    """It works and leads, unless only one of the two is requested."""

    def __init__(
        self, store: Store, app: Callable[[Engine], App], *, works: bool = True, leads: bool = True
    ) -> None:
        self.gate = Gate(store)
        self.engine = Engine(self.gate, seed=1)  # type: ignore[arg-type]
        self.app = app(self.engine)
        self.worker = Worker(self.app, loops=False, lease=LEASE, concurrency=4) if works else None
        self.loops = Supervisor(self.engine).loops if leads else []
        self._passing: asyncio.Task[int] | None = None

    async def settle(self) -> int | None:
        """Everything that it can do without advancing the clock, as a count; None when it
        stopped.
        """
        passing = self._passing = asyncio.create_task(self._settled())
        halting = asyncio.create_task(self.gate.halted.wait())
        await asyncio.wait(
            {passing, halting}, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED
        )
        halting.cancel()
        if not passing.done():
            assert self.gate.halted.is_set(), "it does not come to rest"
            return None
        self._passing = None
        return passing.result()

    async def _settled(self) -> int:
        """Loops without a due time may find work in every run, so their runs are limited."""
        done, left = 0, UNTIMED_PASSES
        for _ in range(MAX_PASSES):
            now = await self.engine.store.now_ms()
            dues = await self._dues()
            some = sum(
                [
                    await loop.run(self.engine)
                    for loop, due in dues.items()
                    if due is not None and due <= now
                ]
            )
            if self.worker is not None:
                some += await self.worker.run_until_idle()
            if not some and left:
                left -= 1
                others = [loop for loop in self.loops if not loop.timed]
                some = sum(
                    [await loop.run(self.engine) for loop in others if loop.name != PROJECTOR]
                )
            if not some:
                return done
            done += some
        raise AssertionError(f"after {MAX_PASSES} passes there is still work at this very moment")

    async def _dues(self) -> dict[Loop, int | None]:
        """The next due time of each loop; read together, so that they share a round trip."""
        timed = [loop for loop in self.loops if loop.timed]
        return dict(
            zip(
                timed,
                await asyncio.gather(*(loop.next_due(self.engine) for loop in timed)),
                strict=True,
            )
        )

    async def next_due(self) -> int | None:
        """The next time at which it has to run."""
        now = await self.engine.store.now_ms()
        return min(
            (due for due in (await self._dues()).values() if due is not None and due > now),
            default=None,
        )

    async def die(self) -> None:
        """Its pending write never happens, and its leases expire."""
        self.gate.die()
        await self._drop()

    async def leave(self) -> None:
        """Stops as in a deploy: running work is finished or given back."""
        self.gate.thaw()
        await self._drop()
        if self.worker is not None:
            await asyncio.wait_for(self.worker.stop("0s"), patience(PATIENCE_S))

    async def go_on(self) -> None:
        """Continues a stopped process with its pending write."""
        self.gate.thaw()
        if self._passing is not None:
            passing, self._passing = self._passing, None
            await asyncio.wait_for(passing, patience(PATIENCE_S))
        await self.settle()

    async def _drop(self) -> None:
        if self._passing is not None:
            self._passing.cancel()
            await asyncio.wait({self._passing}, timeout=PATIENCE_S)
            self._passing = None
