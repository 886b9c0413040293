"""The order in which a task reaches its steps; it has to be the same on every run."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from flowfabric.model.step import MAX_STEP_NAME_BYTES, MAX_STEPS
from flowfabric.sdk.exceptions import StepError

STEP = "step"


class _Open(Struct):
    what: str
    is_step: bool
    by: asyncio.Task[object] | None


class StepOrder:
    """Numbers steps when they are called, not when awaited: gathered steps keep their order.

    Steps that two asyncio tasks call at the same time have no order and are refused.
    """

    def __init__(self, task: str, loop: asyncio.AbstractEventLoop) -> None:
        self._task, self.next, self._ended = task, 0, False
        self._names: set[str] = set()
        self._open: dict[int, _Open] = {}
        self._inside: set[asyncio.Task[object]] = set()
        self._loop = loop

    def check_here(self, what: str) -> None:
        """Raises unless the task still runs, and in its own event loop."""
        if self._ended:
            raise StepError(
                f"task {self._task}: {what}: the task has ended; await everything before it returns"
            )
        if asyncio._get_running_loop() is not self._loop:
            raise StepError(
                f"task {self._task}: {what}: call it in the task itself, not in a thread or "
                "another event loop"
            )

    def number(self, *names: str) -> int:
        """Takes one position per name. Returns the first."""
        first = self.next
        for name in names:
            self._number(name)
        return first

    def _number(self, name: str) -> None:
        if (
            not isinstance(name, str)
            or not 0 < len(name.encode(errors="replace")) <= MAX_STEP_NAME_BYTES
        ):
            raise StepError(
                f"task {self._task}: a step's name is text of 1 to {MAX_STEP_NAME_BYTES} bytes, "
                f"got {name!r:.80}"
            )
        if name in self._names:
            raise StepError(
                f"task {self._task}: {name!r} names two steps; each needs a name of its own"
            )
        if self.next >= MAX_STEPS:
            raise StepError(
                f"task {self._task}: {name!r}: one run has at most {MAX_STEPS} steps; submit "
                "further runs for the rest"
            )
        self._names.add(name)
        self.next += 1

    def reach(self, name: str, kind: str) -> int:
        """Takes a position, which is open until `left`."""
        what = f"{kind} {name!r}"
        self.check_here(what)
        me = asyncio.current_task()
        if me in self._inside:
            raise StepError(
                f"task {self._task}: {what} is inside of another step; steps do not nest, call one "
                "after the other"
            )
        for other in self._open.values():
            self._check_beside(what, kind == STEP, me, other)
        position = self.number(name)
        self._open[position] = _Open(what, kind == STEP, me)
        return position

    def _check_beside(
        self, what: str, is_step: bool, me: asyncio.Task[object] | None, other: _Open
    ) -> None:
        if not is_step or not other.is_step:
            reason = f"{what} cannot begin before {other.what} is finished; await that one first"
        elif me is not other.by:
            reason = (
                f"{what} and {other.what} are called by two asyncio tasks at once, so their order "
                "may differ on the next run. Call both in the task itself: "
                "await asyncio.gather(ctx.step(...), ctx.step(...))"
            )
        else:
            return
        raise StepError(f"task {self._task}: {reason}")

    def left(self, position: int) -> None:
        self._open.pop(position, None)

    @contextmanager
    def inside(self, what: str) -> Iterator[None]:
        """While a step's function runs."""
        self.check_here(what)
        me = asyncio.current_task()
        assert me is not None
        self._inside.add(me)
        try:
            yield
        finally:
            self._inside.discard(me)

    def check_finished(self) -> None:
        for other in self._open.values():
            raise StepError(
                f"task {self._task}: it returned before {other.what} was finished; await it first"
            )

    def end(self) -> None:
        """Refuses further calls, and cancels steps that still run in their own asyncio tasks."""
        self._ended = True
        for running in self._inside - {asyncio.current_task()}:
            running.cancel()
