"""The context of a plain `def` task: its calls block in the task's thread while the loop works."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from functools import partial, wraps
from queue import Empty, SimpleQueue
from typing import Concatenate, ParamSpec, TypeVar, overload

from flowfabric.sdk.context import Context as AsyncContext
from flowfabric.sdk.exceptions import StepError
from flowfabric.sdk.invoke import call_in_thread, is_async
from flowfabric.sdk.session import Session, TaskInfo

F = TypeVar("F", bound=Callable[..., object])
P = ParamSpec("P")
T = TypeVar("T")
LOOP_CHECK_S = 1.0
"""How often a waiting thread checks that its event loop is still open."""
_COROUTINE = "Coroutine[object, object, "
_ITERATOR = "AsyncIterator["


def documented(source: Callable[..., object]) -> Callable[[F], F]:
    """The docstring of an async function, for the blocking one with a signature of its own."""

    def copied(function: F) -> F:
        function.__doc__ = source.__doc__
        return function

    return copied


def presented(call: F, source: Callable[..., object]) -> F:
    """Name, docstring and signature of an async method, as its blocking caller sees them."""
    call.__name__, call.__qualname__ = source.__name__, source.__qualname__
    call.__module__, call.__doc__ = source.__module__, source.__doc__
    shown = inspect.signature(source)
    returned = str(shown.return_annotation)
    if returned.startswith(_COROUTINE):
        returned = returned.removeprefix(_COROUTINE).removesuffix("]")
    elif returned.startswith(_ITERATOR):
        returned = returned.removeprefix("Async")
    call.__signature__ = shown.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call


_Inbox = SimpleQueue[Callable[[], None] | None]
"""Calls for the waiting thread; None when the work it waits for is done."""


def _from_any_thread(
    method: Callable[Concatenate[AsyncContext, P], Coroutine[object, object, T]],
) -> Callable[Concatenate[Context, P], T]:
    def call(self: Context, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call(method.__name__, lambda: method(self._inner, *args, **kwargs), _Inbox())

    return presented(call, method)


def _in_order(
    method: Callable[Concatenate[AsyncContext, P], Coroutine[object, object, T]],
) -> Callable[Concatenate[Context, P], T]:
    """For steps and waits: only in the task's own thread, and never inside each other."""

    def call(self: Context, /, *args: P.args, **kwargs: P.kwargs) -> T:
        what, inbox = method.__name__, _Inbox()
        notify = kwargs.get("notify")
        if callable(notify):
            kwargs["notify"] = self._handed_over(notify, inbox, what)
        return self._call_in_order(what, lambda: method(self._inner, *args, **kwargs), inbox)

    return presented(call, method)


class Context(TaskInfo):
    """A plain `def` task whose first parameter is annotated `flowfabric.sync.Context` receives it.

    The calls are those of `flowfabric.Context`. They block the task's thread, and plain steps run
    in that thread. A wait, and a lost lease, unwind the thread with an exception that
    `except Exception` does not catch.
    """

    def __init__(self, inner: AsyncContext, session: Session) -> None:
        super().__init__(session)
        self._inner, self._loop = inner, asyncio.get_running_loop()
        self._thread, self._inside = 0, ""
        self.lost = threading.Event()
        """Set when the lease is lost."""
        session.on_lost = self.lost.set

    def enter(self) -> None:
        """Makes the current thread the task's own thread."""
        self._thread = threading.get_ident()

    # ---- steps and waits: in the task's own thread

    @overload
    def step(
        self, name: str, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T: ...

    @overload
    def step(self, name: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...

    @documented(AsyncContext.step)
    def step(
        self, name: str, function: Callable[..., object], *args: object, **kwargs: object
    ) -> object:
        what, inbox = f"step {name!r}", _Inbox()
        there = self._handed_over(function, inbox, what)
        return self._call_in_order(
            what, lambda: self._inner.step(name, there, *args, **kwargs), inbox
        )

    sleep = _in_order(AsyncContext.sleep)
    delay = _in_order(AsyncContext.delay)
    suspend = _in_order(AsyncContext.suspend)
    approval = _in_order(AsyncContext.approval)

    # ---- output and budgets: from any thread

    emit = _from_any_thread(AsyncContext.emit)
    patch = _from_any_thread(AsyncContext.patch)
    progress = _from_any_thread(AsyncContext.progress)
    spend = _from_any_thread(AsyncContext.spend)

    # ---- between the thread and the event loop

    def _call_in_order(
        self, what: str, work: Callable[[], Coroutine[object, object, T]], inbox: _Inbox
    ) -> T:
        where = f"task {self.task}: {what}"
        if threading.get_ident() != self._thread:
            raise StepError(
                f"{where}: call it in the task's own thread; calls of other threads have no order"
            )
        if self._inside:
            raise StepError(
                f"{where} is inside of {self._inside}; steps do not nest, call one after the other"
            )
        return self._call(what, work, inbox)

    def _call(
        self,
        what: str,
        work: Callable[[], Coroutine[object, object, T]],
        inbox: _Inbox,
    ) -> T:
        """Runs the work on the event loop; the waiting thread serves requests meanwhile."""
        if asyncio._get_running_loop() is self._loop:
            raise StepError(
                f"task {self.task}: {what}: it would block the worker's event loop; "
                "an async def takes flowfabric.Context"
            )

        async def answer() -> tuple[list[T], BaseException | None]:
            try:
                self._session.check_active(what)
                return [await work()], None
            except BaseException as error:  # returned: a cancelled future would drop its message
                return [], error

        try:
            value, error = self._waited(what, answer(), inbox).result()
        except CancelledError:
            raise self._gone(what) from None
        if error is not None:
            raise error
        return value[0]

    def _waited(self, what: str, answer: Coroutine[object, object, T], inbox: _Inbox) -> Future[T]:
        try:
            done = asyncio.run_coroutine_threadsafe(answer, self._loop)
            done.add_done_callback(lambda _: inbox.put(None))
        except RuntimeError:
            answer.close()
            raise self._gone(what) from None
        while True:
            try:
                found = inbox.get(timeout=LOOP_CHECK_S)
            except Empty:
                if self._loop.is_closed():
                    answer.close()
                    raise self._gone(what) from None
                continue
            if found is None:
                return done
            found()

    def _gone(self, what: str) -> asyncio.CancelledError:
        return asyncio.CancelledError(f"task {self.task}: {what}: its worker has stopped")

    def _handed_over(
        self, function: Callable[..., object], inbox: _Inbox, what: str
    ) -> Callable[..., object]:
        """For the event loop: a function that has this one called in the waiting thread."""
        if is_async(function):
            return function

        def run(answer: Future[object], call: Callable[[], object]) -> None:
            if not answer.set_running_or_notify_cancel():
                return
            self._inside = what
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)
            finally:
                self._inside = ""

        @wraps(function)
        async def handed_over(*args: object, **kwargs: object) -> object:
            answer: Future[object] = Future()
            inbox.put(partial(run, answer, partial(call_in_thread, function, args, kwargs)))
            found = await asyncio.wrap_future(answer)
            return await found if inspect.isawaitable(found) else found

        return handed_over


def thread_function(
    function: Callable[..., T], arguments: Mapping[str, object]
) -> Callable[..., T]:
    """The function, which first makes its thread that of the context among its arguments."""
    for context in arguments.values():
        if isinstance(context, Context):
            break
    else:
        return function

    @wraps(function)
    def entered(**kwargs: object) -> T:
        context.enter()
        return function(**kwargs)

    return entered
