"""Follows two channels. It logs each event, then saves its cursor; a later process resumes from
there.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random
from typing import Any

from flowfabric import Engine
from flowfabric.codec.event_cursor import BEGINNING
from flowfabric.engine.events.subscriptions import Subscription
from flowfabric.errors import EngineError, StreamDisconnected
from flowfabric.model.event import COMPLETION_EVENTS, LEASE_EVENTS, CompletionEvent, LeaseEvent

from .child import Setup, die
from .logs import Log

SAVE_EVERY_S = 0.03
PAUSE_S = 0.1


def cursor_file(folder: str | Path, channel: str) -> Path:
    return Path(folder) / f"{channel}.cursor"


def saved_cursor(folder: str | Path, channel: str) -> bytes:
    path = cursor_file(folder, channel)
    return path.read_bytes() if path.exists() else BEGINNING


def as_line(event: Any) -> dict[str, Any]:
    """An event in its logged form."""
    line = {"cursor": event.cursor.hex(), "execution": event.execution_id, "at": event.at}
    if isinstance(event, CompletionEvent):
        return {**line, "outcome": event.outcome}
    assert isinstance(event, LeaseEvent)
    return {
        **line,
        "type": event.kind,
        "epoch": event.lease_epoch,
        "worker": event.worker_instance_id,
    }


class Follower:
    """One channel. May be armed to die between an event and the saving of its cursor."""

    def __init__(self, setup: Setup, log: Log, channel: str) -> None:
        self._setup, self._log, self._channel = setup, log, channel
        rng = Random(f"{setup.seed}/{setup.instance}/{channel}")
        self._dies_after = rng.randint(5, 300) if rng.random() < 0.4 else -1
        self._seen = self._saved = saved_cursor(setup.folder, channel)

    async def follow(self, engine: Engine) -> None:
        self._log.write("resume", self._channel, cursor=self._seen.hex())
        subscription: Subscription[Any]
        if self._channel == COMPLETION_EVENTS:
            subscription = engine.subscribe_completion(self._seen)
        else:
            subscription = engine.subscribe_lease_history(self._seen)
        while True:
            try:
                await self._receive(subscription)
            except EngineError as error:
                if not error.retryable and not isinstance(error, StreamDisconnected):
                    raise
                self._log.write("note", "again", what=self._channel)
                await asyncio.sleep(PAUSE_S)

    async def _receive(self, subscription: Subscription[Any]) -> None:
        async for event in subscription:
            self._log.write("event", self._channel, **as_line(event))
            self._dies_after -= 1
            if self._dies_after == 0 and self._setup.may_die:
                self._log.write("note", "trap", point="before_cursor_saved")
                die()
            self._seen = subscription.cursor

    def save(self) -> None:
        if self._saved != self._seen:
            path = cursor_file(self._setup.folder, self._channel)
            fresh = path.with_suffix(".fresh")
            fresh.write_bytes(self._seen)
            os.replace(fresh, path)
            self._saved = self._seen


async def main(setup: Setup, engine: Engine, log: Log, stop: asyncio.Event) -> None:
    followers = [Follower(setup, log, channel) for channel in (COMPLETION_EVENTS, LEASE_EVENTS)]
    tasks = [asyncio.create_task(follower.follow(engine)) for follower in followers]
    while not stop.is_set():
        await asyncio.sleep(SAVE_EVERY_S)
        for follower, task in zip(followers, tasks, strict=True):
            follower.save()
            if task.done():
                task.result()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
