"""HTTP connections with limits on the size and duration of a request head, and on their number."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from flowfabric.server.connection_limits import ConnectionLimits

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
