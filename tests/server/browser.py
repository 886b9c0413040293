"""A browser controlled through its DevTools protocol."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.patience import patient

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)


def found() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket, self._number = socket, 0
        self._events: list[str] = []

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": params})
        while True:
            said = await self._socket.receive_json(timeout=30)
            self._events.append(said.get("method", ""))
            if said.get("id") == self._number:
                assert "error" not in said, said
                result: dict[str, Any] = said["result"]
                return result

    async def heard(self, event: str) -> None:
        """Since the events were last forgotten."""
        while event not in self._events:
            self._events.append((await self._socket.receive_json(timeout=30)).get("method", ""))

    async def open(self, url: str) -> None:
        await self.ask("Page.enable")
        self._events.clear()
        await self.ask("Page.navigate", url=url)
        await self.heard("Page.loadEventFired")

    async def run(self, script: str) -> Any:
        found = await self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    async def click(self, selector: str) -> None:
        """Where the thing is, as a hand would, and until the next page has loaded."""
        await self.run(
            f"thing = document.querySelector({selector!r}); thing.scrollIntoView(); box = "
            f"thing.getBoundingClientRect(); 0"
        )
        x, y = await self.run("[box.x + box.width / 2, box.y + box.height / 2]")
        self._events.clear()
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask(
                "Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1
            )
        await self.heard("Page.loadEventFired")

    async def write(self, selector: str, text: str) -> None:
        await self.run(f"document.querySelector({selector!r}).focus()")
        await self.ask("Input.insertText", text=text)


@asynccontextmanager
async def browsing() -> AsyncIterator[Page]:
    program = found()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = await asyncio.create_subprocess_exec(
            program,
            *FLAGS,
            f"--user-data-dir={folder}",
            "about:blank",
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stderr is not None
        try:
            async with patient(60):
                while b"DevTools listening on" not in (line := await process.stderr.readline()):
                    assert line, "the browser ended"
            base = line.split(b"ws://")[1].split(b"/")[0].decode()
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://{base}/json/list") as listed:
                    pages = [each for each in await listed.json() if each["type"] == "page"]
                async with session.ws_connect(
                    pages[0]["webSocketDebuggerUrl"], max_msg_size=0
                ) as socket:
                    yield Page(socket)
        finally:
            process.kill()
            await process.wait()
