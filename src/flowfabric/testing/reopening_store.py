"""A Postgres store for tests, which run in event loops of their own."""

from __future__ import annotations

from flowfabric.store.postgres.store import PostgresStore


class ReopeningStore(PostgresStore):
    """Its connections belong to an event loop: `async with engine:` opens and closes it as often as
    needed.
    """

    async def prepare(self) -> str | None:
        if self.closed:
            await self.open()
        return None
