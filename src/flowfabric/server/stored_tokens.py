"""Callers by the tokens in the store.

A server checks a token in its copy of the table, which is never older than `MAX_AGE_S`. A revoked
token is therefore refused within 5 s, and an unknown token costs no read of the database. Callers
read the copy again while they use it; without callers there are no reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from uuid import UUID

from msgspec import Struct

from flowfabric.codec.api_token import digest_of, is_token
from flowfabric.engine.local_protocol import LocalEngineProtocol
from flowfabric.errors import EngineError
from flowfabric.model.api_token import (
    IMPLIED_ROLES,
    USED_EVERY_MS,
    ApiTokenRow,
    TokenTable,
    has_passed,
)
from flowfabric.server.auth import Caller
from flowfabric.store.single_flight import SingleFlight

log = logging.getLogger("flowfabric.server")

REFRESH_S = 2.0
MAX_AGE_S = 4.0
"""From the second age on, a request waits for the new copy; from the first on, it does not."""
RETRY_S = 0.5
BEARER = "Bearer "


def stored_token_in(header: str | None) -> str | None:
    """The token of an `Authorization` header, if it has the form of tokens in the store."""
    if header is None or not header.startswith(BEARER):
        return None
    token = header[len(BEARER) :]
    return token if is_token(token) else None


class Credential(Struct, frozen=True):
    """A text of a token that is accepted, until a time of the store if it is set."""

    row: ApiTokenRow
    caller: Caller
    until_ms: int | None


class Copy(Struct, frozen=True):
    """The table as it was at `read_at` of the local clock, when the store's clock was `now_ms`."""

    read_at: float
    now_ms: int
    accepted: dict[bytes, Credential]


EMPTY = Copy(float("-inf"), 0, {})


class StoredTokens:
    def __init__(self, engine: LocalEngineProtocol, clock: Callable[[], float]) -> None:
        self._engine, self._clock = engine, clock
        self._copy = EMPTY
        self._failed_at, self._failure = float("-inf"), EngineError("")
        self._flight, self._generation, self._is_refreshing = SingleFlight(), 0, False
        self._touched: dict[UUID, float] = {}
        self._tasks: set[asyncio.Future[object]] = set()

    async def caller(self, token: str) -> Caller | None:
        """The caller of a token, or None. Raises when the store cannot be asked."""
        copy = await self._fresh()
        found = _accepted(copy, digest_of(token), self._now_ms(copy))
        if found is None:
            return None
        self._note_use(found.row, self._now_ms(copy))
        return found.caller

    async def until_refused(self, caller: Caller) -> None:
        """Return when the token of a caller is no longer accepted, or cannot be checked."""
        assert caller.credential is not None
        while True:
            try:
                copy = await self._fresh()
            except EngineError:
                return
            if _accepted(copy, caller.credential, self._now_ms(copy)) is None:
                return
            await asyncio.sleep(REFRESH_S / 2)

    def forget(self) -> None:
        """Read the table at the next request: this server has changed it."""
        self._copy = EMPTY
        self._generation += 1

    async def close(self, timeout_s: float) -> None:
        """Wait for what runs in the background, and cancel what takes longer."""
        if self._tasks:
            _, late = await asyncio.wait(tuple(self._tasks), timeout=timeout_s)
            for task in late:
                task.cancel()

    # ---- the copy

    def _now_ms(self, copy: Copy) -> int:
        return copy.now_ms + round((self._clock() - copy.read_at) * 1_000)

    async def _fresh(self) -> Copy:
        age = self._clock() - self._copy.read_at
        if age < MAX_AGE_S:
            if age >= REFRESH_S and not self._is_refreshing:
                self._in_background(self._refresh())
            return self._copy
        return await self._flight.once(self._generation, self._read)

    async def _refresh(self) -> None:
        self._is_refreshing = True
        try:
            await self._flight.once(self._generation, self._read)
        finally:
            self._is_refreshing = False

    async def _read(self) -> Copy:
        began = self._clock()
        if began - self._failed_at < RETRY_S:
            raise self._failure
        generation = self._generation
        try:
            table = await self._engine.read_live_tokens()
        except EngineError as error:
            self._failed_at, self._failure = began, error
            raise
        copy = _copy_of(table, began)
        if self._generation == generation:  # else this server changed the table meanwhile
            self._copy = copy
        return copy

    # ---- the time of the last use

    def _note_use(self, row: ApiTokenRow, now_ms: int) -> None:
        """Write the use of a token once a minute."""
        stored, noted = row.last_used_at_ms, self._touched.get(row.token_id)
        now = self._clock()
        if (stored is not None and now_ms - stored < USED_EVERY_MS) or (
            noted is not None and (now - noted) * 1_000 < USED_EVERY_MS
        ):
            return
        self._touched = {
            ident: at for ident, at in self._touched.items() if (now - at) * 1_000 < USED_EVERY_MS
        } | {row.token_id: now}
        self._in_background(self._touch(row.token_id))

    async def _touch(self, ident: UUID) -> None:
        try:
            await self._engine.touch_tokens([ident])
        except EngineError as error:
            log.warning("use of a token not recorded", extra={"error": error.code})

    def _in_background(self, work: Coroutine[object, object, object]) -> None:
        task: asyncio.Future[object] = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_seen)


async def while_accepted(
    stream: AsyncIterator[bytes], tokens: StoredTokens, caller: Caller
) -> AsyncIterator[bytes]:
    """The parts of a stream, until the caller's token is no longer accepted."""
    refused = asyncio.ensure_future(tokens.until_refused(caller))
    part: asyncio.Future[bytes | None] | None = None
    try:
        while not refused.done():
            part = asyncio.ensure_future(_next(stream))
            await asyncio.wait((part, refused), return_when=asyncio.FIRST_COMPLETED)
            if not part.done():
                return
            found = part.result()
            if found is None:
                return
            yield found
    finally:
        pending = [task for task in (part, refused) if task is not None and not task.done()]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


async def _next(stream: AsyncIterator[bytes]) -> bytes | None:
    return await anext(stream, None)


def _seen(task: asyncio.Future[object]) -> None:
    """A request that needs the copy raises the error itself."""
    if not task.cancelled():
        task.exception()


def _accepted(copy: Copy, digest: bytes, now_ms: int) -> Credential | None:
    """Lookup by digest: its timing tells nothing about the token behind it."""
    found = copy.accepted.get(digest)
    return None if found is None or has_passed(found.until_ms, now_ms) else found


def _copy_of(table: TokenTable, read_at: float) -> Copy:
    accepted = {}
    for row in table.rows:
        if row.former_digest is not None:
            until = _earliest(row.former_until_ms, row.expires_at_ms)
            accepted[row.former_digest] = _credential(row, row.former_digest, until)
        accepted[row.digest] = _credential(row, row.digest, row.expires_at_ms)
    return Copy(read_at, table.now_ms, accepted)


def _credential(row: ApiTokenRow, digest: bytes, until_ms: int | None) -> Credential:
    roles = frozenset(implied for role in row.role_list for implied in IMPLIED_ROLES[role])
    lanes = row.lane_list
    caller = Caller(
        row.name, roles, row.namespace, None if lanes is None else frozenset(lanes), digest
    )
    return Credential(row, caller, until_ms)


def _earliest(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)
