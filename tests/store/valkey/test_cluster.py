"""A cluster of three primaries and three replicas under load, with faults."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import pytest
from glide import ByAddressRoute

from flowfabric.errors import TransportError
from flowfabric.plan import Applied
from flowfabric.store.valkey.client import opened
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.library import library
from flowfabric.store.valkey.options import options_of
from flowfabric.store.valkey.packing import packed
from flowfabric.store.valkey.replication import Confirming
from flowfabric.store.valkey.store import ValkeyStore
from flowfabric.testing.conformance import helpers as h
from tests.patience import patient
from tests.store.valkey.cuts import Network
from tests.valkey_cluster import Cluster, Node
from tests.valkey_load import Load, Verdict, loaded, summary

CELLS = 30
T = TypeVar("T")
ALWAYS = ("--appendonly", "yes", "--appendfsync", "always")
SHORT, LONG = 2, 20
HALF_MOVED_S = 2.0
NIGHTLY = (pytest.mark.nightly, pytest.mark.timeout(900))
WAITS = "flowfabric.store.valkey.replication"
pytestmark = pytest.mark.xdist_group("valkey-cluster")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(*ALWAYS) as made:
        yield made


class Scene:
    """A cluster, and the load of its cells."""

    def __init__(self, cluster: Cluster, cells: dict[str, str], load: Load) -> None:
        self.cluster, self.cells, self.load = cluster, cells, load

    def urls_of(self, node: Node) -> list[str]:
        return [url for cell, url in self.cells.items() if self.cluster.owner(cell) is node]

    async def kill(self, cell: str, *, is_replicated: bool) -> None:
        """Kills the primary of the cell; its replica is promoted."""
        primary, replica, urls = await asyncio.to_thread(self.around, cell)
        primary.kill()
        await asyncio.to_thread(replica.promote, "FORCE")
        if not is_replicated:  # a commit needs a replica again
            await self.load.progress(urls)
        await self._return(primary)
        await self.load.progress(urls)

    async def kill_ahead(self, cell: str, *, is_replicated: bool) -> None:
        """Kills the primary of the cell while it has commits that its replica has not."""
        primary, replica, urls = await asyncio.to_thread(self.around, cell)
        replica.kill()
        if is_replicated:
            await self.load.failures(urls)
        else:
            await self.load.progress(urls)
        primary.kill()
        await asyncio.to_thread(replica.start)
        await asyncio.to_thread(replica.promote, "TAKEOVER")
        if not is_replicated:
            await self.load.progress(urls)
        await self._return(primary)
        await self.load.progress(urls)

    async def _return(self, node: Node) -> None:
        await asyncio.to_thread(node.start)
        await asyncio.to_thread(self.cluster.settle)

    def around(self, cell: str) -> tuple[Node, Node, list[str]]:
        primary = self.cluster.owner(cell)
        return primary, self.cluster.replica_of(primary), self.urls_of(primary)


@asynccontextmanager
async def scene(
    cluster: Cluster, name: str, more: str = ""
) -> AsyncIterator[tuple[Scene, list[Verdict]]]:
    """What the rows say comes at the end."""
    cells = {f"{name}-{n}": cluster.url_of(f"{name}-{n}", more) for n in range(CELLS)}
    found: list[Verdict] = []
    async with loaded(list(cells.values())) as load:
        await load.progress(more=10)
        yield Scene(cluster, cells, load), found
        await load.progress(more=10)
    found += (await load.verdicts()).values()
    print(summary(found))


@pytest.mark.parametrize("kills", [SHORT, pytest.param(LONG, marks=NIGHTLY)])
async def test_nothing_answered_is_lost_when_primaries_are_killed(
    cluster: Cluster, kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{WAITS}.RECEIVED_MS", 300)
    monkeypatch.setattr(f"{WAITS}.CONFIRMED_MS", 1_500)
    async with scene(cluster, f"kept{kills}", "&durability=replicated") as (running, found):
        for n in range(kills):
            cell = f"kept{kills}-{n}"
            if n % 2:
                await running.kill_ahead(cell, is_replicated=True)
            else:
                await running.kill(cell, is_replicated=True)
    assert sum(each.completed for each in found) > CELLS * 10
    _is_sound(found)


@pytest.mark.parametrize("kills", [SHORT, pytest.param(LONG, marks=NIGHTLY)])
async def test_without_a_wait_for_the_replica_its_missing_tail_is_lost(
    cluster: Cluster, kills: int
) -> None:
    async with scene(cluster, f"lost{kills}") as (running, found):
        for n in range(kills):
            cell = f"lost{kills}-{n}"
            if n % 2:
                await running.kill_ahead(cell, is_replicated=False)
            else:
                await running.kill(cell, is_replicated=False)
    assert sum(each.lost for each in found) > 0
    assert [each.ended_twice for each in found] == [0] * CELLS
    assert [each.violations for each in found] == [[]] * CELLS


async def test_a_slot_moves_under_load(cluster: Cluster) -> None:
    async with scene(cluster, "moved") as (running, found):
        for cell in list(running.cells)[:3]:
            urls = [running.cells[cell]]
            await asyncio.to_thread(cluster.move, cell)
            await running.load.progress(urls)
    _is_sound(found)


async def test_a_slot_that_moves_key_by_key_is_never_seen_in_part(cluster: Cluster) -> None:
    """Calls fail, or wait, while one part of the keys is on another server."""
    async with scene(cluster, "keys") as (running, found):
        cell = "keys-0"
        log = running.load.logs[running.cells[cell]]
        with cluster.moving(cell) as (source, target):
            await asyncio.to_thread(cluster.move_keys, source, target, cell, at_most=5)
            answers = log.answers
            await asyncio.sleep(HALF_MOVED_S)
            assert log.answers <= answers + 1, "one call was under way"
            await asyncio.to_thread(cluster.move_keys, source, target, cell)
        await running.load.progress([running.cells[cell]])
    _is_sound(found)


async def test_functions_and_scripts_are_flushed_under_load(cluster: Cluster) -> None:
    async with scene(cluster, "flushed") as (running, found):
        for _ in range(3):
            for node in [node for node in cluster.nodes if node.is_primary]:
                await asyncio.to_thread(node.ask, "FUNCTION", "FLUSH", "SYNC")
                await asyncio.to_thread(node.ask, "SCRIPT", "FLUSH", "SYNC")
            await running.load.progress()
        assert not any(log.failures for log in running.load.logs.values())
    _is_sound(found)


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_a_paused_node_is_replaced(cluster: Cluster) -> None:
    """A node that is paused for longer than the others wait is no primary when it goes on."""
    async with scene(cluster, "paused") as (running, found):
        primary, replica, urls = await asyncio.to_thread(running.around, "paused-0")
        primary.pause()
        try:
            await asyncio.to_thread(replica.until, lambda: replica.is_primary, "is promoted")
            await running.load.progress(urls)
        finally:
            primary.go_on()
        await asyncio.to_thread(cluster.settle)
    assert [each.ended_twice for each in found] == [0] * CELLS
    assert [each.violations for each in found] == [[]] * CELLS


@pytest.mark.nightly
@pytest.mark.timeout(300)
async def test_a_partitioned_client_goes_on_when_the_network_is_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are lost on the way, so outcomes are unknown, and the engine settles them."""
    network = Network()
    network.open([node.port for node in cluster.nodes])
    network.carry_clients(monkeypatch)
    try:
        async with scene(cluster, "cut") as (running, found):
            for _ in range(2):
                network.cut()
                await running.load.failures(list(running.cells.values()))
                network.restore()
                await running.load.progress()
        _is_sound(found)
    finally:
        network.close()


async def test_the_time_of_a_cell_does_not_run_back_on_the_promoted_replica(
    cluster: Cluster,
) -> None:
    options = options_of(cluster.url_of("ahead", "&durability=replicated"))
    store = await ValkeyStore(options).open()
    await h.put(store, h.execution(1))
    ahead = await store.now_ms() + 3_600_000
    connection = await Connection.open(options)
    await connection.command("SET", f"{options.prefix}:T", str(ahead))
    await h.put(store, h.execution(2))
    primary = await asyncio.to_thread(cluster.owner, "ahead")
    replica = await asyncio.to_thread(cluster.replica_of, primary)
    primary.kill()
    await asyncio.to_thread(replica.promote, "FORCE")
    assert await _answered(store.now_ms) >= ahead
    await asyncio.to_thread(primary.start)
    await asyncio.to_thread(cluster.settle)
    assert isinstance(await _answered(lambda: store.commit(h.execution(3))), Applied)
    assert await store.now_ms() >= ahead
    assert await h.count(store, h.EXEC) == 3
    await connection.close()
    await store.close()


async def test_a_commit_wakes_another_process_before_and_after_a_failover(
    cluster: Cluster,
) -> None:
    options = options_of(cluster.url_of("told"))
    one, other = await ValkeyStore(options).open(), await ValkeyStore(options).open()

    async def wakes(n: int) -> None:
        await h.put(one, h.execution(n))
        with other.hub.waiter(("taken", "lane")) as waiter:
            waiter.arm()
            assert await one.sweep(h.take(), 1) == [(h.uid(n),)]
            async with patient(20):
                assert await waiter.wait(None)

    await wakes(1)
    primary = await asyncio.to_thread(cluster.owner, "told")
    replica = await asyncio.to_thread(cluster.replica_of, primary)
    primary.kill()
    await asyncio.to_thread(replica.promote, "FORCE")
    await asyncio.to_thread(primary.start)
    await asyncio.to_thread(cluster.settle)
    n = 2
    async with patient(30):
        while True:
            with suppress(TimeoutError, TransportError):
                async with asyncio.timeout(2):
                    await wakes(n)
                    break
            n += 1
    await one.close()
    await other.close()


async def test_a_call_that_was_redirected_is_not_confirmed_by_the_first_server(
    cluster: Cluster,
) -> None:
    options = options_of(cluster.url_of("sent", "&durability=replicated"))
    store = await ValkeyStore(options).open()
    confirming = Confirming(await opened(options, None), options)
    request = packed([None, []])
    assert await confirming.call(library().load_at, request)
    owner = await asyncio.to_thread(cluster.owner, "sent")
    other = await asyncio.to_thread(cluster.other_primary, owner)
    confirming.route = ByAddressRoute("127.0.0.1", other.port)
    with pytest.raises(TransportError, match="the cell moved meanwhile") as unknown:
        await confirming.call(library().load_at, request)
    assert unknown.value.doubtful
    await confirming.close()
    await store.close()


async def _answered(call: Callable[[], Awaitable[T]]) -> T:
    async with patient(30):
        while True:
            with suppress(TransportError):
                return await call()
            await asyncio.sleep(0.05)


def _is_sound(found: list[Verdict]) -> None:
    assert [each.lost for each in found] == [0] * CELLS
    assert [each.ended_twice for each in found] == [0] * CELLS
    assert [each.violations for each in found] == [[]] * CELLS
