"""A middleware that logs when a run of a task begins, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from flowfabric.sdk.context import Context
from flowfabric.sdk.exceptions import CancelRun, Parked

log = logging.getLogger("flowfabric.runs")


async def log_middleware(ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    """`App(url, middleware=[log_middleware])`: on the logger `flowfabric.runs`, with the ids as fields of the record.

    Arguments, results and messages of errors are left out: they may hold what nobody should read.
    """
    said = {
        "execution_id": str(ctx.execution_id),
        "task": ctx.task,
        "lane": ctx.lane,
        "attempt": ctx.attempt,
    }
    log.info(
        "%s: task %s begins", ctx.execution_id, ctx.task, extra={**said, "event": "task.start"}
    )
    began = time.perf_counter()
    raised: BaseException | None = None
    try:
        return await call()
    except BaseException as error:
        raised = error
        raise
    finally:
        end = _end(raised)
        took = round((time.perf_counter() - began) * 1_000, 3)
        more = {**said, "event": "task.end", "end": end, "elapsed_ms": took}
        if end == "failed":
            more["raised"] = type(raised).__name__
        log.info("%s: task %s %s after %.1f ms", ctx.execution_id, ctx.task, end, took, extra=more)


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
