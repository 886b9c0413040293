"""The resources used by a process that lasts for the whole run, logged by the process."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
from pathlib import Path

from .logs import Log

TELL_EVERY_S = 5.0
VITALS = ("rss_mb", "descriptors", "tasks")
PAGE = resource.getpagesize()


async def tell_vitals(log: Log) -> None:
    while True:
        log.write("note", "vitals", **vitals())
        await asyncio.sleep(TELL_EVERY_S)


def vitals() -> dict[str, float]:
    """Counts the tasks of every event loop of the process."""
    return {
        "rss_mb": int(Path("/proc/self/statm").read_text().split()[1]) * PAGE / 1e6,
        "descriptors": len(os.listdir("/proc/self/fd")),
        "tasks": sum(
            isinstance(each, asyncio.Task) and not each.done() for each in gc.get_objects()
        ),
    }
