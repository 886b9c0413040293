"""The recorded requests, sent again to our server, and what a worker of the original did between
them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

from flowfabric.engine.engine import Engine
from flowfabric.ids import ExecutionId
from flowfabric.model.attempt import FailureClass
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy, Handle
from flowfabric.model.stream import Frame, FrameKind
from flowfabric.model.waitpoint import Single
from tests.compat.recorded import Answered, Exchange, answered
from tests.engine.suspend_helpers import park_held
from tests.server.client import Answer, Client

JSON = {"Content-Type": "application/json"}
PAGE = {"Origin": "https://example.org"}
ODD_HEADERS: dict[str, dict[str, str]] = {
    "body no ct": {},
    "body text ct": {"Content-Type": "text/plain"},
    "body charset": {"Content-Type": "application/json; charset=utf-8"},
    "body vnd+json": {"Content-Type": "application/vnd.api+json"},
    "preflight": {**PAGE, "Access-Control-Request-Method": "POST"},
    "cors get": PAGE,
}
TIME = re.compile(r"\b\d{13}\b")
NOT_UTF8 = b'{"new_kid": "\xff"}'


class Replay:
    """Clients mint nearly all ids, so most of a run can be sent as it was.

    What the server makes now is put in place of what it made then, and times are as much later as
    this run is.
    """

    def __init__(self, engine: Engine, client: Client, run: list[Exchange], now_ms: int) -> None:
        self._engine, self._client = engine, client
        self._later_ms = now_ms - next(each.request["now"] for each in run if each.step == "create")
        self._run = {each.step: each for each in run}
        self._handle: Handle | None = None
        self._ours: dict[str, str] = {}
        self._before: dict[str, Callable[[str], Awaitable[None]]] = {
            "list": self._another,
            "get active": self._claim,
            "stream": self._write,
            "get completed": self._complete,
            "get failed": self._fail,
            "revoke active": self._claim,
            "get suspended": self._suspend,
        }

    async def send(self, exchange: Exchange) -> Answered:
        if (act := self._before.get(exchange.step)) is not None:
            await act(exchange.path)
        if exchange.step.startswith("flow member state"):  # the cancel goes on behind its answer
            await self._client.get(
                self._sent(exchange.path).replace("/state", "/wait?timeout_ms=10000")
            )
        answer = await self._request(exchange)
        body = _body(answer)
        if exchange.step == "stream":
            self._ours |= {
                then["id"]: now["id"]
                for then, now in zip(exchange.body["frames"], body["frames"], strict=True)
            }
        return answered(answer.status, body)

    async def _request(self, exchange: Exchange) -> Answer:
        data = self._data(exchange)
        headers = ODD_HEADERS.get(exchange.step, {} if data is None else JSON)
        skipped = ("content-type",) if exchange.step == "body no ct" else ()
        return await self._client.send(
            exchange.method,
            self._sent(exchange.path),
            data=data,
            headers=headers,
            skip_auto_headers=skipped,
        )

    def _data(self, exchange: Exchange) -> bytes | BytesIO | None:
        kind, _, rest = exchange.step.partition(" ")
        if kind == "limit":  # a body of so many bytes, or of one less
            where, size = rest.split()[:2]
            return BytesIO(b"[" + b" " * (int(size) - 2 - (where == "at")) + b"]")
        if exchange.step == "body bad utf8":
            return NOT_UTF8
        if exchange.request is None:
            return None
        if kind == "body":
            return str(exchange.request).encode()
        text = TIME.sub(
            lambda found: str(int(found[0]) + self._later_ms), json.dumps(exchange.request)
        )
        return self._sent(text).encode()

    def _sent(self, text: str) -> str:
        for then, now in self._ours.items():
            text = text.replace(then, now)
        return text

    # ---- what the worker did

    async def _another(self, path: str) -> None:
        """One that was created on the side."""
        known = {
            each.request["execution_id"]
            for each in self._run.values()
            if each.step.startswith("create")
        }
        (ident,) = set(self._run["list"].body["executions"]) - known
        await self._engine.create_execution(
            CreateExecutionArgs(execution_id=ExecutionId(ident), lane_id="aside")
        )

    async def _claim(self, path: str) -> None:
        ident = path.split("/")[3]
        lane = next(
            each.request["lane_id"]
            for each in self._run.values()
            if each.step.startswith("create") and each.request["execution_id"] == ident
        )
        self._handle = await self._engine.claim(
            lane, (), ClaimPolicy("w", "w-1", 30_000, 0, namespace=None)
        )
        assert self._handle is not None
        assert self._engine.fields(self._handle).execution_id == ExecutionId(ident)

    async def _write(self, path: str) -> None:
        for number, label in enumerate(("log", "token", "log")):
            frame = Frame(f"frame {number}".encode(), FrameKind.Stdout, label, "corr-1")
            await self._engine.append_frame(self._held, frame)

    async def _complete(self, path: str) -> None:
        await self._engine.complete(self._held, b"done")

    async def _fail(self, path: str) -> None:
        await self._claim(path)
        await self._engine.fail(self._held, "boom", FailureClass.PERMANENT)

    async def _suspend(self, path: str) -> None:
        await self._claim(path)
        ident, then = ExecutionId(path.split("/")[3]), self._run["pending"].body[0]["waitpoint_id"]
        key = f"wpk:{then}"
        parked = await park_held(
            self._engine, ident, self._held, key, resume_condition=Single(key, "go")
        )
        token = self._run["signal go"].request["waitpoint_token"]
        self._ours |= {
            then: str(parked.waitpoint.waitpoint_id),
            token: parked.waitpoint.waitpoint_token,
        }

    @property
    def _held(self) -> Handle:
        assert self._handle is not None
        return self._handle


def _body(answer: Answer) -> Any:
    if not answer.headers.get("content-type", "").endswith("json"):
        return {"_text": answer.raw.decode()} if answer.raw != b"done" else "done"
    return answer.json if answer.raw else {"_text": ""}
