"""The deployment that a view shows, and how it is read and changed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from msgspec import Struct

from flowfabric.cli.top.collect import Collector
from flowfabric.engine.protocol import EngineProtocol


class Session(Struct, frozen=True):
    """`url` has no secrets. `writing` opens an engine for one action; reads never write."""

    url: str
    engine: EngineProtocol
    collector: Collector
    writing: Callable[[], AbstractAsyncContextManager[EngineProtocol]]
    operator: str = ""
