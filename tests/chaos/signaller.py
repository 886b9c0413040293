"""Finds open waitpoints and signals them, some twice, until they are closed."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from random import Random
from typing import Any
from uuid import UUID, uuid5

from flowfabric import Engine, EngineError
from flowfabric.errors import TransportError
from flowfabric.model.waitpoint import (
    DeliverSignalArgs,
    SignalAccepted,
    SignalDuplicate,
    WaitpointListed,
)

from .child import Setup, die
from .logs import Log

PAUSE_S, DEAF_S = 0.04, 1.0
AT_ONCE = 20
DELAYS_MS = (None, None, None, 0, 80)
KEYS = ("a", "b")
"""Of the waits of the plan; those of tasks are answered by their client."""
MET = "resume_condition_satisfied"


class Signaller:
    """May be armed to die right after a signal that resumed an execution, before it is logged."""

    def __init__(self, setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
        self._setup, self._engine, self._log, self._stop = setup, engine, log, stop
        self._rng = Random(f"{setup.seed}/{setup.instance}")
        self._sent: Counter[UUID] = Counter()
        self._deaf: dict[UUID, float] = {}
        self._dies_after = self._rng.randint(1, 15) if self._rng.random() < 0.4 else -1

    async def run(self) -> None:
        """A later process starts again with the first signal of each; its key makes it count
        once.
        """
        while not self._stop.is_set():
            try:
                found = (await self._engine.list_open_waitpoints(limit=200)).items
            except EngineError:
                found = []
            open_ones = [
                each
                for each in found
                if each.waitpoint_key in KEYS and self._hears(each.waitpoint_id)
            ]
            chosen = self._rng.sample(open_ones, min(len(open_ones), AT_ONCE))
            await asyncio.gather(*(self._signal(each) for each in chosen))
            await asyncio.sleep(PAUSE_S)

    def _hears(self, waitpoint: UUID) -> bool:
        """A refused signal is repeated later: the process may have judged by a clock that was set
        since.
        """
        return time.monotonic() >= self._deaf.get(waitpoint, 0.0)

    async def _signal(self, to: WaitpointListed) -> None:
        number = self._sent[to.waitpoint_id]
        self._sent[to.waitpoint_id] += 1
        delay = self._rng.choice(DELAYS_MS)
        try:
            token = await self._engine.read_waitpoint_token(
                to.execution_id.partition_index, to.waitpoint_id
            )
        except EngineError:
            return
        if token is None:
            return
        args = DeliverSignalArgs(
            execution_id=to.execution_id,
            waitpoint_id=to.waitpoint_id,
            signal_id=uuid5(to.waitpoint_id, str(number)),
            waitpoint_token=token,
            signal_name="go",
            source_type="chaos",
            source_identity=str(number),
            idempotency_key=str(number),
            payload=str(number).encode(),
            resume_delay_ms=delay,
        )
        times = 2 if self._rng.random() < 0.2 else 1
        await asyncio.gather(*(self._deliver(args) for _ in range(times)))

    async def _deliver(self, args: DeliverSignalArgs) -> None:
        facts = {
            "execution": args.execution_id,
            "waitpoint": str(args.waitpoint_id),
            "signal": str(args.signal_id),
        }
        while not self._stop.is_set():
            try:
                await self._log.call(
                    "signal", self._engine.deliver_signal(args), self._heard, **facts
                )
                return
            except TransportError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(PAUSE_S)
            except EngineError:
                self._deaf[args.waitpoint_id] = time.monotonic() + DEAF_S
                return

    def _heard(self, answer: SignalAccepted | SignalDuplicate) -> dict[str, Any]:
        if isinstance(answer, SignalAccepted) and answer.effect == MET:
            self._dies_after -= 1
            if self._dies_after == 0 and self._setup.may_die:
                self._log.write("note", "trap", point="after_resume")
                die()
        return heard(answer)


def heard(answer: SignalAccepted | SignalDuplicate) -> dict[str, Any]:
    if isinstance(answer, SignalDuplicate):
        return {"effect": "duplicate", "known": str(answer.existing_signal_id)}
    return {"effect": answer.effect}


async def main(setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
    await Signaller(setup, engine, log, stop).run()
