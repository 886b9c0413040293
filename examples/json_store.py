"""A store of one's own: all tables in one JSON file, for one process at a time.

It shows what the port of a store asks for. `docs/stores.md` explains it, and the conformance suite
checks it. Plans and reads are evaluated by the in-memory store. Each commit writes the whole file,
so it suits some thousand rows. It needs POSIX for the lock.
"""

from __future__ import annotations

import asyncio
import base64
import fcntl
import json
import os
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, cast
from uuid import UUID

from flowfabric import ClaimPolicy, CreateExecutionArgs, Engine, ExecutionId
from flowfabric.connect.memory import MemoryLoops
from flowfabric.errors import ConfigError, TransportError, Unavailable
from flowfabric.model.lease import BackendTag
from flowfabric.plan import Answer, Applied, Plan, Refused
from flowfabric.store.clock import Clock, Ratchet, system_clock
from flowfabric.store.memory import MemoryStore
from flowfabric.store.port import Loaded, Read, Row, Store
from flowfabric.store.schema import TABLES, Column
from flowfabric.store.wakeups import Topic, Wakeups

NUMBERED = [name for name, table in TABLES.items() if table.columns[0].kind == "auto"]
"""Tables whose rows the store numbers. The number of a deleted row is not used again."""


class DeferredWakeups(Wakeups):
    """Keeps the wake-ups of a commit until the file holds the commit."""

    def __init__(self) -> None:
        super().__init__()
        self._rung: list[Topic] = []
        self._dues: list[tuple[str, float]] = []

    def ring(self, topics: Iterable[Topic]) -> None:
        self._rung += topics

    def due(self, timer: str, at_ms: float) -> None:
        self._dues.append((timer, at_ms))

    def drop(self) -> None:
        self._rung, self._dues = [], []

    def release(self, hub: Wakeups) -> None:
        topics, dues = self._rung, self._dues
        self.drop()
        for timer, at_ms in dues:
            hub.due(timer, at_ms)
        hub.ring(topics)


class JsonStore:
    """The file is the truth. Rows in memory that could not be written are dropped."""

    label = "json"
    tag = BackendTag.SQLITE  # the tag of embedded stores
    durability = "one JSON file, flushed to disk at each commit"

    def __init__(self, path: str | Path, clock: Clock = system_clock) -> None:
        self.path = Path(path)
        self.hub = Wakeups()
        self.clock = Ratchet(clock)
        self._deferred = DeferredWakeups()
        self._memory: MemoryStore | None = None
        self._lock = _locked(self.path)
        self._is_closed = False

    async def prepare(self) -> str | None:
        memory = self.tables()
        if self.path.exists():
            return None
        await self._save(memory)
        return f"new file {self.path}"

    async def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            os.close(self._lock)  # releases the lock
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
        memory = self.tables()
        answer = await memory.commit_together(plans)
        if isinstance(answer, Applied):
            await self._save(memory)
        return answer

    async def commit_many(self, plans: Sequence[Plan]) -> list[Answer]:
        """Writes the file once, or once per plan when a value cannot be encoded."""
        memory = self.tables()
        answers = await memory.commit_many(plans)
        if not any(isinstance(answer, Applied) for answer in answers):
            return answers
        try:
            await self._save(memory)
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
        memory = self.tables()
        swept = await memory.sweeps(first, wanted)
        if not isinstance(swept, Refused) and (first or any(swept)):
            await self._save(memory)
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
        if self._is_closed:
            raise TransportError(self.label, "the store is closed", backend_kind="protocol")
        if self._memory is None:
            memory = MemoryStore(self.clock)
            memory.hub = self._deferred
            self._read_into(memory)
            self._memory = memory
        return self._memory

    def reload(self) -> None:
        """Drops the rows in memory. The next call reads the file."""
        self._memory = None
        self._deferred.drop()

    def _read_into(self, memory: MemoryStore) -> None:
        if not self.path.exists():
            return
        try:
            content = json.loads(self.path.read_text(encoding="utf-8"))
            columns, tables = content["columns"], content["tables"]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise ConfigError(f"{self.path}: cannot be read as a JSON store: {error!r}") from error
        if columns != _columns():
            raise ConfigError(f"{self.path}: written by a version with other tables or columns")
        memory.restore({t: _decoded(t, rows) for t, rows in tables.items()}, content["numbers"])
        self.clock.raise_to(content["now_ms"])  # a lease that has expired stays expired

    async def _save(self, memory: MemoryStore) -> None:
        """Writes a new file and renames it: a crash leaves the old file or the new one."""
        tables = await memory.dump(TABLES)
        numbers = {name: await memory.last_event(name) for name in NUMBERED}
        content = {"now_ms": self.clock(), "columns": _columns(), "numbers": numbers}
        try:
            content["tables"] = {name: _encoded(name, rows) for name, rows in tables.items()}
            _replace(self.path, json.dumps(content))
        except Exception as error:
            self.reload()
            detail = f"{self.path} could not be written: {error}"
            # a value that cannot be encoded is not written; a failed write may have been
            is_doubtful = isinstance(error, OSError)
            raise TransportError(self.label, detail, doubtful=is_doubtful) from error
        self._deferred.release(self.hub)


def _locked(path: Path) -> int:
    """A descriptor that holds the lock of the file until it is closed."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        raise ConfigError(f"{path}: another store has it open; close that one first") from error
    return lock


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}.new")
    with new.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # the new name itself
    finally:
        os.close(folder)


def _columns() -> dict[str, list[str]]:
    return {name: list(table.names) for name, table in TABLES.items()}


class Kind(NamedTuple):
    """How the values of a column are kept in JSON."""

    type: type[Any]
    encode: Callable[[Any], object] = lambda value: value
    decode: Callable[[Any], object] = lambda value: value


KINDS: Mapping[str, Kind] = {
    "auto": Kind(int),
    "int": Kind(int),
    "real": Kind(Real, float),
    "text": Kind(str),
    "json": Kind(str),
    "list": Kind(tuple, list, tuple),
    "uuid": Kind(UUID, str, UUID),
    "uuidtext": Kind(UUID, str, UUID),
    "bytes": Kind(bytes, lambda value: base64.b64encode(value).decode(), base64.b64decode),
}


def _encoded(table: str, rows: Iterable[Row]) -> list[list[object]]:
    columns = TABLES[table].columns
    return [
        [_encoded_value(table, column, value) for column, value in zip(columns, row, strict=True)]
        for row in rows
    ]


def _encoded_value(table: str, column: Column, value: Any) -> object:
    kind = KINDS[column.kind]
    if value is None:
        return None
    if not isinstance(value, kind.type):
        raise TypeError(
            f"{table}.{column.name}: expected {kind.type.__name__}, got {type(value).__name__}"
        )
    return kind.encode(value)


def _decoded(table: str, rows: Iterable[Sequence[Any]]) -> list[Row]:
    kinds = [KINDS[column.kind] for column in TABLES[table].columns]
    return [
        tuple(
            None if value is None else kind.decode(value)
            for kind, value in zip(kinds, row, strict=True)
        )
        for row in rows
    ]


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
    async with json_engine(path) as engine:
        print(await engine.get_execution_result(job))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder) / "jobs.json"))
