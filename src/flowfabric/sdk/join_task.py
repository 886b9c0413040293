"""The last of a flow of children: a task of our own that wakes their parent."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from flowfabric.errors import NotFound, StateError
from flowfabric.sdk.children import AGAIN, JOIN
from flowfabric.sdk.context import Context
from flowfabric.sdk.task import Task

if TYPE_CHECKING:
    from flowfabric.sdk.app import App


def joining(app: App) -> Task[..., Any]:
    async def join(ctx: Context, parent: str, mailbox: str) -> None:
        await wake(app, parent, mailbox, str(ctx.execution_id))

    return Task(
        app, join, name=JOIN, lane="default", retry=AGAIN, timeout=None, priority=0, requires=()
    )


async def wake(app: App, parent: str, mailbox: str, source: str) -> None:
    """Tells the parent at every mailbox of that name. A parent that has none yet makes one, and then looks for itself."""
    engine, run, after = await app.engine(), app.run(parent), None
    while True:
        try:
            page = await engine.list_pending_waitpoints(run.id, after)
        except NotFound:
            return
        for waitpoint in page.items:
            if waitpoint.waitpoint_key == mailbox:
                with suppress(NotFound, StateError):  # it has gone on already
                    await run.signal("ended", source=source, waitpoint=waitpoint.waitpoint_id)
        after = page.next_cursor
        if after is None:
            return
