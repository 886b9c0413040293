"""HTTP connections with bounds: on the size and time of a head, and on how many there are."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from flowfabric.server.connection_limits import Crowd

MAX_HEAD_BYTES = 65_536
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class CarefulProtocol(HttpToolsProtocol):
    """A client has so long, and so many bytes, from its first byte to the end of its headers."""

    head_s: float = 20.0
    crowd: Crowd
    _head: int = 0
    _named: int = 0
    _timer: asyncio.TimerHandle | None = None
    _in_head: bool = True

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.crowd.enter(self)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._calm()
        self.crowd.know(self)
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def is_idle(self) -> bool:
        """No request is being answered, and no answer waits to be read."""
        return (
            self.cycle is None or self.cycle.response_complete
        ) and not self.transport.get_write_buffer_size()

    def on_response_complete(self) -> None:
        self.timeout_keep_alive = self.crowd.keep_alive_s(self)
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        if self._in_head:
            self._head += len(data)
            if self._timer is None:
                self._await_head()
        super().data_received(data)
        if self._in_head and self._head > MAX_HEAD_BYTES:
            self._refuse()

    def on_message_begin(self) -> None:
        self._named = 0
        super().on_message_begin()
        self.scope["state"]["connection"] = self

    def on_url(self, url: bytes) -> None:
        self._named += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._named += len(name) + len(value) + len(b": \r\n")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head, self._head = False, 0
        self._calm()
        if self._named > MAX_HEAD_BYTES:  # a head that came all at once
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

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self.head_s, self._cut)

    def _calm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self.transport.close()


def careful(head_s: float, crowd: Crowd) -> type[CarefulProtocol]:
    """The protocol of a server whose clients have so long for a head."""
    return type("CarefulProtocol", (CarefulProtocol,), {"head_s": head_s, "crowd": crowd})
