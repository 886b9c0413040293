"""URLs of several hosts, and the connection to the first host that qualifies."""

from __future__ import annotations

import asyncio
import socket
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from msgspec import structs

from flowfabric.connect import PostgresBackend
from flowfabric.errors import ConfigError, TransportError
from flowfabric.plan import Applied
from flowfabric.store.postgres import connections, hosts
from flowfabric.store.postgres.connections import Options
from flowfabric.store.postgres.hosts import Host, hosts_of, target_of
from flowfabric.testing.postgres import free_port

from .helpers import lane, lanes, opened


@contextmanager
def silent_host() -> Iterator[int]:
    """The port of a host that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def test_hosts_that_refuse_or_keep_silent_are_passed_over(options: Options) -> None:
    parts = urlsplit(options.url)
    with silent_host() as silent:
        url = (
            f"postgresql://{parts.username}@127.0.0.1:{free_port()},127.0.0.1:{silent},"
            f"127.0.0.1:{parts.port}{parts.path}"
        )
        began = time.monotonic()
        async with opened(structs.replace(options, url=url)) as store:
            assert isinstance(await store.commit(lane("a")), Applied)
            assert await lanes(store) == ["a"]
        assert time.monotonic() - began < connections.CONNECT_TIMEOUT_S


async def test_errors_name_all_hosts_and_no_password() -> None:
    url = f"postgresql://keeper:hunter2@127.0.0.1:{free_port()},[::1]:{free_port()}/any"
    with pytest.raises(TransportError) as caught:
        await PostgresBackend.connect(url)
    text = "".join(traceback.format_exception(caught.value))
    assert f"{url.replace('keeper:hunter2@', '')}" in str(caught.value)
    assert "hunter2" not in text and caught.value.retryable


async def test_a_wrong_password_is_reported_before_an_unreachable_host() -> None:
    async def refuse(host: Host) -> Any:
        if host.port == 1:
            raise ConnectionRefusedError
        raise asyncpg.InvalidPasswordError("no")

    with pytest.raises(asyncpg.InvalidPasswordError):
        await hosts.connect_to_first([Host("a", 1), Host("b", 2), Host("c", 1)], refuse)


async def test_of_two_connections_one_is_ended(
    options: Options, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "HEAD_START_S", 0.0)
    made: list[asyncpg.Connection] = []
    ready = asyncio.Event()

    async def open_both(_: Host) -> asyncpg.Connection:
        made.append(await asyncpg.connect(options.url))
        if len(made) == 2:
            ready.set()
        await ready.wait()
        return made[-1] if made[0].is_closed() else made.pop(0)

    kept = await hosts.connect_to_first([Host("a", 1), Host("b", 2)], open_both)
    assert not kept.is_closed() and all(other.is_closed() for other in made)
    await kept.close()


async def test_a_socket_closes_when_its_host_is_lost(options: Options) -> None:
    connection = await connections.connect(options)
    sock = connection._transport.get_extra_info("socket")
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 10_000
    await connection.close()


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("postgresql://u:a,b@h1:1,h2/db", [("h1", 1), ("h2", None)]),
        ("postgresql://h1,h2/db?port=7", [("h1", None), ("h2", None)]),
        ("postgresql:///db?host=h1,h2&port=1,2", [("h1", 1), ("h2", 2)]),
        ("postgresql:///db?host=h1,h2&port=7", [("h1", 7), ("h2", 7)]),
        ("postgresql://[::1]:1,%2Frun%2Fpg/db", [("::1", 1), ("/run/pg", None)]),
        ("postgresql:///db?host=/run/a,/run/b", [("/run/a", None), ("/run/b", None)]),
        ("postgresql:///db", []),
    ],
)
def test_the_hosts_of_a_url(url: str, named: list[tuple[str, int | None]]) -> None:
    assert [(host.name, host.port) for host in hosts_of(url)] == named


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://h1:1,h2:99999/db",
        "postgresql://h1,,h2/db",
        "postgresql:///db?host=a,b,c&port=1,2",
        "postgresql://h1,h2/db?target_session_attrs=prefer-standby",
    ],
)
def test_a_bad_list_of_hosts_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="url: "):
        Options(url).checked()
    with pytest.raises(ConfigError, match="url: "):
        Options("postgresql://h/db", pooler=True, listen_url=url).checked()


def test_several_hosts_are_asked_for_the_one_that_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    several = "postgresql://h1,h2/db"
    assert target_of(several) == "read-write" and target_of("postgresql://h1/db") is None
    assert target_of(f"{several}?target_session_attrs=any") == "any"
    monkeypatch.setenv("PGTARGETSESSIONATTRS", "primary")
    assert target_of(several) == "primary"


def test_a_direct_url_is_not_shown_with_its_password() -> None:
    options = Options(
        "postgresql://u:hunter2@pooler/db",
        pooler=True,
        listen_url="postgresql://u:hunter2@h1,h2/db",
    ).checked()
    assert "hunter2" not in repr(options) and "h1,h2" in repr(options)
    assert options.listens and not options.direct.pooler and options.direct.url.endswith("h2/db")
    with pytest.raises(ConfigError, match="listen_url"):
        structs.replace(options, pooler=False).checked()
