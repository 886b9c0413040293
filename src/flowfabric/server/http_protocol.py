"""HTTP connections with limits on the size and duration of a request head, and on their number."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

KEEP_ALIVE_S = 75
CROWDED_KEEP_ALIVE_S = 2
"""Idle seconds between requests; the second value applies to unauthenticated connections while
more than half of the connections are in use."""
MAX_HEAD_BYTES = 65_536
_TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"connection: close\r\ncontent-length: 0\r\n\r\n"
)


class BoundedHttpProtocol(HttpToolsProtocol):
    """Bounds the seconds and bytes from the first byte of a request to the end of its headers."""

    head_s: float = 20.0
    limits: ConnectionLimits
    _head_bytes: int = 0
    _field_bytes: int = 0
    _timer: asyncio.TimerHandle | None = None
    _in_head: bool = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.limits.add(self)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_timer()
        self.limits.exempt(self)
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """Whether no request is running and no response is waiting to be sent."""
        return (
            self.cycle is None or self.cycle.response_complete
        ) and not self.transport.get_write_buffer_size()

    def on_response_complete(self) -> None:
        self.timeout_keep_alive = self.limits.keep_alive_s(self)
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head_bytes += len(data)
            if self._timer is None:
                self._start_timer()
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self._refuse()

    def on_message_begin(self) -> None:
        self._field_bytes = 0
        super().on_message_begin()
        self.scope["state"]["connection"] = self

    def on_url(self, url: bytes) -> None:
        self._field_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._field_bytes += len(name) + len(value) + len(b": \r\n")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        self._cancel_timer()
        if self._field_bytes > MAX_HEAD_BYTES:  # a head that arrived in one read
            self._refuse()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.transport.is_closing():
            super().on_message_complete()
        self._in_head = True

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.transport.write(_TOO_LARGE)
            self.transport.close()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.head_s, self._on_timeout)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


def bounded_protocol(head_s: float, limits: ConnectionLimits) -> type[BoundedHttpProtocol]:
    """The protocol class of one server, with `head_s` seconds for each head."""
    return type("BoundedHttpProtocol", (BoundedHttpProtocol,), {"head_s": head_s, "limits": limits})


class ConnectionLimits:
    """Tracks the connections on which no valid token has been received, oldest first."""

    def __init__(self, maximum: int, per_address: int) -> None:
        self._maximum, self._per_address = maximum, per_address
        self._unauthenticated: dict[BoundedHttpProtocol, str] = {}
        self._by_address: Counter[str] = Counter()

    def add(self, new: BoundedHttpProtocol) -> None:
        self._unauthenticated[new] = new.address
        self._by_address[new.address] += 1
        others = [each for each in self._unauthenticated if each is not new]
        idle = [each for each in others if each.is_idle]
        if self._by_address[new.address] > self._per_address:
            self._close_first([each for each in idle if each.address == new.address])
        if len(new.connections) >= self._maximum:
            self._close_first(self._still_open(idle) or self._still_open(others))

    def exempt(self, connection: BoundedHttpProtocol) -> None:
        """Stop counting a connection, because it sent a valid token or was closed."""
        address = self._unauthenticated.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def keep_alive_s(self, connection: BoundedHttpProtocol) -> int:
        crowded = len(connection.connections) * 2 > self._maximum
        unauthenticated = connection in self._unauthenticated
        return CROWDED_KEEP_ALIVE_S if crowded and unauthenticated else KEEP_ALIVE_S

    def _still_open(self, connections: list[BoundedHttpProtocol]) -> list[BoundedHttpProtocol]:
        return [each for each in connections if each in self._unauthenticated]

    def _close_first(self, oldest_first: list[BoundedHttpProtocol]) -> None:
        for each in oldest_first[:1]:
            self.exempt(each)
            each.connections.discard(each)
            each.transport.abort()


def mark_authenticated(state: Mapping[str, object]) -> None:
    """Exempt the connection of a request with a valid token."""
    connection = state.get("connection")
    if isinstance(connection, BoundedHttpProtocol):
        connection.limits.exempt(connection)
