"""Records a session of `flowfabric top` on a demo database as docs/top.svg.

The data and the clock are fixed, so the same code records the same session.
"""

from __future__ import annotations

import asyncio
import html
import math
import random
import re
import sys
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import UUID

from flowfabric.cli.top.collect import Collector
from flowfabric.cli.top.screens import Detail
from flowfabric.cli.top.session import Session
from flowfabric.cli.top.view import TopApp
from flowfabric.connect import sqlite_engine
from flowfabric.engine.engine import Engine
from flowfabric.engine.executions.execution_counts import FRESH_S
from flowfabric.engine.protocol import EngineProtocol
from flowfabric.ids import ExecutionId
from flowfabric.loops.supervisor import Supervisor
from flowfabric.model.attempt import FailureClass
from flowfabric.model.budget import CreateBudgetArgs, ReportUsageAdminArgs
from flowfabric.model.execution import CreateExecutionArgs
from flowfabric.model.lease import ClaimPolicy, Work
from flowfabric.model.worker import RegisterWorkerArgs
from flowfabric.store.sqlite.registry import open_store
from flowfabric.testing import ManualClock

TARGET = Path(__file__).parent / "top.svg"
SIZE = (150, 46)
SECONDS_PER_FRAME = 4
ROUNDS = 40
FONTS = "Fira Code, DejaVu Sans Mono, Menlo, Consolas, monospace"
SESSION: tuple[tuple[str, ...], ...] = (
    (),
    ("5", "down", "enter"),
    ("escape", "4", "enter"),
    ("escape", "1", "p"),
)
"""The keys before each frame: the overview, why a run is stuck, the failures of a task, an action.
"""
GPU = {"routing_requirements": {"required_capabilities": ["gpu"]}}
LANES = {
    "mail": ("send_receipt", "send_newsletter"),
    "billing": ("charge_card", "settle_account"),
    "reports": ("monthly_report",),
}
WORKERS = {
    "worker-berlin-1": ("billing", "mail"),
    "worker-berlin-2": ("billing", "mail"),
    "worker-oslo-1": ("reports",),
}
ERRORS = {
    "charge_card": "CardDeclined: insufficient funds",
    "send_newsletter": "TimeoutError: smtp.example.com did not answer",
    "monthly_report": "ValueError: month must be in 1..12",
}


class Demo:
    """A deployment with work of all kinds, in the hands of this process."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine, self.clock = engine, clock
        self._random = random.Random(7)  # noqa: S311 - data of a demo
        self._held: defaultdict[str, list[Work]] = defaultdict(list)

    async def create(self, lane: str, task: str, **more: object) -> None:
        ident = ExecutionId.of(self._random.randrange(16), self._uuid())
        args = {"execution_id": ident, "lane_id": lane, "execution_kind": task, **more}
        await self.engine.create_execution(CreateExecutionArgs(**args))  # type: ignore[arg-type]

    def _uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128), version=4)

    async def prepare(self) -> None:
        await self._register()
        await self._add_budget("openai", {"tokens": 5_000_000, "usd": 200}, (4_310_550, 161))
        await self._add_budget("maps", {"requests": 10_000}, (10_000,))
        for _ in range(3):
            await self.create("vision", "label_image", policy=GPU)
        for _ in range(12):
            await self.create("exports", "export_csv")
        await self.engine.pause_lane("exports")
        self.clock.advance(480_000)
        for hours in range(1, 30):
            await self.create("mail", "reminder", delay_until=self.clock.now_ms + hours * 3_600_000)

    async def _register(self) -> None:
        for name, lanes in WORKERS.items():
            await self.engine.register_worker(
                RegisterWorkerArgs(
                    worker_id=name,
                    worker_instance_id=name,
                    lanes=frozenset(lanes),
                    liveness_ttl_ms=30_000,
                )
            )

    async def _add_budget(self, name: str, limits: dict[str, int], used: tuple[int, ...]) -> None:
        ident = self._uuid()
        await self.engine.create_budget(
            CreateBudgetArgs(
                budget_id=ident,
                dimensions=list(limits),
                hard_limits=list(limits.values()),
                soft_limits=[0] * len(limits),
                scope_type="name",
                scope_id=name,
                reset_interval_ms=86_400_000,
            )
        )
        await self.engine.report_usage_admin(
            ident, ReportUsageAdminArgs(dimensions=list(limits), deltas=list(used))
        )

    async def round(self, at: int) -> None:
        """Two seconds of work: executions come, and the workers take and end some of them."""
        self.clock.advance(2_000)
        await self._register()
        load = 0.55 + 0.45 * math.sin(at / 4.5)
        for _ in range(round(self._random.randint(45, 60) * load) + 6):
            lane = self._random.choices(list(LANES), (6, 4, 1))[0]
            await self.create(lane, self._random.choice(LANES[lane]))
        for worker, lanes in WORKERS.items():
            for lane in lanes:
                await self._work(worker, lane, self._random.randint(9, 15))
        await Supervisor(self.engine).run_once()

    async def _work(self, worker: str, lane: str, count: int) -> None:
        """The last execution of a claim keeps running for some rounds."""
        policy = ClaimPolicy(worker, worker, 60_000)
        claimed = await self.engine.claim_many(lane, (), policy, count)
        for work in claimed[:-1]:
            await self._end(work)
        for work in claimed[-1:]:
            percent = self._random.randrange(5, 95)
            await self.engine.progress(work.handle, percent, f"row {percent * 120:,}")
            self._held[worker].append(work)
            if len(self._held[worker]) > 4:
                await self._end(self._held[worker].pop(self._random.randrange(3)))

    async def _end(self, work: Work) -> None:
        error = ERRORS.get(work.execution_kind)
        if error is None or self._random.random() > 0.12:
            await self.engine.complete(work.handle, b"{}")
            return
        is_final = self._random.random() < 0.6
        kind = FailureClass.PERMANENT if is_final else FailureClass.TRANSIENT
        await self.engine.fail(work.handle, error, kind, retry_after_ms=60_000)


async def record() -> list[str]:
    """The frames of the session, each a whole SVG document."""
    clock = ManualClock(1_780_000_000_000)
    with TemporaryDirectory() as folder:
        engine = sqlite_engine(open_store(f"{folder}/ff.db", clock=clock), seed=7)
        try:
            return await _frames(engine, clock)
        finally:
            await engine.close()


async def _frames(engine: Engine, clock: ManualClock) -> list[str]:
    @asynccontextmanager
    async def writing() -> AsyncIterator[EngineProtocol]:
        yield engine

    demo = Demo(engine, clock)
    await demo.prepare()

    def seconds() -> float:
        return clock.now_ms / 1_000

    collector = Collector(engine, clock=seconds)
    for at in range(ROUNDS):
        await demo.round(at)
        await collector.collect()
    await asyncio.sleep(2 * FRESH_S + 0.1)
    found = await collector.collect()
    clock.advance(1_000)
    session = Session("sqlite:///ff.db", engine, collector, writing, "ada")
    app = TopApp(session, found, 3_600, seconds)
    frames = []
    async with app.run_test(size=SIZE) as pilot:
        for keys in SESSION:
            await pilot.press(*keys)
            await pilot.pause()
            if isinstance(app.screen, Detail):
                await app.screen.loaded.wait()
                await pilot.pause()
            frames.append(app.export_screenshot(title="flowfabric top"))
    return frames


def placed(frame: str) -> str:
    """Gives every word its own position, so that each font and viewer keeps the columns.

    No font is loaded from elsewhere.
    """
    frame = re.sub(r"@font-face \{.*?\}\s*", "", frame, flags=re.DOTALL)
    frame = frame.replace("font-family: Fira Code, monospace", f"font-family: {FONTS}")
    return re.sub(r"<text ([^>]*?)>([^<]*)</text>", _words, frame)


def _words(found: re.Match[str]) -> str:
    attributes, text = found[1], html.unescape(found[2]).replace("\xa0", " ")
    at = re.search(r'\bx="([\d.]+)"', attributes)
    width = re.search(r'textLength="([\d.]+)"', attributes)
    if at is None or width is None:
        return found[0]
    cell = float(width[1]) / len(text)
    words = []
    for word in re.finditer(r"─{1,6}|[^\s─]+", text):
        x = f'x="{float(at[1]) + word.start() * cell:.1f}"'
        length = f'textLength="{len(word[0]) * cell:.1f}"'
        placed_at = attributes.replace(at[0], x).replace(width[0], length)
        words.append(f"<text {placed_at}>{html.escape(word[0])}</text>")
    return "".join(words)


def animated(frames: list[str]) -> str:
    """One document that shows the frames in turn; a viewer without animation shows the first."""
    seconds = SECONDS_PER_FRAME * len(frames)
    share = 100 / len(frames)
    box = re.search(r'viewBox="([^"]+)"', frames[0])
    assert box is not None
    style = [
        f"@keyframes frame {{ 0%, {share:.2f}% {{ visibility: visible; }}",
        f"{share + 0.01:.2f}%, 100% {{ visibility: hidden; }} }}",
        f".frame {{ visibility: hidden; animation: frame {seconds}s step-end infinite; }}",
        ".frame:first-of-type { visibility: visible; }",
    ]
    shown = [
        f'<svg class="frame" style="animation-delay: {at * SECONDS_PER_FRAME}s">{frame}</svg>'
        for at, frame in enumerate(map(placed, frames))
    ]
    return "\n".join(
        [
            f'<svg viewBox="{box[1]}" xmlns="http://www.w3.org/2000/svg">',
            f"<style>{' '.join(style)}</style>",
            *shown,
            "</svg>\n",
        ]
    )


def main() -> None:
    """`--check` fails when the picture is out of date."""
    text = animated(asyncio.run(record()))
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text, encoding="utf-8")
    elif not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text:
        sys.exit("docs/top.svg is out of date: run `python -m docs.record_top`")


if __name__ == "__main__":
    main()
