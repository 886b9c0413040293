"""Wake-ups between processes: LISTEN and NOTIFY on a connection of their own.

A commit does not contain NOTIFY, which would make commits wait for each other: notifications are
sent after it, several together when they are frequent, and none while no other process listens. A
lost notification costs time only, since waiters also poll.
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

from flowfabric.store.postgres.effects import Effects
from flowfabric.store.postgres.errors import POSTGRES_ERRORS
from flowfabric.store.postgres.presence import MAY_HAVE_MISSED, Presence, Word
from flowfabric.store.schema import TABLES
from flowfabric.store.wakeups import Topic, Wakeups

log = logging.getLogger("flowfabric.postgres")

PAUSE_S = 0.01
BURST = 20.0
SOON_MS = 5_000
FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0
MAX_TOPICS = 100
MAX_BYTES = 7_500
STOP_TIMEOUT_S = 1.0
CALLERS_TRANSACTION = "transaction"
"""The sender name of a caller's own transaction, which does not listen."""
MAX_DELAY_S = 0.02
"""How long a notification that is not urgent waits to be sent with others."""
NOTIFY = "SELECT pg_notify($1, $2)"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Notifier:
    """Notifies other processes of commits here, and rings the hub for commits there."""

    def __init__(
        self, connect: Callable[[], Awaitable[asyncpg.Connection]], hub: Wakeups, channel: str
    ) -> None:
        self._connect, self.hub, self._channel = connect, hub, channel
        self.id = secrets.token_hex(4)
        self._loop = asyncio.get_running_loop()
        self.presence = Presence(self._loop.time)
        self.pending = Effects()
        self.is_leaving = self.is_listening = False
        self.sent = self.received = 0
        self._words: list[Word] = []
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._delayed: asyncio.TimerHandle | None = None
        self._connection: asyncpg.Connection | None = None

    @property
    def will_send(self) -> bool:
        """The next round trip is due, without a further delay."""
        return self._wanted.is_set()

    def start(self) -> None:
        self.is_leaving = False
        self._task = asyncio.create_task(self._run(), name="flowfabric-postgres-notifier")

    async def stop(self) -> None:
        """Sends what is pending, when another process may listen."""
        if self._delayed is not None:
            self._delayed.cancel()
        if self._task is not None:
            if self.presence.others_may_listen and (self.is_listening or self.pending):
                self.is_leaving = True
                self._say("bye")
                await asyncio.wait({self._task}, timeout=STOP_TIMEOUT_S)
            self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None

    def publish(self, effects: Effects, now_ms: int) -> None:
        """Queues a notification. Times far ahead are left to the interval of the loops."""
        if self._task is None or not self.presence.others_may_listen:
            return
        soon = {timer: at_ms for timer, at_ms in effects.dues.items() if at_ms - now_ms < SOON_MS}
        if not effects.topics and not soon:
            return
        self.pending.merge(effects.topics, soon)
        if soon or any(_is_urgent(name) for name, _ in effects.topics):
            self._wanted.set()
        elif self._delayed is None:
            self._delayed = asyncio.get_running_loop().call_later(MAX_DELAY_S, self._send_delayed)

    def publish_threadsafe(self, effects: Effects, now_ms: int) -> None:
        """`publish` from another thread."""
        if self._task is not None and self.presence.others_may_listen:
            with suppress(RuntimeError):  # the event loop is closed
                self._loop.call_soon_threadsafe(self.publish, effects, now_ms)

    def reconnect_threadsafe(self) -> None:
        """Ends the connection, so that the next one is made to the server that takes writes."""
        with suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(self._hang_up)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.terminate()

    def _send_delayed(self) -> None:
        self._delayed = None
        self._wanted.set()

    def _say(self, word: Word) -> None:
        self._words.append(word)
        self._wanted.set()

    async def _run(self) -> None:
        retry = FIRST_RETRY_S
        while True:
            try:
                connection = self._connection = await self._connect()
                try:
                    await connection.add_listener(self._channel, self.on_notification)
                    self.hub.ring_all_but_timers()  # for notifications that were missed so far
                    retry = FIRST_RETRY_S
                    log.info(
                        "listening for wake-ups of other processes",
                        extra={"channel": self._channel},
                    )
                    self.is_listening = True
                    self._say(self.presence.begin())
                    if await self._send_until_leaving(connection):
                        await connection.close(timeout=1)
                        return
                finally:
                    self.is_listening, self._connection = False, None
                    # Not awaited: this also runs when an engine that was not closed is collected.
                    connection.terminate()
                reason = "connection lost"
            except POSTGRES_ERRORS as error:
                reason = type(error).__name__
            log.log(
                logging.WARNING if retry == FIRST_RETRY_S else logging.INFO,
                "wake-ups of other processes are unavailable; waiters poll until the next try",
                extra={"channel": self._channel, "reason": reason},
            )
            await asyncio.sleep(retry)
            retry = min(retry * 2, LAST_RETRY_S)

    async def _send_until_leaving(self, connection: asyncpg.Connection) -> bool:
        """False when the connection is lost. Bursts are allowed; then a pause follows each send."""
        connection.add_termination_listener(self._on_lost)
        credit, last = BURST, 0.0
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if connection.is_closed():
                return False
            sent = await self._send(connection)
            if self.is_leaving:
                return True
            if sent:
                now = asyncio.get_running_loop().time()
                credit, last = min(credit + (now - last) / PAUSE_S, BURST) - 1, now
                if credit < 1:
                    await asyncio.sleep(PAUSE_S)

    async def _send(self, connection: asyncpg.Connection) -> bool:
        """The pending wake-ups first, so that `bye` comes after them."""
        pending, self.pending = self.pending, Effects()
        words, self._words = self._words, []
        if pending:
            await connection.execute(NOTIFY, self._channel, message(self.id, pending))
            self.sent += 1
        for word in words:
            await connection.execute(NOTIFY, self._channel, message(self.id, Effects(), word))
        return bool(pending)

    def _on_lost(self, _connection: object) -> None:
        self._wanted.set()

    def on_notification(
        self, _connection: object, _pid: int, _channel: str, payload: object
    ) -> None:
        try:
            sender, topics, dues, *words = _decode(str(payload))
        except (msgspec.DecodeError, ValueError):
            log.warning("unreadable wake-up ignored", extra={"channel": self._channel})
            return
        if sender == self.id:
            return
        word = words[0] if words else ""
        if sender != CALLERS_TRANSACTION and (answer := self.presence.receive(sender, word)):
            self._say(answer)
        if word in MAY_HAVE_MISSED:
            self.hub.ring_all_but_timers()
        if word:
            return
        self.received += 1
        self.hub.announce([_topic(*topic) for topic in topics if topic[1] is not None], dues)
        self.hub.ring_named({name for name, key in topics if key is None})


def _is_urgent(topic: str) -> bool:
    return topic not in TABLES or TABLES[topic].urgent


def message(sender: str, effects: Effects, word: Word = "") -> str:
    """Topics with their keys, or without when there are too many; a word is sent alone."""
    if word:
        return _encode((sender, (), {}, word)).decode()
    if len(effects.topics) <= MAX_TOPICS:
        topics = [(name, _encoded(key)) for name, key in effects.topics]
        text = _encode((sender, topics, effects.dues))
        if len(text) <= MAX_BYTES:
            return text.decode()
    names = list(dict.fromkeys((name, None) for name, _ in effects.topics))
    return _encode((sender, names, effects.dues)).decode()


def _encoded(key: object) -> object:
    """A uuid is sent in a list, to distinguish it from a text that looks like one."""
    return [key] if isinstance(key, UUID) else key


def _topic(name: str, key: Any) -> Topic:
    return name, UUID(key[0]) if isinstance(key, list) else key
