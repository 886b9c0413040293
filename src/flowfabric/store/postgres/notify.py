"""Wake-ups between processes: after commits, together where they come often, from a connection of their own.

Where nobody else listens, nothing is told.

NOTIFY inside a writing transaction makes commits wait for each other, so it stays out of them. What is lost here costs
time only: whoever waits also looks now and then by himself.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

import asyncpg
import msgspec

from flowfabric.store.postgres.errors import TROUBLE
from flowfabric.store.postgres.executor import Effects
from flowfabric.store.postgres.presence import LOOK_FOR_YOURSELF, Presence, Word
from flowfabric.store.schema import TABLES
from flowfabric.store.wakeups import Topic, Wakeups

log = logging.getLogger("flowfabric.postgres")

PAUSE_S = 0.01
BURST = 20.0
SOON_MS = 5_000
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0
MAX_TOPICS = 100
MAX_BYTES = 7_500
LEAVE_S = 1.0
GUEST = "transaction"
"""How somebody's own transaction signs, which listens to nothing."""
PATIENCE_S = 0.02
"""News that hardly anybody waits for rides with other news, or comes a little later."""
NOTIFY = "SELECT pg_notify($1, $2)"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Notifier:
    """Tells other processes what was committed here, and rings the hub for what was committed there."""

    def __init__(
        self, connect: Callable[[], Awaitable[asyncpg.Connection]], hub: Wakeups, channel: str
    ) -> None:
        self._connect, self._hub, self._channel = connect, hub, channel
        self._me = secrets.token_hex(4)
        self._loop = asyncio.get_running_loop()
        self._pending = Effects()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._later: asyncio.TimerHandle | None = None
        self._company = Presence(asyncio.get_running_loop().time)
        self._words: list[Word] = []
        self._is_leaving = self._is_listening = False
        self.sent = self.heard = 0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="flowfabric-postgres-bell")

    async def stop(self) -> None:
        if self._later is not None:
            self._later.cancel()
        if self._task is not None:
            has_news = bool(self._pending.topics or self._pending.dues)
            if self._company.may_listen and (self._is_listening or has_news):
                self._is_leaving = True
                self._say("bye")
                await asyncio.wait({self._task}, timeout=LEAVE_S)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def tell(self, effects: Effects, now_ms: int) -> None:
        """To be told to the others as soon as the last telling is through. Loops see by themselves what is far away."""
        if self._task is None or not self._company.may_listen:
            return
        soon = {timer: at_ms for timer, at_ms in effects.dues.items() if at_ms - now_ms < SOON_MS}
        if not effects.topics and not soon:
            return
        self._pending.merge(effects.topics, soon)
        if soon or any(_is_urgent(name) for name, _ in effects.topics):
            self._wanted.set()
        elif self._later is None:
            self._later = asyncio.get_running_loop().call_later(PATIENCE_S, self._tell_now)

    def tell_from_afar(self, effects: Effects, now_ms: int) -> None:
        """As `tell`, from another thread."""
        if self._task is not None and self._company.may_listen:
            with suppress(RuntimeError):  # that loop is closed
                self._loop.call_soon_threadsafe(self.tell, effects, now_ms)

    def _tell_now(self) -> None:
        self._later = None
        self._wanted.set()

    def _say(self, word: Word) -> None:
        self._words.append(word)
        self._wanted.set()

    async def _run(self) -> None:
        retry = FIRST_RETRY_S
        while True:
            try:
                connection = await self._connect()
                try:
                    await connection.add_listener(self._channel, self._on_notice)
                    self._hub.ring_all_but_timers()  # whatever was said while nobody listened
                    retry = FIRST_RETRY_S
                    log.info(
                        "listening for wake-ups of other processes",
                        extra={"channel": self._channel},
                    )
                    self._is_listening = True
                    self._say(self._company.begin())
                    if await self._tell_until_leaving(connection):
                        await connection.close(timeout=1)
                        return
                finally:
                    self._is_listening = False
                    connection.terminate()  # no await: also runs when an engine that was not closed is collected
                why = "connection lost"
            except TROUBLE as error:
                why = type(error).__name__
            level = (
                logging.WARNING if retry == FIRST_RETRY_S else logging.INFO
            )  # however often it has to be tried, one warning
            log.log(
                level,
                "no wake-ups between processes for now (%s); looking now and then instead",
                why,
            )
            await asyncio.sleep(retry)
            retry = min(retry * 2, LAST_RETRY_S)

    async def _tell_until_leaving(self, connection: asyncpg.Connection) -> bool:
        """False when the connection is lost, which wakes this like anything else there is to tell."""
        connection.add_termination_listener(self._on_lost)
        spared, last = BURST, 0.0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if connection.is_closed():
                return False
            told = await self._tell_now_on(connection)
            if self._is_leaving:
                return True
            if told:
                now = asyncio.get_running_loop().time()
                spared, last = min(spared + (now - last) / PAUSE_S, BURST) - 1, now
                if spared < 1:
                    await asyncio.sleep(PAUSE_S)

    async def _tell_now_on(self, connection: asyncpg.Connection) -> bool:
        """News first: whoever leaves says good-bye behind them."""
        pending, self._pending = self._pending, Effects()
        words, self._words = self._words, []
        if told := bool(pending.topics or pending.dues):
            await connection.execute(NOTIFY, self._channel, message(self._me, pending))
            self.sent += 1
        for word in words:
            await connection.execute(NOTIFY, self._channel, message(self._me, Effects(), word))
        return told

    def _on_lost(self, _connection: Any) -> None:
        self._wanted.set()

    def _on_notice(self, _connection: Any, _pid: int, _channel: str, payload: object) -> None:
        try:
            sender, topics, dues, *words = _decode(str(payload))
        except (msgspec.DecodeError, ValueError):
            log.warning(
                "a wake-up that cannot be read is passed over", extra={"channel": self._channel}
            )
            return
        if sender == self._me:
            return
        word = words[0] if words else ""
        if sender != GUEST and (answer := self._company.hear(sender, word)):
            self._say(answer)
        if word in LOOK_FOR_YOURSELF:
            self._hub.ring_all_but_timers()
        if word:
            return
        self.heard += 1
        self._hub.announce([_topic(*topic) for topic in topics if topic[1] is not None], dues)
        self._hub.ring_named({name for name, key in topics if key is None})


class Relay:
    """For a store on another thread of the same process: what it commits is told by the bell that is there."""

    def __init__(self, bell: Notifier) -> None:
        self.tell = bell.tell_from_afar

    def start(self) -> None:
        """It rings already."""

    async def stop(self) -> None:
        """It is its owner's."""


def _is_urgent(topic: str) -> bool:
    return topic not in TABLES or TABLES[topic].urgent


def message(sender: str, effects: Effects, word: Word = "") -> str:
    """Topics with their keys; where there are too many to say, without. A word stands for itself."""
    if word:
        return _encode((sender, (), {}, word)).decode()
    if len(effects.topics) <= MAX_TOPICS:
        text = _encode(
            (sender, [(name, _marked(key)) for name, key in effects.topics], effects.dues)
        )
        if len(text) <= MAX_BYTES:
            return text.decode()
    return _encode(
        (sender, list(dict.fromkeys((name, None) for name, _ in effects.topics)), effects.dues)
    ).decode()


def _marked(key: Any) -> Any:
    """A uuid travels in a list, so that a text that looks like one stays a text."""
    return [key] if isinstance(key, UUID) else key


def _topic(name: str, key: Any) -> Topic:
    return name, UUID(key[0]) if isinstance(key, list) else key
