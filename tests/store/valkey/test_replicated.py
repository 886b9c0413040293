"""`durability=replicated`: an answer comes when a replica has the commit in its append file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from flowfabric.connect import connect_store
from flowfabric.engine.engine import Engine
from flowfabric.errors import ConfigError, TransportError
from flowfabric.ids import ExecutionId
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.store.valkey.options import options_of
from flowfabric.store.valkey.replication import follows
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing import ManualClock
from flowfabric.testing.conformance import helpers as h
from flowfabric.testing.valkey import ValkeyServer
from tests.patience import patient
from tests.valkey_cluster import until
from valkey import Valkey

ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
FAST_SYNC = ("--repl-diskless-sync-delay", "0")


@contextmanager
def pair(
    primary: tuple[str, ...] = ALWAYS, replica: tuple[str, ...] = ALWAYS
) -> Iterator[tuple[ValkeyServer, ValkeyServer]]:
    """A primary and its replica."""
    with ExitStack() as stack:
        first = stack.enter_context(ValkeyServer(*FAST_SYNC, *primary))
        of = ("--replicaof", "127.0.0.1", str(first.port))
        second = stack.enter_context(ValkeyServer(*of, *replica))
        until(lambda: _info(first).get("slave0", {}).get("state") == "online", "it follows")
        yield first, second


def _info(server: ValkeyServer) -> dict[str, dict[str, str]]:
    with Valkey(port=server.port) as client:
        found: dict[str, dict[str, str]] = client.info("replication")
        return found


def _replicated(server: ValkeyServer) -> str:
    return f"{server.url}?durability=replicated"


async def test_an_answered_commit_is_in_the_append_file_of_the_replica(
    clock: ManualClock,
) -> None:
    with pair() as (primary, replica):
        store = ValkeyStore(options_of(_replicated(primary)), clock=clock)
        await store.open()
        assert store.durability.startswith("replicated")
        for n in range(50):
            await h.put(store, h.execution(n))
        primary.crash()
        replica.crash()
        await store.close()
        replica.start()
        with Valkey(port=replica.port) as client:
            client.execute_command("REPLICAOF", "NO", "ONE")
        after = await ValkeyStore(options_of(replica.url), clock=clock).open()
        assert await h.count(after, h.EXEC) == 50
        await after.close()


async def test_a_commit_without_a_replica_has_an_unknown_outcome(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pair() as (primary, replica):
        engine = await connect_store(_replicated(primary), loops=False, clock=clock)
        first = CreateExecutionArgs(execution_id=ExecutionId.solo("default"))
        await engine.create_execution(first)  # its lane is known from now on
        monkeypatch.setattr("flowfabric.store.valkey.replication.CONFIRMED_MS", 500)
        monkeypatch.setattr("flowfabric.store.valkey.replication.RECEIVED_MS", 100)
        replica.crash()
        with pytest.raises(TransportError, match="no replica has it") as refused:
            await engine.store.commit(h.execution(1))
        assert refused.value.doubtful
        args = CreateExecutionArgs(execution_id=ExecutionId.solo("default"))
        with pytest.raises(TransportError, match="no replica has it"):
            await engine.create_execution(args)
        replica.start()
        async with patient(60):
            while not await _is_created(engine, args):
                pass
        replica.crash()
        primary.crash()
        replica.start()
        with Valkey(port=replica.port) as client:
            client.execute_command("REPLICAOF", "NO", "ONE")
        after = await connect_store(replica.url, loops=False, clock=clock)
        assert await after.read_execution_state(args.execution_id) == "waiting"
        await after.close()
        await engine.close()


async def _is_created(engine: Engine, args: CreateExecutionArgs) -> bool:
    try:
        await engine.create_execution(args)
    except TransportError:
        return False
    return True


async def test_a_server_without_a_replica_is_refused() -> None:
    with (
        ValkeyServer(*ALWAYS) as server,
        pytest.raises(ConfigError, match="has no replica that follows it; add one"),
    ):
        await connect_store(_replicated(server), loops=False)


async def test_a_replica_without_an_append_file_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("flowfabric.store.valkey.replication.CONFIRMED_MS", 500)
    with pair(replica=()) as (primary, replica):
        with pytest.raises(ConfigError, match="CONFIG SET appendonly yes"):
            await connect_store(_replicated(primary), loops=False)
        with pytest.raises(ConfigError, match="the server is a replica; name its primary"):
            await connect_store(_replicated(replica), loops=False)


async def test_reads_do_not_wait_for_the_replica(clock: ManualClock) -> None:
    with pair(replica=("--appendonly", "yes", "--appendfsync", "everysec")) as (primary, _):
        store = await ValkeyStore(options_of(_replicated(primary)), clock=clock).open()
        writing = store.commit(h.execution(1))
        made = asyncio.ensure_future(writing)
        async with patient(30):
            while not await h.count(store, h.EXEC):  # noqa: ASYNC110
                await asyncio.sleep(0)
        assert not made.done()
        await made
        await store.close()


def test_a_wait_of_another_server_or_before_the_commit_does_not_count() -> None:
    def at(history: str, offset: int) -> dict[str, str]:
        return {"master_replid": history, "master_repl_offset": str(offset)}

    assert follows(at("a", 5), at("a", 6))
    assert not follows(at("a", 5), at("a", 5))
    assert not follows(at("a", 6), at("a", 5))
    assert not follows(at("a", 5), at("b", 6))
    assert not follows(at("a", 5), {})
