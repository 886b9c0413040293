"""The listening socket."""

from __future__ import annotations

import asyncio
import socket

import pytest

from flowfabric.errors import ConfigError
from flowfabric.server.lifecycle import address, bind


async def test_answers_go_out_at_once() -> None:
    """What a client is sent in two parts would otherwise wait for it to have acknowledged the
    first, which takes 40 ms.
    """
    met: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()

    class Here(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            met.set_result(transport.get_extra_info("socket"))

    listener = bind("127.0.0.1", 0)
    async with await asyncio.get_running_loop().create_server(Here, sock=listener):
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert (await met).getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        writer.close()


def test_a_port_in_use_is_a_config_error() -> None:
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        host, port = taken.getsockname()
        assert address(taken) == f"http://{host}:{port}"
        with pytest.raises(
            ConfigError,
            match=f"FF_LISTEN_ADDR: cannot listen on {host}:{port}.*choose another port",
        ):
            bind(host, port)
