"""What the errors of the driver and of the server mean to a caller."""

from __future__ import annotations

import asyncio

import glide
import pytest

from flowfabric.connect import connect_store
from flowfabric.errors import TransportError
from flowfabric.store.valkey.connection import Connection
from flowfabric.store.valkey.errors import as_engine_error
from flowfabric.store.valkey.options import options_of
from flowfabric.testing import ManualClock
from flowfabric.testing.valkey import ValkeyServer
from tests.engine.helpers import create, running, state

from .helpers import engine_on, until


@pytest.mark.parametrize(
    ("error", "kind", "doubtful"),
    [
        (glide.ConnectionError("Received connection error"), "transport", True),
        (glide.TimeoutError("timed out"), "timeout", True),
        (TimeoutError(), "timeout", True),
        (glide.RequestError("LOADING the dataset"), "busy_loading", False),
        (glide.RequestError("signalled: - BusyLoadingError: x"), "busy_loading", False),
        (glide.RequestError("CLUSTERDOWN hash slot not served"), "cluster", False),
        (glide.RequestError("signalled: - ReadOnly: x"), "cluster", False),
        (glide.RequestError("OOM command not allowed"), "full", False),
        (glide.RequestError("signalled: - PermissionDenied: x"), "auth", False),
        (glide.RequestError("ERR unknown: BOOMING"), "protocol", False),
        (glide.ClosingError("Received error for address: timed out"), "transport", False),
        (glide.ClosingError("WRONGPASS invalid username-password pair"), "auth", False),
    ],
)
def test_an_error_says_whether_the_call_may_be_repeated(
    error: Exception, kind: str, doubtful: bool
) -> None:
    found = as_engine_error(error)
    assert isinstance(found, TransportError)
    assert (found.backend_kind, found.doubtful) == (kind, doubtful)
    assert found.retryable is (kind in ("transport", "timeout", "busy_loading", "cluster"))


async def test_a_wrong_password_is_not_tried_again() -> None:
    with ValkeyServer("--requirepass", "right") as server:
        with pytest.raises(TransportError) as refused:
            await connect_store(server.url, loops=False)
        assert refused.value.backend_kind == "auth" and not refused.value.retryable
        assert "right" not in str(refused.value)


async def test_an_engine_goes_on_when_the_server_was_killed(clock: ManualClock) -> None:
    """A call in flight is settled when the server is back, and its memory is that of the file."""
    with ValkeyServer("--appendonly", "yes", "--appendfsync", "always") as server:
        async with engine_on(options_of(server.url), clock) as engine:
            ident, handle = await running(engine)
            server.crash()
            completing = asyncio.ensure_future(engine.complete(handle, b"out"))
            await asyncio.to_thread(server.start)
            try:
                await completing
            except TransportError as error:
                if not error.retryable:
                    raise
                await engine.complete(handle, b"out")
            assert await state(engine, ident) == "ENDED(success)"
            assert await engine.get_execution_result(ident) == b"out"


async def test_an_engine_goes_on_when_its_connections_were_closed(clock: ManualClock) -> None:
    with ValkeyServer() as server:
        async with engine_on(options_of(server.url), clock) as engine:
            admin = await Connection.open(options_of(server.url))
            for _ in range(5):
                await admin.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
                made: list[object] = []

                async def tried(made: list[object] = made) -> bool:
                    try:
                        made.append(await create(engine))
                    except TransportError as error:
                        if not error.retryable:
                            raise
                    return bool(made)

                await until(tried)
            await admin.close()
