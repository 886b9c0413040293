"""Callers of the cascade."""

from __future__ import annotations

from flowfabric.engine.engine import Engine

from .flow_helpers import crashing, hold, states, submit


async def test_a_caller_that_is_cancelled_does_not_stop_the_cascade(engine: Engine) -> None:
    graph = await submit(engine, "a>b")
    handle = await hold(engine, graph, "a")
    with crashing(engine):
        await engine.complete(handle, b"x")
    cascade = engine.parts.core.cascade
    cascade.ended((graph["a"],)).cancel()
    await cascade.finish()
    assert await states(engine, graph) == {"a": "ENDED(success)", "b": "READY"}
