"""The worker registry: liveness of workers, and executions that wait for one."""

from __future__ import annotations

from typing import Any

import pytest

from flowfabric.engine.engine import Engine
from flowfabric.model.worker import Marked, NotRegistered, Refreshed, Registered, WorkerInfo
from flowfabric.testing import ManualClock

from .helpers import TTL_MS, create, dump, invalid, registration, row, running, state

GPU: dict[str, Any] = {"routing_requirements": {"required_capabilities": ["gpu"]}}


async def heard(engine: Engine) -> list[tuple[Any, ...]]:
    """The kind, time and reason of every registry event, in order."""
    rows = (await engine.store.dump(["ff_worker_registry_event"]))["ff_worker_registry_event"]
    return [(r[3], r[4], r[5]) for r in sorted(rows)]


async def names(engine: Engine, namespace: str | None = None) -> list[str]:
    return [w.worker_instance_id for w in (await engine.list_workers(namespace)).items]


async def test_a_registration_stores_its_arguments(engine: Engine, clock: ManualClock) -> None:
    args = registration(
        lanes=frozenset({"b", "a"}),
        capabilities=frozenset({"y", "x"}),
        liveness_ttl_ms=100,
        namespace="ns",
    )
    assert await engine.register_worker(args) == Registered()
    (found,) = (await engine.list_workers("ns")).items
    assert isinstance(found, WorkerInfo)
    assert (found.worker_id, found.worker_instance_id, found.namespace) == ("w1", "w1-i1", "ns")
    assert (found.lanes, found.capabilities, found.liveness_ttl_ms) == (("a", "b"), ("x", "y"), 100)
    assert found.last_heartbeat_ms == found.registered_at_ms == clock()
    assert await heard(engine) == [("registered", clock(), None)]


async def test_a_refresh_keeps_when_it_first_registered(engine: Engine, clock: ManualClock) -> None:
    await engine.register_worker(registration())
    first = clock()
    clock.advance(50)
    refreshed = await engine.register_worker(
        registration(capabilities=frozenset({"new"}), liveness_ttl_ms=10)
    )
    assert isinstance(refreshed, Refreshed)
    (found,) = (await engine.list_workers("default")).items
    assert (found.registered_at_ms, found.last_heartbeat_ms, found.capabilities) == (
        first,
        clock(),
        ("new",),
    )
    assert [e[0] for e in await heard(engine)] == ["registered", "registered"]


async def test_an_instance_is_not_reassigned_to_another_worker(engine: Engine) -> None:
    await engine.register_worker(registration())
    before = await dump(engine)
    await invalid(engine.register_worker(registration(worker_id="w2")), "instance_id reassigned")
    assert await dump(engine) == before
    assert (
        await engine.register_worker(registration(worker_id="w2", namespace="elsewhere"))
        == Registered()
    )


async def test_a_heartbeat_extends_the_life_and_is_told(engine: Engine, clock: ManualClock) -> None:
    await engine.register_worker(registration(liveness_ttl_ms=100))
    clock.advance(99)
    assert await engine.heartbeat_worker("w1-i1") == Refreshed(clock() + 100)
    clock.advance(99)
    assert await names(engine) == ["w1-i1"]
    assert [e[0] for e in await heard(engine)] == ["registered", "heartbeat"]


async def test_the_time_given_is_the_time_stored_and_compared(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.register_worker(registration(liveness_ttl_ms=100, now=500))
    assert await engine.heartbeat_worker("w1-i1", now=599) == Refreshed(699)
    assert await engine.heartbeat_worker("w1-i1", now=699) == NotRegistered()


async def test_a_silent_worker_must_register_again_even_before_the_sweep(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.register_worker(registration(liveness_ttl_ms=100))
    clock.advance(100)
    assert await names(engine) == []
    before = await dump(engine)
    assert await engine.heartbeat_worker("w1-i1") == NotRegistered()
    assert await dump(engine) == before
    await engine.register_worker(registration(liveness_ttl_ms=100))
    assert await names(engine) == ["w1-i1"]


async def test_an_unknown_worker_has_no_heartbeat_and_cannot_die(engine: Engine) -> None:
    await engine.register_worker(registration(namespace="a"))
    assert await engine.heartbeat_worker("w1-i1", "b") == NotRegistered()
    assert await engine.mark_worker_dead("w1-i1", "x", "b") == NotRegistered()
    assert await names(engine) == ["w1-i1"]


async def test_a_worker_marked_dead_may_register_again(engine: Engine, clock: ManualClock) -> None:
    await engine.register_worker(registration())
    assert await engine.mark_worker_dead("w1-i1", "oom") == Marked()
    assert await names(engine) == []
    assert (await heard(engine))[-1] == ("marked_dead", clock(), "oom")
    assert await engine.mark_worker_dead("w1-i1") == NotRegistered()
    assert await engine.register_worker(registration(worker_id="other")) == Registered()


@pytest.mark.parametrize(
    ("reason", "text"),
    [("x" * 257, "reason: exceeds 256 bytes (got 257)"), ("ü" * 129, "reason: exceeds 256 bytes "
"(got 258)"),
     ("a\nb", "reason: must not contain control characters"), ("\x00", "reason: must not contain "
"control characters")],
)  # fmt: skip
async def test_a_reason_is_short_and_printable(engine: Engine, reason: str, text: str) -> None:
    await engine.register_worker(registration())
    await invalid(engine.mark_worker_dead("w1-i1", reason), text)
    assert await names(engine) == ["w1-i1"]


async def test_the_sweep_drops_only_those_past_their_time(
    engine: Engine, clock: ManualClock
) -> None:
    await engine.register_worker(registration("short", liveness_ttl_ms=100))
    await engine.register_worker(registration("long", liveness_ttl_ms=1_000))
    clock.advance(100)
    assert await engine.drop_silent_workers() == 0
    clock.advance(1)
    assert await engine.drop_silent_workers() == 1
    assert [r[1] for r in (await dump(engine))["ff_worker_registry"]] == ["long"]
    assert (await heard(engine))[-1] == ("ttl_swept", clock(), None)
    assert await engine.register_worker(registration("short")) == Registered()


async def test_a_dead_workers_lease_is_left_alone(engine: Engine, clock: ManualClock) -> None:
    await engine.register_worker(registration())
    ident, handle = await running(engine)
    before = await row(engine, ident)
    await engine.mark_worker_dead("w1-i1", "gone")
    assert await row(engine, ident) == before
    await engine.renew(handle)
    clock.advance(TTL_MS)
    await engine.mark_lease_expired_if_due(ident)
    assert await state(engine, ident) == "LOST"


# ---- lists


async def test_workers_are_listed_by_instance_and_paged(engine: Engine) -> None:
    for instance in ("c", "a", "b"):
        await engine.register_worker(registration(instance))
    await engine.register_worker(registration("z", namespace="other"))
    assert await names(engine, "default") == ["a", "b", "c"]
    page = await engine.list_workers("default", limit=2)
    assert ([w.worker_instance_id for w in page.items], page.next_cursor) == (["a", "b"], "b")
    rest = await engine.list_workers("default", page.next_cursor, 2)
    assert ([w.worker_instance_id for w in rest.items], rest.next_cursor) == (["c"], None)
    assert (await engine.list_workers("default", limit=0)).items == []


async def test_an_operator_lists_across_namespaces(engine: Engine) -> None:
    for namespace, instance in (("b", "1"), ("a", "2"), ("a", "1"), ("c", "0")):
        await engine.register_worker(registration(instance, namespace=namespace))
    seen: list[tuple[str, str]] = []
    cursor = None
    while True:
        page = await engine.list_workers(after=cursor, limit=1)
        seen += [(w.namespace, w.worker_instance_id) for w in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [("a", "1"), ("a", "2"), ("b", "1"), ("c", "0")]


async def test_dead_workers_do_not_shorten_a_page(engine: Engine, clock: ManualClock) -> None:
    for n in range(6):
        await engine.register_worker(registration(f"i{n}", liveness_ttl_ms=10 if n < 4 else 1_000))
    clock.advance(10)
    page = await engine.list_workers("default", limit=1)
    assert ([w.worker_instance_id for w in page.items], page.next_cursor) == (["i4"], "i4")
    rest = await engine.list_workers("default", "i4", 1)
    assert [w.worker_instance_id for w in rest.items] == ["i5"]


# ---- work that waits for a capable worker


async def routed(engine: Engine, **said: Any) -> Any:
    ident = await create(engine, policy=GPU, **said)
    await engine.block_route(ident, "waiting_for_capable_worker")
    return ident


async def test_a_capable_workers_registration_releases_what_waited(engine: Engine) -> None:
    ident = await routed(engine)
    await engine.register_worker(registration("plain"))
    assert await state(engine, ident) == "ROUTE"
    await engine.register_worker(registration("able", capabilities=frozenset({"gpu", "more"})))
    assert await state(engine, ident) == "READY"


async def test_only_a_live_worker_of_the_same_namespace_counts(
    engine: Engine, clock: ManualClock
) -> None:
    ident = await routed(engine, namespace="a")
    await engine.register_worker(registration(capabilities=frozenset({"gpu"}), namespace="b"))
    assert await state(engine, ident) == "ROUTE"
    await engine.register_worker(
        registration("x", capabilities=frozenset({"gpu"}), namespace="a", liveness_ttl_ms=1, now=1)
    )
    assert await engine.release_page(None, 100) == (0, None)
    assert await state(engine, ident) == "ROUTE"


async def test_two_workers_that_only_together_cover_it_do_not_count(engine: Engine) -> None:
    policy = {"routing_requirements": {"required_capabilities": ["gpu", "big"]}}
    ident = await create(engine, policy=policy)
    await engine.block_route(ident, "waiting_for_capable_worker")
    await engine.register_worker(registration("one", capabilities=frozenset({"gpu"})))
    await engine.register_worker(registration("two", capabilities=frozenset({"big"})))
    assert await state(engine, ident) == "ROUTE"


async def test_a_small_limit_still_releases(engine: Engine) -> None:
    await engine.register_worker(registration(capabilities=frozenset({"gpu"})))
    for _ in range(3):
        await routed(engine)
    assert await engine.release_page(None, 2) == (2, None)
    assert await engine.release_page(None, 2) == (1, None)


async def test_many_waiting_are_released_over_several_pages(
    engine: Engine, clock: ManualClock
) -> None:
    for n in range(130):
        await routed(engine, namespace="stuck" if n < 110 else "default")
    await engine.register_worker(registration(capabilities=frozenset({"gpu"})))
    rows = (await dump(engine))["ff_exec_core"]
    assert sum("blocked_by_route" in r for r in rows) == 110
