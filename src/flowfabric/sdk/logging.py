"""A middleware that logs the start and the end of every run of a task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import CancelRun, Parked

T = TypeVar("T")
log = logging.getLogger("flowfabric.runs")


async def log_middleware(ctx: Context, call: Callable[[], Awaitable[T]]) -> T:
    """`App(url, middleware=[log_middleware])` logs on the logger `flowfabric.runs`.

    Each record has the fields event (`task.start` or `task.end`), execution_id, task, lane and
    attempt. The end has also `end` (succeeded, waits, cancelled, stopped or failed), `elapsed_ms`
    and, after a failure, `raised`, the exception's class. Arguments, results and messages of
    exceptions are not logged, because they may be confidential.
    """
    fields: dict[str, str | int | float] = {
        "execution_id": str(ctx.execution_id),
        "task": ctx.task,
        "lane": ctx.lane,
        "attempt": ctx.attempt,
    }
    log.info("task started", extra={**fields, "event": "task.start"})
    began = time.perf_counter()
    raised: BaseException | None = None
    try:
        return await call()
    except BaseException as error:
        raised = error
        raise
    finally:
        fields |= {
            "event": "task.end",
            "end": _end(raised),
            "elapsed_ms": round((time.perf_counter() - began) * 1_000, 3),
        }
        if fields["end"] == "failed":
            fields["raised"] = type(raised).__name__
        log.info("task ended", extra=fields)


def _end(raised: BaseException | None) -> str:
    match raised:
        case None:
            return "succeeded"
        case Parked():
            return "waits"
        case CancelRun():
            return "cancelled"
        case asyncio.CancelledError():
            return "stopped"
    return "failed"
