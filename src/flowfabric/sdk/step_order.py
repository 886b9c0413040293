"""In which order a task reaches its steps: the same each time, or it is told so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import Struct

from flowfabric.model.step import MAX_STEP_NAME_BYTES, MAX_STEPS
from flowfabric.sdk.exceptions import StepError

STEP = "step"


class _UnderWay(Struct):
    what: str
    is_step: bool
    by: asyncio.Task[Any] | None


class StepOrder:
    """Numbers what a task asks for when it is called, not when it is awaited: gathered steps keep their order.

    What two asyncio tasks ask for at the same time has no order, and is refused.
    """

    __slots__ = ("_ended", "_inside", "_loop", "_names", "_next", "_task", "_under_way")

    def __init__(self, task: str, loop: asyncio.AbstractEventLoop) -> None:
        self._task, self._next, self._ended = task, 0, False
        self._names: set[str] = set()
        self._under_way: dict[int, _UnderWay] = {}
        self._inside: set[asyncio.Task[Any]] = set()
        self._loop = loop

    @property
    def next(self) -> int:
        return self._next

    def check_here(self, what: str) -> None:
        """Only while the task runs, and only where it runs."""
        if self._ended:
            raise StepError(
                f"task {self._task}: {what}: the task has ended; await everything it asks for before it returns"
            )
        if asyncio._get_running_loop() is not self._loop:
            raise StepError(
                f"task {self._task}: {what}: call it in the task itself, not in a thread or another event loop"
            )

    def number(self, *names: str) -> int:
        """The first of as many positions as there are names, which no others have."""
        first = self._next
        for name in names:
            self._number(name)
        return first

    def _number(self, name: str) -> None:
        if (
            not isinstance(name, str)
            or not 0 < len(name.encode(errors="replace")) <= MAX_STEP_NAME_BYTES
        ):
            raise StepError(
                f"task {self._task}: a step's name is text of 1 to {MAX_STEP_NAME_BYTES} bytes, got {name!r:.80}"
            )
        if name in self._names:
            raise StepError(
                f"task {self._task}: {name!r} names two steps; each needs a name of its own"
            )
        if self._next >= MAX_STEPS:
            raise StepError(
                f"task {self._task}: {name!r}: one run has at most {MAX_STEPS} steps; submit further tasks instead"
            )
        self._names.add(name)
        self._next += 1

    def reach(self, name: str, kind: str) -> int:
        """Numbered and under way, until `left`."""
        what = f"{kind} {name!r}"
        self.check_here(what)
        me = asyncio.current_task()
        if me in self._inside:
            raise StepError(
                f"task {self._task}: {what} is inside of another step; a step is one piece, make it two after each other"
            )
        for other in self._under_way.values():
            self._check_beside(what, kind == STEP, me, other)
        position = self.number(name)
        self._under_way[position] = _UnderWay(what, kind == STEP, me)
        return position

    def _check_beside(
        self, what: str, is_step: bool, me: asyncio.Task[Any] | None, other: _UnderWay
    ) -> None:
        if not is_step or not other.is_step:
            said = f"{what} cannot begin before {other.what} is finished; await that one first"
        elif me is not other.by:
            said = (
                f"{what} and {other.what} are reached by two asyncio tasks at once, so their order may differ the next time. "
                "Call both in the task itself: await asyncio.gather(ctx.step(...), ctx.step(...))"
            )
        else:
            return
        raise StepError(f"task {self._task}: {said}")

    def left(self, position: int) -> None:
        self._under_way.pop(position, None)

    @contextmanager
    def inside(self, what: str) -> Iterator[None]:
        """While a step's own function runs."""
        self.check_here(what)
        me = asyncio.current_task()
        assert me is not None
        self._inside.add(me)
        try:
            yield
        finally:
            self._inside.discard(me)

    def check_finished(self) -> None:
        for other in self._under_way.values():
            raise StepError(
                f"task {self._task}: it returned before {other.what} was finished; await it first"
            )

    def end(self) -> None:
        """From now on everything is refused, and steps that run on in asyncio tasks of their own are stopped."""
        self._ended = True
        for running in self._inside - {asyncio.current_task()}:
            running.cancel()
