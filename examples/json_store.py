"""A store of one's own: all tables in one JSON file, for one process at a time.

It shows what the port of a store asks for. `docs/stores.md` explains it, and the conformance suite
checks it. Plans and reads are evaluated by the in-memory store. Each commit writes the whole file,
so it suits some thousand rows. It needs POSIX for the lock.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO, cast
from uuid import UUID

import msgspec

from flowfabric import ClaimPolicy, CreateExecutionArgs, Engine, ExecutionId
from flowfabric.connect.memory import MemoryLoops
from flowfabric.errors import ConfigError, TransportError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.plan import Answer, Applied, Plan, Refused
from flowfabric.store.clock import Clock, Ratchet, system_clock
from flowfabric.store.memory import MemoryStore
from flowfabric.store.port import Loaded, Read, Row, Store
from flowfabric.store.schema import TABLES
from flowfabric.store.wakeups import Topic, Wakeups

NUMBERED = [name for name, table in TABLES.items() if table.is_numbered]
"""Tables whose rows the store numbers. The number of a deleted row is not used again."""

TYPES = {
    "auto": int,
    "int": int,
    "real": float,
    "text": str,
    "json": str,
    "bytes": bytes,
    "list": tuple[str, ...],
    "uuid": UUID,
    "uuidtext": UUID,
}
"""The type of a value by the kind of its column. Bytes are base64 in the file."""

ROWS = {
    table.name: msgspec.defstruct(
        table.name,
        [(column.name, TYPES[column.kind] | None) for column in table.columns],
        forbid_unknown_fields=True,
    )
    for table in TABLES.values()
}
Tables = msgspec.defstruct("Tables", [(name, list[row]) for name, row in ROWS.items()])
File = msgspec.defstruct("File", [("now_ms", int), ("numbers", dict[str, int]), ("tables", Tables)])


class DeferredWakeups(Wakeups):
    """Keeps the wake-ups of a commit until the file holds the commit."""

    def __init__(self, hub: Wakeups) -> None:
        super().__init__()
        self._hub = hub
        self._kept: list[Callable[[], None]] = []

    def ring(self, topics: Iterable[Topic]) -> None:
        self._kept.append(partial(self._hub.ring, list(topics)))

    def due(self, timer: str, at_ms: float) -> None:
        self._kept.append(partial(self._hub.due, timer, at_ms))

    def release(self) -> None:
        kept, self._kept = self._kept, []
        for wake in kept:
            wake()


class JsonStore:
    """The file is the truth. Rows in memory that could not be written are dropped."""

    label = "json"
    tag = BackendTag.SQLITE  # the tag of embedded stores
    durability = "one JSON file, flushed to disk at each commit"

    def __init__(self, path: str | Path, clock: Clock = system_clock) -> None:
        self.path = Path(path)
        self.hub = Wakeups()
        self.clock = Ratchet(clock)
        self._deferred = DeferredWakeups(self.hub)
        self._memory: MemoryStore | None = None
        self._lock = _locked(self.path)

    async def prepare(self) -> str | None:
        self.tables()
        if self.path.exists():
            return None
        await self._save()
        return f"new file {self.path}"

    async def close(self) -> None:
        self._lock.close()
        self.hub.ring_all()

    def inside(self, connection: object) -> Store:
        raise Unavailable("connection: a JSON file has no transactions of other connections")

    async def now_ms(self) -> int:
        return self.clock()

    async def maintain(self) -> int:
        return 0

    async def longest_writer(self) -> None:
        return None

    # ---- commits: nothing below waits for other tasks, so commits do not interleave

    async def commit(self, plan: Plan) -> Answer:
        return await self.commit_together((plan,))

    async def commit_together(self, plans: Sequence[Plan]) -> Answer:
        answer = await self.tables().commit_together(plans)
        if isinstance(answer, Applied):
            await self._save()
        return answer

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        """Writes the file once, or once per plan when a value cannot be encoded."""
        answers = await self.tables().commit_many(plans)
        if not any(isinstance(answer, Applied) for answer in answers):
            return answers
        try:
            await self._save()
        except TransportError as error:
            if error.doubtful or len(plans) == 1:
                return [cast(Answer, error)] * len(plans)  # the port wants errors as answers
            return [answer for plan in plans for answer in await self.commit_many((plan,))]
        return answers

    async def sweep(self, plan: Plan, limit: int) -> list[Row]:
        swept = await self.sweeps((), ((plan, limit),))
        assert not isinstance(swept, Refused), "a sweep without plans cannot be refused"
        return swept[0]

    async def sweeps(
        self, first: Sequence[Plan], wanted: Sequence[tuple[Plan, int]]
    ) -> list[list[Row]] | Refused:
        swept = await self.tables().sweeps(first, wanted)
        if not isinstance(swept, Refused) and (first or any(swept)):
            await self._save()
        return swept

    async def commit_and_sweep(
        self, plans: Sequence[Plan], plan: Plan, limit: int
    ) -> tuple[list[Answer], list[Row]]:
        return await self.commit_many(plans), await self.sweep(plan, limit)

    # ---- reads

    async def load(self, reads: Sequence[Read]) -> Loaded:
        return await self.tables().load(reads)

    async def read_events(self, channel: str, after: int, limit: int) -> list[Row]:
        return await self.tables().read_events(channel, after, limit)

    def last_event(self, channel: str) -> Awaitable[int]:
        return self.tables().last_event(channel)

    async def next_due(self, index: str) -> int | None:
        return await self.tables().next_due(index)

    async def dump(self, tables: Iterable[str]) -> dict[str, list[Row]]:
        return await self.tables().dump(tables)

    # ---- the file

    def tables(self) -> MemoryStore:
        """The rows in memory. They are read from the file first, unless they are current."""
        if self._lock.closed:
            raise TransportError(self.label, "the store is closed", backend_kind="protocol")
        if self._memory is None:
            memory = MemoryStore(self.clock)
            memory.hub = self._deferred = DeferredWakeups(self.hub)
            if self.path.exists():
                self._read_into(memory)
            self._memory = memory
        return self._memory

    def reload(self) -> None:
        """Drops the rows in memory. The next call reads the file."""
        self._memory = None

    def _read_into(self, memory: MemoryStore) -> None:
        try:
            content = msgspec.json.decode(self.path.read_bytes(), type=File)
        except (OSError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{self.path}: cannot be read as a JSON store: {error}") from error
        tables = msgspec.structs.asdict(content.tables)
        rows = {name: map(msgspec.structs.astuple, found) for name, found in tables.items()}
        memory.restore(rows, content.numbers)
        self.clock.raise_to(content.now_ms)  # a lease that has expired stays expired

    async def _save(self) -> None:
        """Writes a new file and renames it: a crash leaves the old file or the new one."""
        memory = self._memory
        assert memory is not None
        numbers = {name: await memory.last_event(name) for name in NUMBERED}
        dumped = await memory.dump(TABLES)
        rows = {name: [ROWS[name](*row) for row in dumped[name]] for name in TABLES}
        try:
            data = msgspec.json.encode(File(self.clock(), numbers, Tables(**rows)))
            msgspec.json.decode(data, type=File)  # a value of a wrong type is not written
            _replace(self.path, data)
        except Exception as error:
            self.reload()
            detail = f"{self.path} could not be written: {error}"
            # a value that cannot be encoded is not written; a failed write may have been
            is_doubtful = isinstance(error, OSError)
            raise TransportError(self.label, detail, doubtful=is_doubtful) from error
        self._deferred.release()


def _locked(path: Path) -> BinaryIO:
    """A file that holds the lock until it is closed."""
    lock = path.with_name(f"{path.name}.lock").open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ConfigError(f"{path}: another store has it open; close that one first") from error
    return lock


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name itself
    finally:
        os.close(folder)


# ---- an engine on it


def json_engine(path: str | Path) -> Engine:
    return Engine(JsonStore(path), loops=MemoryLoops())


async def main(path: Path) -> None:
    job = ExecutionId.solo("greetings")
    async with json_engine(path) as engine:
        await engine.create_execution(
            CreateExecutionArgs(execution_id=job, lane_id="greetings", input_payload=b"hello")
        )
    async with json_engine(path) as engine:  # another process could do this
        policy = ClaimPolicy("worker", "worker-1", lease_ttl_ms=30_000)
        for work in await engine.claim_many("greetings", (), policy, 10):
            await engine.complete(work.handle, work.input_payload.upper())
        print(await engine.get_execution_result(job))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "jobs.json"))
