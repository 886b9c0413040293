"""The context of a plain function: every call waits in the function's thread while the worker's event loop does it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from functools import partial, wraps
from inspect import isawaitable
from queue import Empty, SimpleQueue
from typing import Any, Literal, TypeVar
from uuid import UUID

from msgspec import Struct

from flowfabric.model.waitpoint import Condition, ReasonCode
from flowfabric.sdk.call_user_code import is_async, whole
from flowfabric.sdk.context import Context as AsyncContext
from flowfabric.sdk.durations import Span
from flowfabric.sdk.exceptions import StepError
from flowfabric.sdk.waitpoints import Decision, Notify, Signal

T = TypeVar("T")
STILL_THERE_S = 1.0
"""So often a thread that waits looks whether its event loop is still there."""


class _Errand(Struct, frozen=True):
    """A plain function of the user's, to be run in the thread that waits."""

    call: Callable[[], Any]
    told: asyncio.Future[Any]


_Post = SimpleQueue[_Errand | Future[Any]]


class Context:
    """Given to a plain `def` task whose first parameter is annotated with it. Steps run in the task's own thread.

    What makes a task wait, and what stops one that lost its lease, unwinds the thread as an exception that `except Exception`
    does not catch.
    """

    def __init__(self, inner: AsyncContext) -> None:
        self._inner, self._loop = inner, asyncio.get_running_loop()
        self._thread, self._inside = 0, ""
        self.execution_id, self.attempt, self.tags = inner.execution_id, inner.attempt, inner.tags
        self.raw_input, self.task, self.lane = inner.raw_input, inner.task, inner.lane
        self.lost = threading.Event()
        """Set when somebody else has the run now, or nobody may have it any more."""
        inner.when_lost = self.lost.set

    def enter(self) -> None:
        """From now on, this is the task's thread."""
        self._thread = threading.get_ident()

    @property
    def is_lost(self) -> bool:
        return self._inner.is_lost

    @property
    def log(self) -> logging.LoggerAdapter[logging.Logger]:
        return self._inner.log

    # ---- steps and waiting: in the task's own thread

    def step(self, name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs it once: when the task is run again, after a crash or a wait, what it came to is returned instead.

        A plain function runs here, an async one on the worker's event loop.
        """
        post: _Post = SimpleQueue()
        there = self._there(function, post, f"step {name!r}")
        return self._in_order(
            f"step {name!r}", lambda: self._inner.step(name, there, *args, **kwargs), post
        )

    def sleep(self, span: Span, *, name: str | None = None) -> None:
        """Goes on after this long. The thread ends here, and the task is run again from the top, past its finished steps."""
        self._in_order("sleep", lambda: self._inner.sleep(span, name=name))

    def delay(self, span: Span) -> None:
        """Stops here and runs the task again after this long, from the top, past its finished steps."""
        self._in_order("delay", lambda: self._inner.delay(span))

    def suspend(
        self,
        name: str,
        condition: Condition | None = None,
        *,
        timeout: Span | None = None,
        reason: ReasonCode = ReasonCode.WAITING_FOR_SIGNAL,
        notify: Notify | None = None,
        payload: Any = Any,
    ) -> list[Signal]:
        """Waits for a signal, or for a condition over the waitpoint `name`; without a thread. What arrived is returned."""
        post: _Post = SimpleQueue()
        told = None if notify is None else self._there(notify, post, f"wait {name!r}")
        work = partial(
            self._inner.suspend,
            name,
            condition,
            timeout=timeout,
            reason=reason,
            notify=told,
            payload=payload,
        )
        return self._in_order(f"wait {name!r}", work, post)

    def approval(
        self,
        name: str,
        *,
        need: int = 1,
        distinct: bool = True,
        timeout: Span | None = None,
        notify: Notify | None = None,
        payload: Any = Any,
        on_reject: Literal["raise", "return"] = "raise",
        approvers: Sequence[str] = (),
    ) -> Decision:
        """Waits for so many approvals, of different people if `distinct`, or for one rejection, which raises Rejected."""
        post: _Post = SimpleQueue()
        told = None if notify is None else self._there(notify, post, f"wait {name!r}")
        options = {
            "need": need,
            "distinct": distinct,
            "timeout": timeout,
            "payload": payload,
            "on_reject": on_reject,
            "approvers": approvers,
        }
        work = partial(self._inner.approval, name, notify=told, **options)
        return self._in_order(f"wait {name!r}", work, post)

    # ---- output: from any thread

    def emit(self, data: Any, *, type: str = "", live: Span | None = None) -> None:
        """Adds to the run's stream: text, bytes, or anything that has a JSON form. With `live`, only for those who watch now."""
        self._call("emit", lambda: self._inner.emit(data, type=type, live=live))

    def patch(self, changes: Mapping[str, Any]) -> int:
        """Merges this into the run's summary document (null removes); its version."""
        return self._call("patch", lambda: self._inner.patch(changes))

    def progress(self, percent: int | None = None, message: str | None = None) -> None:
        self._call("progress", lambda: self._inner.progress(percent, message))

    def spend(self, budget: str | UUID, *, key: str | None = None, **dimensions: int) -> None:
        """Counts against a budget; over a hard limit, nothing is counted and BudgetExceeded raised. Once per `key`.

        Where the budget holds the run until there is room, the run waits without a slot and goes on from the top.
        """
        self._call(f"spend from {budget}", lambda: self._inner.spend(budget, key=key, **dimensions))

    # ---- between the thread and the event loop

    def _in_order(
        self, what: str, work: Callable[[], Coroutine[Any, Any, T]], post: _Post | None = None
    ) -> T:
        if threading.get_ident() != self._thread:
            raise StepError(
                f"task {self.task}: {what}: call it in the task's own thread; what others reach has no order"
            )
        if self._inside:
            said = f"{what} is inside of {self._inside}; a step is one piece, make it two after each other"
            raise StepError(f"task {self.task}: {said}")
        return self._call(what, work, post)

    def _call(
        self, what: str, work: Callable[[], Coroutine[Any, Any, T]], post: _Post | None = None
    ) -> T:
        """Done there, awaited here; meanwhile whatever is to be run here is run."""
        if asyncio._get_running_loop() is self._loop:
            said = "it would block the worker's event loop; take the Context of flowfabric in an async def"
            raise StepError(f"task {self.task}: {what}: {said}")

        async def answer() -> tuple[Any, BaseException | None]:
            try:
                self._inner.check_goes_on(what)
                return await work(), None
            except BaseException as error:  # as it is: a cancelled future forgets what was said
                return None, error

        waited = self._waited(what, answer(), post if post is not None else SimpleQueue())
        try:
            value, error = waited.result()
        except CancelledError:
            raise self._gone(what) from None
        if error is not None:
            raise error
        found: T = value
        return found

    def _waited(self, what: str, answer: Coroutine[Any, Any, Any], post: _Post) -> Future[Any]:
        try:
            asyncio.run_coroutine_threadsafe(answer, self._loop).add_done_callback(post.put)
        except RuntimeError:
            answer.close()
            raise self._gone(what) from None
        while True:
            try:
                found = post.get(timeout=STILL_THERE_S)
            except Empty:
                if self._loop.is_closed():
                    answer.close()
                    raise self._gone(what) from None
                continue
            if isinstance(found, Future):
                return found
            self._run(found)

    def _gone(self, what: str) -> asyncio.CancelledError:
        return asyncio.CancelledError(f"task {self.task}: {what}: its worker has stopped")

    def _there(self, function: Callable[..., Any], post: _Post, what: str) -> Callable[..., Any]:
        """For the event loop: a function that has this one run in the thread that waits."""
        if is_async(function):
            return function

        def run(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            self._inside = what
            try:
                return whole(function, args, kwargs)
            finally:
                self._inside = ""

        @wraps(function)
        async def handed_over(*args: Any, **kwargs: Any) -> Any:
            told = self._loop.create_future()
            post.put(_Errand(partial(run, args, kwargs), told))
            found = await told
            return await found if isawaitable(found) else found

        return handed_over

    def _run(self, errand: _Errand) -> None:
        try:
            tell: Callable[[], None] = partial(errand.told.set_result, errand.call())
        except BaseException as error:
            tell = partial(errand.told.set_exception, error)
        try:
            self._loop.call_soon_threadsafe(_unless_done, errand.told, tell)
        except RuntimeError:  # the loop is closed, and nobody listens any more
            return


def _unless_done(told: asyncio.Future[Any], tell: Callable[[], None]) -> None:
    if not told.done():
        tell()


def in_its_thread(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Callable[..., Any]:
    """The function, such that the context among its arguments knows the thread it is called in."""
    for context in arguments.values():
        if isinstance(context, Context):
            break
    else:
        return function

    @wraps(function)
    def entered(**kwargs: Any) -> Any:
        context.enter()
        return function(**kwargs)

    return entered
